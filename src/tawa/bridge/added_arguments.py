"""Launches that are more than a launch: arguments the user does not pass, or a choice between two kernels.

A kernel whose pointer loads were raised to TMA (`tawa.transforms.raise_loads`, ``make="host"``) has descriptors behind
its own arguments. Its `CompiledKernel` becomes a `KernelWithDescriptors` as soon as it is made, whose `Launcher`
(`tawa.bridge.launcher`) makes the descriptors, or launches the stock kernel in its place.

Only launches that go through `CompiledKernel.run` can be changed so. Code that compiles a kernel and launches the cubin
by itself (ahead-of-time tools) knows nothing of added arguments; so they are added only where a `JITFunction`, or
Inductor in this process, compiles for a launch of its own (`launch_is_ours`), and that is part of the key on disk.
Elsewhere the kernel makes its descriptors in scratch memory, which Triton asks an allocator for that few users have
set: then ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from functools import partial
from typing import Any

from tawa.analysis.launch_values import DescriptorSpec, LaunchSpec
from tawa.bridge import record
from tawa.bridge.launcher import Launcher, encoder
from tawa.bridge.request import activate

_ours: ContextVar[bool] = ContextVar("tawa_launch_is_ours", default=False)


def launch_is_ours() -> bool:
    """Whether the compile in progress is for a launch through `CompiledKernel.run`."""
    return _ours.get()


@contextmanager
def launched_by_us(ours: bool = True) -> Iterator[None]:
    """Compiles inside the ``with`` block are (or are not) for such a launch."""
    token = _ours.set(ours)
    try:
        yield
    finally:
        _ours.reset(token)


def wrap_do_compile(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `JITFunction._do_compile`: what it compiles, unless only to warm up, it launches itself."""

    def do_compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        warmup = kwargs.get("warmup", args[-1] if args else False)
        with launched_by_us(not warmup):
            return original(self, *args, **kwargs)

    return do_compile


def wrap_kernel_init(original: Callable[..., None]) -> Callable[..., None]:
    """Wraps `CompiledKernel.__init__`: a kernel with a launch spec gets a class of ours, for good."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if (getattr(self.metadata, record.KEY, None) or {}).get("launch"):
            self.__class__ = _kernel_class(type(self))

    return __init__


def launch_spec(kernel: Any) -> LaunchSpec:
    """What a launch of a compiled kernel needs; an empty spec for most."""
    known = getattr(kernel.metadata, record.KEY, None) or {}
    return LaunchSpec.from_json(known["launch"]) if known.get("launch") else LaunchSpec()


_classes: dict[type, type] = {}


def _kernel_class(base: type) -> type:
    """`CompiledKernel` (imported late: Triton need not be there) with a launch of our own."""
    if base not in _classes:

        class KernelWithDescriptors(base):
            """A compiled kernel whose launcher makes descriptors."""

            @property
            def _cubin_path(self) -> str:
                """Where Inductor notes the cubin, to launch it by a launcher of its own, which would not make them."""
                raise NotImplementedError("Tawa makes arguments of this kernel at each launch")

            @_cubin_path.setter
            def _cubin_path(self, path: str) -> None:
                pass

            def _init_handles(self) -> None:
                if self.module is not None:
                    return
                spec, source, metadata = launch_spec(self), self.src, self.metadata
                # Triton's launcher encodes those descriptors anew at each launch of which it knows that they are some.
                known = metadata.tensordesc_meta or ()
                own, added = known[: -len(spec.descriptors) or None], known[len(known) - len(spec.descriptors) :]
                self.src, self.metadata = Extended(source, spec.descriptors), metadata._replace(tensordesc_meta=own)
                try:
                    super()._init_handles()
                finally:
                    self.src, self.metadata = source, metadata
                measured = bool(getattr(metadata, record.KEY)["launch"].get("measure"))
                stock = partial(_stock, self)
                self._run = Launcher(self, self._run, spec, encoder(added), stock, measured, _multiprocessors())

        _classes[base] = KernelWithDescriptors
    return _classes[base]


class Extended:
    """An `ASTSource` with the added descriptors in its signature, encoded: what Triton makes a launcher of."""

    def __init__(self, source: Any, descriptors: Sequence[DescriptorSpec]) -> None:
        self._source = source
        added: dict[str, str] = {}
        for number, spec in enumerate(descriptors):
            name, rank = f"tawa_desc_{number}", len(spec.block)
            added[name] = "nvTmaDesc"
            added |= {f"{name}_size_{dim}": "i32" for dim in range(rank)}
            added |= {f"{name}_stride_{dim}": "i64" for dim in range(rank)}
        self.signature = {**source.signature, **added}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def _stock(kernel: Any) -> Any:
    """The kernel as stock Triton compiles it, ready to be launched."""
    import triton

    metadata = kernel.metadata
    names = [name for name in _option_names(metadata) if hasattr(metadata, name)]
    options = {name: _tuples(getattr(metadata, name)) for name in names}
    options["num_warps"] = getattr(metadata, record.KEY)["launch"]["num_warps"]
    with activate(None), launched_by_us(False):
        made: Any = triton.compile(kernel.src, target=metadata.target, options=options)
        made._init_handles()
    return made


def _option_names(metadata: Any) -> list[str]:
    from triton.compiler.compiler import make_backend

    options: Any = make_backend(metadata.target).parse_options({})
    return [field.name for field in fields(options)]


def _tuples(value: Any) -> Any:
    """What JSON made lists of, as it was."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _multiprocessors() -> int:
    """SMs of the GPU that is in use."""
    from triton.runtime import driver

    active: Any = driver.active
    return active.utils.get_device_properties(active.get_current_device())["multiprocessor_count"]


__all__ = ["launch_is_ours", "launch_spec", "launched_by_us", "wrap_do_compile", "wrap_kernel_init"]
