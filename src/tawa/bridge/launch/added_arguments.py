"""Launches with arguments that the user does not pass, or with a choice between two kernels.

A kernel whose pointer loads were promoted to TMA (`tawa.transforms.ttir.promote_to_tma`, ``make="host"``) takes
descriptors after its own arguments; a persistent kernel (`tawa.transforms.ttir.make_persistent`) takes the size of its
grid. While Tawa is attached, Triton makes a `LaunchedKernel` in place of its `CompiledKernel`. For such a kernel its
`Launcher` (`tawa.bridge.launch.launcher`) makes these arguments, or launches the persistent form or the stock kernel
instead.

This works only for launches through `CompiledKernel.run`. Code that compiles a kernel and launches the cubin by itself
(ahead-of-time tools) would not pass added arguments. They are therefore added only where a `JITFunction`, or Inductor
in this process, compiles for a launch of its own (`launch_is_ours`), and that is part of the key on disk. Elsewhere the
kernel makes its descriptors in scratch memory. Triton gets that from an allocator that few users set; the host's
allocator is used then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from threading import RLock
from typing import Any

from tawa.bridge.driver.annotations import STOCK_WITHOUT
from tawa.bridge.driver.request import Request, activate, surrounding_request
from tawa.bridge.launch.host import NO_HOST
from tawa.bridge.launch.launcher import Launcher, encoder
from tawa.bridge.launch.why_stock import note_surrounding
from tawa.bridge.report import record
from tawa.dialects.tt import GRID_SIZE
from tawa.plan import PlanOptions
from tawa.plan.decide.persistent import options_of_persistent, why_shallower
from tawa.symbolic.host.launch_spec import LaunchSpec

_log = logging.getLogger("tawa")

_ours: ContextVar[frozenset[str] | None] = ContextVar("tawa_launch_is_ours", default=None)


def launch_is_ours() -> bool:
    """Whether the compile in progress is for a launch through `CompiledKernel.run`."""
    return _ours.get() is not None


def may_be_one() -> frozenset[str]:
    """Parameters of a kernel compiled for such a launch that may be 1 without Triton folding them to a constant."""
    return _ours.get() or frozenset()


@contextmanager
def launched_by_us(ours: bool = True, function: Any = None) -> Iterator[None]:
    """Marks compiles inside the ``with`` block as for such a launch, or not. function: the `JITFunction`, if known."""
    token = _ours.set(_left_open(function) if ours else None)
    try:
        yield
    finally:
        _ours.reset(token)


def _left_open(function: Any) -> frozenset[str]:
    """Parameters that stay arguments when they are 1: annotated with a type, or not specialised on request."""
    parameters = [it for it in getattr(function, "params", ()) if not it.is_constexpr]
    return frozenset(it.name for it in parameters if it.do_not_specialize or it.annotation_type)


def wrap_do_compile(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `JITFunction._do_compile`, which launches the kernel that it compiles, except in a warmup."""

    def do_compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        warmup = kwargs.get("warmup", args[-1] if args else False)
        with launched_by_us(not warmup, self):
            return original(self, *args, **kwargs)

    return do_compile


Attached = Callable[[], AbstractContextManager[None]]


def launch_spec(kernel: Any) -> LaunchSpec:
    """What a launch of a compiled kernel needs; an empty spec for most."""
    known = getattr(kernel.metadata, record.KEY, None) or {}
    return LaunchSpec.from_json(known["launch"]) if known.get("launch") else LaunchSpec()


_loading = RLock()


@cache
def kernel_class(base: type, attached: Attached) -> type:
    """A subclass of Triton's `CompiledKernel` that launches kernels with a launch spec by a `Launcher`.

    base: `CompiledKernel`, imported by the caller: Triton need not be installed. attached: the context in which Tawa
    takes part in compiles, for a launch that compiles another form of the kernel long afterwards.
    """

    class LaunchedKernel(base):
        """A compiled kernel. Without a launch spec it behaves as Triton's own."""

        has_own_launch = False

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            note_surrounding(self)  # first: the recorder, whose wrapper is in `base`, reads it
            super().__init__(*args, **kwargs)
            if (getattr(self.metadata, record.KEY, None) or {}).get("launch"):
                request = surrounding_request()
                self.has_own_launch = True
                self.tawa_host = request.host if request is not None else NO_HOST

        @property
        def _cubin_path(self) -> str:
            """The file that Inductor's own launcher loads. That launcher would not pass the added arguments."""
            if self.has_own_launch:
                raise NotImplementedError("Tawa makes arguments of this kernel at each launch")
            try:
                return self.__dict__["_cubin_path"]
            except KeyError:
                raise AttributeError("_cubin_path") from None

        @_cubin_path.setter
        def _cubin_path(self, path: str) -> None:
            self.__dict__["_cubin_path"] = path

        def _init_handles(self) -> None:
            if not self.has_own_launch:
                super()._init_handles()
                return
            with _loading:  # a second thread that launches waits until the first has loaded the kernel
                if self.module is None:
                    self._load()

        def _load(self) -> None:
            """Lets Triton load a copy that declares all arguments, and takes over its handles; the launcher last."""
            spec, metadata = launch_spec(self), self.metadata
            # Triton's launcher would encode each descriptor that its metadata lists anew at every launch.
            known = metadata.tensordesc_meta or ()
            own, added = known[: -len(spec.descriptors) or None], known[len(known) - len(spec.descriptors) :]
            twin = copy(self)
            twin.src, twin.metadata = Extended(self.src, spec), metadata._replace(tensordesc_meta=own)
            measured = bool(getattr(metadata, record.KEY)["launch"].get("measure"))
            others = partial(_stock, self, attached), partial(_persistent, self, attached)
            run: Any = None
            try:
                super(LaunchedKernel, twin)._init_handles()
                run = Launcher(
                    self, twin._run, spec, encoder(added), *others, measured, multiprocessors(), self.tawa_host
                )
            except BaseException:
                run = twin._run  # Triton left a launcher there that raises the error again
                raise
            finally:
                found = vars(twin).copy()
                twin.module = None  # else both would unload it
                for name in found.keys() - {"src", "metadata", "_run"}:
                    setattr(self, name, found[name])
                self._run = run

    return LaunchedKernel


class Extended:
    """An `ASTSource` whose signature has the added arguments, encoded. Triton makes the launcher from it."""

    def __init__(self, source: Any, spec: LaunchSpec) -> None:
        self._source = source
        added: dict[str, str] = {}
        for number, descriptor in enumerate(spec.descriptors):
            name, rank = f"tawa_desc_{number}", len(descriptor.block)
            added[name] = "nvTmaDesc"
            added |= {f"{name}_size_{dim}": "i32" for dim in range(rank)}
            added |= {f"{name}_stride_{dim}": "i64" for dim in range(rank)}
        added |= {f"{GRID_SIZE}{axis}": "i32" for axis in range(spec.axes)}
        self.signature = {**source.signature, **added}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def _stock(kernel: Any, attached: Attached) -> Any:
    """The kernel as stock Triton compiles it, ready to be launched."""
    return _loaded(compiled_by_stock(kernel, attached))


def compiled_by_stock(kernel: Any, attached: Attached) -> Any:
    """The kernel as stock Triton compiles it, without ``tl.range(warp_specialize=True)``."""
    if getattr(kernel.metadata, record.KEY)["launch"].get("annotated"):
        with attached(), activate(STOCK_WITHOUT), launched_by_us(False):
            return _compiled_again(kernel)
    with activate(None), launched_by_us(False):
        return _compiled_again(kernel)


def _persistent(kernel: Any, attached: Attached) -> Any:
    """The persistent form of a kernel, ready to be launched; None if it does not exist or is not expected to pay.

    A failure here is logged and never reaches the launch: the user did not ask for this form, and the kernel exists.
    """
    known = getattr(kernel.metadata, record.KEY)
    asked = known["launch"]
    options = options_of_persistent(PlanOptions(**asked["options"]))
    folder = Path(asked["reproducer_dir"]) if asked["reproducer_dir"] else None
    request = Request(options, reproducer_dir=folder, verification=known["verification"], host=kernel.tawa_host)
    try:
        with attached(), activate(request), launched_by_us(function=getattr(kernel.src, "fn", None)):
            made = _compiled_again(kernel)
        got = getattr(made.metadata, record.KEY)
        made_plan, own_plan = record.plan_of(got), record.plan_of(known)
        if made_plan is None or own_plan is None or not launch_spec(made).axes:
            reason = got["reason"]
        elif not (reason := why_shallower(made_plan, own_plan)):  # D may be lower than planned, to fit shared memory
            return _loaded(made)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    _log.info("%s: not made persistent: %s", kernel.name, reason)
    return None


def _loaded(kernel: Any) -> Any:
    kernel._init_handles()
    return kernel


def _compiled_again(kernel: Any) -> Any:
    """Compiles the kernel again, under the request that is active now."""
    import triton

    metadata = kernel.metadata
    names = [name for name in _option_names(metadata) if hasattr(metadata, name)]
    options = {name: _tuples(getattr(metadata, name)) for name in names}
    options["num_warps"] = getattr(metadata, record.KEY)["launch"]["num_warps"]
    return triton.compile(kernel.src, target=metadata.target, options=options)


def _option_names(metadata: Any) -> list[str]:
    from triton.compiler.compiler import make_backend

    options: Any = make_backend(metadata.target).parse_options({})
    return [field.name for field in fields(options)]


def _tuples(value: Any) -> Any:
    """Turns the lists of JSON back into tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def multiprocessors() -> int:
    """SMs of the GPU that is in use."""
    from triton.runtime import driver

    active: Any = driver.active
    return active.utils.get_device_properties(active.get_current_device())["multiprocessor_count"]


__all__ = [
    "compiled_by_stock",
    "kernel_class",
    "launch_is_ours",
    "launch_spec",
    "launched_by_us",
    "may_be_one",
    "multiprocessors",
    "wrap_do_compile",
]
