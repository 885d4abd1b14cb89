"""Launches that are more than a launch: arguments the user does not pass, or a choice between two kernels.

A kernel whose pointer loads were promoted to TMA (`tawa.transforms.ttir.promote_to_tma`, ``make="host"``) has
descriptors behind its own arguments, a persistent one (`tawa.transforms.ttir.make_persistent`) the size of its grid.
Its `CompiledKernel` becomes a `KernelWithArguments` as soon as it is made, whose `Launcher`
(`tawa.bridge.launch.launcher`) makes them, or launches the persistent form, or the stock kernel in its place.

Only launches that go through `CompiledKernel.run` can be changed so. Code that compiles a kernel and launches the cubin
by itself (ahead-of-time tools) knows nothing of added arguments; so they are added only where a `JITFunction`, or
Inductor in this process, compiles for a launch of its own (`launch_is_ours`), and that is part of the key on disk.
Elsewhere the kernel makes its descriptors in scratch memory, which Triton asks an allocator for that few users have
set: then ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import fields
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any

from tawa.bridge.driver.annotations import STOCK_WITHOUT
from tawa.bridge.driver.request import Request, activate
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
    """The parameters whose value Triton does not tell where it is 1, in a compile for such a launch."""
    return _ours.get() or frozenset()


@contextmanager
def launched_by_us(ours: bool = True, function: Any = None) -> Iterator[None]:
    """Compiles inside the ``with`` block are (or are not) for such a launch. function: the `JITFunction`, if known."""
    token = _ours.set(_left_open(function) if ours else None)
    try:
        yield
    finally:
        _ours.reset(token)


def _left_open(function: Any) -> frozenset[str]:
    """Parameters that stay arguments though they are 1: annotated with a type, or kept from being specialised."""
    parameters = [it for it in getattr(function, "params", ()) if not it.is_constexpr]
    return frozenset(it.name for it in parameters if it.do_not_specialize or it.annotation_type)


def wrap_do_compile(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `JITFunction._do_compile`: what it compiles, unless only to warm up, it launches itself."""

    def do_compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        warmup = kwargs.get("warmup", args[-1] if args else False)
        with launched_by_us(not warmup, self):
            return original(self, *args, **kwargs)

    return do_compile


Attached = Callable[[], AbstractContextManager[None]]


def wrap_kernel_init(original: Callable[..., None], attached: Attached) -> Callable[..., None]:
    """Wraps `CompiledKernel.__init__`: a kernel with a launch spec gets a class of ours, for good.

    attached: in which Tawa takes part in compiles, also when a launch compiles another form long afterwards.
    """

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        note_surrounding(self)
        ours = type(self) in _classes.values()  # somebody who wraps this wrapper may let it run twice
        if (getattr(self.metadata, record.KEY, None) or {}).get("launch") and not ours:
            self.__class__ = _kernel_class(type(self), attached)

    return __init__


def launch_spec(kernel: Any) -> LaunchSpec:
    """What a launch of a compiled kernel needs; an empty spec for most."""
    known = getattr(kernel.metadata, record.KEY, None) or {}
    return LaunchSpec.from_json(known["launch"]) if known.get("launch") else LaunchSpec()


_classes: dict[type, type] = {}
_loading = RLock()


def _kernel_class(base: type, attached: Attached) -> type:
    """`CompiledKernel` (imported late: Triton need not be there) with a launch of our own."""
    if base not in _classes:

        class KernelWithArguments(base):
            """A compiled kernel with a launcher of ours."""

            @property
            def _cubin_path(self) -> str:
                """Where Inductor notes the cubin, to launch it by a launcher of its own, which would not make them."""
                raise NotImplementedError("Tawa makes arguments of this kernel at each launch")

            @_cubin_path.setter
            def _cubin_path(self, path: str) -> None:
                pass

            def _init_handles(self) -> None:
                with _loading:  # the first launch of a second thread waits until all is there
                    if self.module is None:
                        self._load()

            def _load(self) -> None:
                """Lets Triton load a twin that has all arguments, and takes over what it found; the launcher last."""
                spec, metadata = launch_spec(self), self.metadata
                # Triton's launcher encodes those descriptors anew at each launch of which it knows that they are some.
                known = metadata.tensordesc_meta or ()
                own, added = known[: -len(spec.descriptors) or None], known[len(known) - len(spec.descriptors) :]
                twin = copy(self)
                twin.src, twin.metadata = Extended(self.src, spec), metadata._replace(tensordesc_meta=own)
                measured = bool(getattr(metadata, record.KEY)["launch"].get("measure"))
                others = partial(_stock, self, attached), partial(_persistent, self, attached)
                run: Any = None
                try:
                    super(KernelWithArguments, twin)._init_handles()
                    run = Launcher(self, twin._run, spec, encoder(added), *others, measured, multiprocessors())
                except BaseException:
                    run = twin._run  # what Triton left there says the error again
                    raise
                finally:
                    found = vars(twin).copy()
                    twin.module = None  # else each of the two would unload it
                    for name in found.keys() - {"src", "metadata", "_run"}:
                        setattr(self, name, found[name])
                    self._run = run

        _classes[base] = KernelWithArguments
    return _classes[base]


class Extended:
    """An `ASTSource` with the added arguments in its signature, encoded: what Triton makes a launcher of."""

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
    """The persistent form of a kernel, ready to be launched; None where there is none, or it is not worth having.

    Nobody asked for it by name, and the kernel is there as it is: so nothing that goes wrong here reaches the launch.
    """
    known = getattr(kernel.metadata, record.KEY)
    asked = known["launch"]
    options = options_of_persistent(PlanOptions(**asked["options"]))
    folder = Path(asked["reproducer_dir"]) if asked["reproducer_dir"] else None
    request = Request(options, reproducer_dir=folder, verification=known["verification"])
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
    """What a compile of the same kernel gives now."""
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
    """What JSON made lists of, as it was."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def multiprocessors() -> int:
    """SMs of the GPU that is in use."""
    from triton.runtime import driver

    active: Any = driver.active
    return active.utils.get_device_properties(active.get_current_device())["multiprocessor_count"]


__all__ = [
    "compiled_by_stock",
    "launch_is_ours",
    "launch_spec",
    "launched_by_us",
    "may_be_one",
    "multiprocessors",
    "wrap_do_compile",
    "wrap_kernel_init",
]
