"""`tawa.jit`: a `triton.jit` function whose launches take Tawa's options.

```python
@triton.autotune(configs=[tawa.Config({"BLOCK_M": 128}, num_warps=8, aref_depth=3)], key=["M", "N", "K"])
@tawa.jit
@triton.jit
def kernel(...): ...
```

Without options Tawa decides: the kernel is specialised if that is legal and expected to pay, else stock Triton's.
"""

from __future__ import annotations

import copy
from typing import Any

import triton
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction, KernelInterface

from tawa.bridge.driver.request import Request
from tawa.bridge.triton.versions import untested_reason
from tawa.errors import KernelError
from tawa.runtime.decorated import check_source, refuse_lambda
from tawa.runtime.function import TawaFunction
from tawa.runtime.requests import (
    OPTION_NAMES,
    make_request,
    refuse_options,
    reject_near_misses,
    take_options,
)
from tawa.runtime.settings import Settings
from tawa.runtime.untested import LeftToTriton, left_to_triton


class InterpretedTawaFunction(KernelInterface[Any]):
    """Under ``TRITON_INTERPRET=1`` nothing is compiled: Tawa's options are checked and dropped."""

    def __init__(self, fn: Any, defaults: Request) -> None:
        self.fn = fn
        self.arg_names: list[str] = fn.arg_names
        self.tawa_defaults = defaults

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        """Interprets the kernel."""
        given = take_options(kwargs, OPTION_NAMES.difference(self.arg_names))
        make_request(given, self.tawa_defaults, Settings())
        return self.fn.run(*args, grid=grid, warmup=warmup, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls it from another interpreted kernel."""
        return self.fn(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "fn":
            raise AttributeError(name)
        return getattr(self.fn, name)


def is_under_tawa(function: Any) -> bool:
    """Whether a jitted function takes Tawa's options, that is, `tawa.jit` made it (on any Triton)."""
    return isinstance(function, (TawaFunction, LeftToTriton))


def jit(kernel: Any = None, **options: Any) -> Any:
    """Puts a Triton kernel under Tawa. A Gluon kernel stays as it is, and its protocol is verified when it compiles.

    kernel: a function under `triton.jit` (also below `triton.autotune` or `triton.heuristics`), or a plain function.
    options: Tawa's options as defaults of every launch; for a plain function also those of `triton.jit`.

    Returns a function of the same kind that is launched in the same way; without `kernel`, a decorator.
    Raises PlanError on a bad option, or any option for a Gluon kernel; KernelError (a TypeError) if `kernel` is not
    a kernel.
    """
    if kernel is None:
        return lambda function: jit(function, **options)
    ours = {name: options.pop(name) for name in list(options) if name in OPTION_NAMES}
    reject_near_misses(options, _JIT_OPTIONS)
    if isinstance(kernel, (Autotuner, Heuristics)):
        return _under_tuner(kernel, {**ours, **options})
    defaults = make_request(ours, getattr(kernel, "tawa_defaults", None), Settings())
    if isinstance(kernel, JITFunction):
        if options:
            raise KernelError(
                f"{sorted(options)}: these are options of triton.jit, which was applied already; cure: pass them there"
            )
        if kernel.is_gluon():
            refuse_options(kernel, ours)
        return _from_triton(kernel, defaults)
    if isinstance(kernel, KernelInterface):  # what triton.jit makes under TRITON_INTERPRET=1
        return InterpretedTawaFunction(kernel, defaults)
    check_source(kernel)
    function = triton.jit(kernel, **options)
    return jit(function, **ours)


_JIT_OPTIONS = (
    "version", "repr", "launch_metadata", "do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline",
)  # fmt: skip


def _from_triton(kernel: JITFunction[Any], defaults: Request) -> Any:
    """The same kernel under Tawa."""
    if untested_reason():
        return left_to_triton(kernel, defaults)
    refuse_lambda(kernel.fn)
    function = _class_for(kernel)(
        kernel.fn,
        defaults,
        version=kernel.version,
        do_not_specialize=kernel.do_not_specialize,
        do_not_specialize_on_alignment=kernel.do_not_specialize_on_alignment,
        debug=kernel.debug,
        noinline=kernel.noinline,
        repr=kernel._repr,
        launch_metadata=kernel.launch_metadata,
    )
    for hook in kernel.pre_run_hooks:
        function.add_pre_run_hook(hook)
    if kernel._src != function._src:
        function._unsafe_update_src(kernel._src)
    return function


def _class_for(kernel: JITFunction[Any]) -> type[TawaFunction]:
    if not kernel.is_gluon():
        return TawaFunction
    from tawa.runtime.gluon import GluonFunction  # without Gluon kernels, Triton's Gluon is not imported

    return GluonFunction


def _under_tuner(outer: Autotuner | Heuristics, options: dict[str, Any]) -> Any:
    """A copy of the tuner around the same kernel under Tawa."""
    tuner = copy.copy(outer)
    tuner.fn = jit(outer.fn, **options)
    if isinstance(tuner, Autotuner):
        tuner.cache = {}  # the stock kernel's timings do not apply
    return tuner
