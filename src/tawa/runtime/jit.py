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
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import triton
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction, KernelInterface

from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.request import Request, activate, surrounding_request
from tawa.bridge.launch.known_launches import KnownLaunches, PreparedLaunch
from tawa.bridge.launch.why_stock import note_stock
from tawa.bridge.triton.artifacts.cache import warmup_suffix
from tawa.bridge.triton.artifacts.cache_entries import repaired
from tawa.bridge.triton.device import backend_option_names, missing_device
from tawa.bridge.triton.surroundings import surroundings_named
from tawa.bridge.triton.versions import untested_reason
from tawa.errors import KernelError
from tawa.runtime.decorated import check_source, refuse_lambda, refuse_outer_jit
from tawa.runtime.requests import (
    OPTION_NAMES,
    layered,
    make_request,
    reject_near_misses,
    set_log_level,
    take_options,
    with_shipped,
)
from tawa.runtime.settings import Settings
from tawa.runtime.untested import LeftToTriton, left_to_triton

_log = logging.getLogger("tawa")

_REQUEST_KEYWORD = "tawa_request"


class TawaFunction(JITFunction[Any]):
    """A `triton.jit` function under `tawa.jit`.

    Each launch takes Tawa's options out of the keyword arguments, makes them the active request, and passes the rest to
    Triton. An extra option carries the request into the key of Triton's cache in memory; `_pack_args` removes it again.
    """

    def __init__(self, fn: Callable[..., Any], defaults: Request, **triton_options: Any) -> None:
        super().__init__(fn, **triton_options)
        self.tawa_defaults = defaults
        self.last_kernel: Any = None
        self._own_options = OPTION_NAMES.difference(self.arg_names)
        self._requests: dict[Any, Request] = {}
        self._usual: tuple[Request | None, Request] | None = None
        self._known = KnownLaunches(self)

    def request_for(self, given: dict[str, Any]) -> Request:
        """The request of a launch with these options, in this context; raises PlanError on a bad option."""
        around = surrounding_request()
        if not given and self._usual is not None and self._usual[0] is around:
            return self._usual[1]
        # The types are in the key because True == 1, but only 1 is a depth.
        key = (tuple((name, type(value), _hashable(value)) for name, value in given.items()), around)
        try:
            request = self._requests[key]
        except (KeyError, TypeError):  # a new key, or an unhashable value, which is refused below
            settings = Settings.from_environment()
            set_log_level(settings)
            request = self._requests[key] = make_request(given, layered(self.tawa_defaults, around), settings)
        if not given:
            self._usual = (around, request)
        return request

    def __getitem__(self, grid: Any) -> Any:
        return partial(self.run, grid=grid, warmup=False)

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        """Launches the kernel, or with `warmup` only compiles it, as `JITFunction.run`; also takes Tawa's options."""
        if warmup or self.pre_run_hooks:
            self.last_kernel = self._run_by_triton(args, grid, warmup, kwargs)
            return self.last_kernel
        kernel = self._known.launch(args, grid, kwargs) if self._known.known else None
        if kernel is None:
            kernel = self._run_by_triton(args, grid, False, dict(kwargs))
            self._known.add(args, kwargs, kernel)
        self.last_kernel = kernel
        return kernel

    def _run_by_triton(self, args: tuple[Any, ...], grid: Any, warmup: bool, kwargs: dict[str, Any]) -> Any:
        """As `run`: Triton finds the kernel, and compiles it if there is none."""
        request = self.request_for(take_options(kwargs, self._own_options))
        if not request.stock:
            kwargs[_REQUEST_KEYWORD] = request.cache_suffix() + warmup_suffix(warmup)
        with activate(request):
            try:
                kernel = super().run(*args, grid=grid, warmup=warmup, **kwargs)
            except (KeyError, RuntimeError) as error:
                known = {*self.arg_names, *backend_option_names(), _REQUEST_KEYWORD}
                reject_near_misses(kwargs, known)
                device_error = missing_device(error, self.__name__)
                if device_error is not None:
                    raise device_error from error
                raise
        note_stock(kernel, request)
        return kernel

    def prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any], changing: int) -> PreparedLaunch | None:
        """Prepares launches like one that was made; see `KnownLaunches.prepared`."""
        return self._known.prepared(args, kwargs, changing)

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """As `JITFunction.add_pre_run_hook`: the hook sees only the arguments that the user passed."""
        super().add_pre_run_hook(_WithoutOurs(hook))

    @property
    def __wrapped__(self) -> Any:
        """Does not exist. `triton.jit` over `tawa.jit` looks it up, and is refused here with a useful error."""
        refuse_outer_jit(self)
        raise AttributeError("__wrapped__")

    def preload(self, specialization_data: str) -> Any:
        """As `JITFunction.preload`, under the request of a launch without options."""
        request = self.request_for({})
        if not request.stock and request.cache_suffix() not in specialization_data:
            raise RuntimeError(f"{self.__name__}: the data to preload was written under other options or another Tawa")
        with activate(request):
            return super().preload(specialization_data)

    def _pack_args(
        self, backend: Any, kwargs: dict[str, Any], bound_args: Any, specialization: Any, options: Any
    ) -> Any:
        known = {name: value for name, value in kwargs.items() if name != _REQUEST_KEYWORD}
        return super()._pack_args(backend, known, bound_args, specialization, options)

    def _do_compile(self, *args: Any, **kwargs: Any) -> Any:
        with surroundings_named(self, launched=True), attached():
            return repaired(lambda: super(TawaFunction, self)._do_compile(*args, **kwargs))

    def __repr__(self) -> str:
        return f"TawaFunction({self.module}:{self.fn.__qualname__})"


def _hashable(value: Any) -> Any:
    """The value of an option in a key; a Plan may be a dict, which is not hashable."""
    return repr(value) if isinstance(value, dict) else value


@dataclass(frozen=True, slots=True)
class _WithoutOurs:
    """A user's hook, called without Tawa's extra keyword."""

    hook: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.hook(*args, **{name: value for name, value in kwargs.items() if name != _REQUEST_KEYWORD})


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
    """Puts a Triton kernel under Tawa.

    kernel: a function under `triton.jit` (also below `triton.autotune` or `triton.heuristics`), or a plain function.
    options: Tawa's options as defaults of every launch; for a plain function also those of `triton.jit`.

    Returns a function of the same kind that is launched in the same way; without `kernel`, a decorator.
    Raises PlanError on a bad option, KernelError (a TypeError) if `kernel` is not a kernel.
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
        return _from_triton(kernel, with_shipped(defaults, kernel))
    if isinstance(kernel, KernelInterface):  # what triton.jit makes under TRITON_INTERPRET=1
        return InterpretedTawaFunction(kernel, defaults)
    check_source(kernel)
    function = triton.jit(kernel, **options)
    return jit(function, **ours)


_JIT_OPTIONS = (
    "version", "repr", "launch_metadata", "do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline",
)  # fmt: skip


def _from_triton(kernel: JITFunction[Any], defaults: Request) -> Any:
    """The same kernel under Tawa. A Gluon kernel is returned as it is: it assigns its warps explicitly."""
    if untested_reason():
        return left_to_triton(kernel, defaults)
    if kernel.is_gluon():
        _log.warning(
            "%s: a Gluon kernel assigns work to warps explicitly; tawa.jit leaves it unchanged", kernel.__name__
        )
        return kernel
    refuse_lambda(kernel.fn)
    function = TawaFunction(
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


def _under_tuner(outer: Autotuner | Heuristics, options: dict[str, Any]) -> Any:
    """A copy of the tuner around the same kernel under Tawa."""
    tuner = copy.copy(outer)
    tuner.fn = jit(outer.fn, **options)
    if isinstance(tuner, Autotuner):
        tuner.cache = {}  # the stock kernel's timings do not apply
    return tuner
