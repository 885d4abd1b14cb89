"""Launches that are more than a launch: arguments the user does not pass, or a choice between two kernels.

A kernel whose pointer loads were raised to TMA (`tawa.transforms.raise_loads`, ``make="host"``) has descriptors behind
its own arguments. Its `CompiledKernel` becomes a `KernelWithDescriptors` as soon as it is made: each launch computes
the descriptors from the arguments, as the kernel's `LaunchSpec` says, and passes them on as Triton passes a host
descriptor. Where a condition of the spec does not hold for a launch, or it is too short to pay, the stock kernel is
launched in its place.

With ``mode="measure"`` the first launch times both kernels on its arguments, if running twice does no harm, and the
faster one is launched from then on (`tawa.runtime.measure`).

Only launches that go through `CompiledKernel.run` can be changed so. Code that compiles a kernel and launches the cubin
by itself (ahead-of-time tools) knows nothing of added arguments; so they are added only where a `JITFunction`, or
Inductor in this process, compiles for a launch of its own (`launch_is_ours`), and that is part of the key on disk.
Elsewhere the kernel makes its descriptors in scratch memory, which Triton asks an allocator for that few users have
set: then that of `use_allocator`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any, Literal

from tawa.analysis.launch_values import DescriptorSpec, LaunchSpec
from tawa.bridge import record
from tawa.bridge.request import activate

_log = logging.getLogger("tawa")
_ours: ContextVar[bool] = ContextVar("tawa_launch_is_ours", default=False)

_MOST_KNOWN = 1024
_NOTHING = nullcontext()
_LEAST_ADDRESS = 1 << 32  # sizes are less, memory of a GPU lies above
_ELEMENTS = {
    "f16": "fp16",
    "bf16": "bf16",
    "f32": "fp32",
    "f64": "fp64",
    "f8E4M3FN": "fp8e4nv",
    "f8E5M2": "fp8e5",
}
"""Triton's names of element types in a signature; integers have the same name in both."""


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


_allocate: Callable[[int, int, int | None], Any] | None = None


def use_allocator(allocate: Callable[[int, int, int | None], Any]) -> None:
    """Sets who gives scratch memory (bytes, alignment, stream → something with ``data_ptr()``) if the user did not."""
    global _allocate
    _allocate = allocate


Referee = Callable[[str, str, Callable[[], None], Callable[[], None]], Literal["stock", "tawa"] | None]
_referee: Referee | None = None


def use_referee(referee: Referee) -> None:
    """Sets who measures: (key, name, launch of the stock kernel, launch of ours) → the faster, or None for not now."""
    global _referee
    _referee = referee


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
                spec, own = launch_spec(self), self.src
                self.src = _Extended(own, spec.descriptors)
                try:
                    super()._init_handles()
                finally:
                    self.src = own
                measured = bool(getattr(self.metadata, record.KEY)["launch"].get("measure"))
                self._run = _Launch(self, self._run, spec, measured, _multiprocessors())

        _classes[base] = KernelWithDescriptors
    return _classes[base]


class _Extended:
    """An `ASTSource` with the added descriptors in its signature: what Triton makes a launcher of."""

    def __init__(self, source: Any, descriptors: Sequence[DescriptorSpec]) -> None:
        self._source = source
        added = {f"tawa_desc_{number}": _type_text(spec) for number, spec in enumerate(descriptors)}
        self.signature = {**source.signature, **added}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def _type_text(spec: DescriptorSpec) -> str:
    return f"tensordesc<{_ELEMENTS.get(spec.element, spec.element)}[{','.join(map(str, spec.block))}]>"


@dataclass(slots=True)
class _Memory:
    """Stands for a tensor where Triton asks for its address."""

    address: int

    def data_ptr(self) -> int:
        return self.address


@dataclass(slots=True)
class _Descriptor:
    """Stands for Triton's `TensorDescriptor`, without its checks: the spec's conditions are them."""

    base: _Memory
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False


class _Launch:
    """The launcher of one kernel on one device."""

    def __init__(
        self, kernel: Any, inner: Callable[..., None], spec: LaunchSpec, measured: bool = False, processors: int = 1
    ) -> None:
        self.kernel, self.inner, self.spec, self.processors = kernel, inner, spec, processors
        self.present = _present(kernel.src.signature.values())
        self.known: dict[tuple[Any, ...], list[_Descriptor] | str] = {}
        self.scratch = bool(kernel.metadata.global_scratch_size)
        self.undecided = measured
        self.slower = False
        self.stock: Any = None

    def __call__(
        self, grid_0: int, grid_1: int, grid_2: int, stream: int, function: int, packed: Any, launch_metadata: Any,
        enter: Any, leave: Any, *args: Any,
    ) -> None:  # fmt: skip
        """Launches with descriptors; the stock kernel where these arguments do not allow them."""
        launch = (grid_0, grid_1, grid_2, stream), (launch_metadata, enter, leave), args
        with _scratch() if self.scratch else _NOTHING:
            values = tuple(_flat(self.present, args))
            made = self._made_for(values, -(-grid_0 * grid_1 * grid_2 // self.processors))
            if isinstance(made, str):
                self._launch_stock(made, *launch)
                return

            def ours() -> None:
                self.inner(*launch[0], function, packed, *launch[1], *args, *made)

            if self.undecided and _referee is not None and _all_different(values):
                self._decide(ours, lambda: self._launch_stock("to be measured", *launch))
            if self.slower:
                self._launch_stock("measured to be faster", *launch)
            else:
                ours()

    def _made_for(self, values: tuple[Any, ...], rounds: int) -> list[_Descriptor] | str:
        """The descriptors for these arguments, or why the stock kernel is better; most launches repeat earlier ones."""
        known = self.known.get((rounds, *values))
        if known is None:
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            known = self.known[rounds, *values] = self._make_for(values, rounds)
        return known

    def _make_for(self, values: tuple[Any, ...], rounds: int) -> list[_Descriptor] | str:
        broken = self.spec.broken(values)
        if broken is not None:
            return f"not so that {broken}"
        if self.spec.too_short(values, rounds):
            return "the launch is over too soon to pay"
        return [_descriptor(spec, values) for spec in self.spec.descriptors]

    def _decide(self, ours: Callable[[], None], stock: Callable[[], None]) -> None:
        """Asks the referee which is faster; he may put it off to a later launch."""
        assert _referee is not None
        faster = _referee(self.kernel.hash, self.kernel.name, stock, ours)
        if faster is not None:
            self.undecided, self.slower = False, faster == "stock"

    def _launch_stock(self, reason: str, where: tuple[Any, ...], hooks: tuple[Any, ...], args: tuple[Any, ...]) -> None:
        stock = self._stock(reason)
        stock.run(*where, stock.function, stock.packed_metadata, *hooks, *args)

    def _stock(self, reason: str) -> Any:
        if self.stock is None:
            import triton

            _log.info("%s: launched as stock Triton compiles it: %s", self.kernel.name, reason)
            metadata = self.kernel.metadata
            names = [name for name in _option_names(metadata) if hasattr(metadata, name)]
            options = {name: _tuples(getattr(metadata, name)) for name in names}
            options["num_warps"] = getattr(metadata, record.KEY)["launch"]["num_warps"]
            with activate(None), launched_by_us(False):
                self.stock = triton.compile(self.kernel.src, target=metadata.target, options=options)
                self.stock._init_handles()
        return self.stock


def _multiprocessors() -> int:
    """SMs of the GPU that is in use."""
    from triton.runtime import driver

    active: Any = driver.active
    return active.utils.get_device_properties(active.get_current_device())["multiprocessor_count"]


@contextmanager
def _scratch() -> Iterator[None]:
    """Our allocator for one launch, if the user set none."""
    from triton.runtime import _allocation

    slot: Any = _allocation._allocator
    if _allocate is None or not isinstance(slot.get(), _allocation.NullAllocator):
        yield
        return
    token = slot.set(_allocate)
    try:
        yield
    finally:
        slot.reset(token)


def _all_different(values: Sequence[Any]) -> bool:
    """Whether no two arguments are one tensor: one that is read and written would change with each run."""
    addresses = [value for value in values if isinstance(value, int) and value >= _LEAST_ADDRESS]
    return len(set(addresses)) == len(addresses)


def _option_names(metadata: Any) -> list[str]:
    from triton.compiler.compiler import make_backend

    options: Any = make_backend(metadata.target).parse_options({})
    return [field.name for field in fields(options)]


def _tuples(value: Any) -> Any:
    """What JSON made lists of, as it was."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _descriptor(spec: DescriptorSpec, values: Sequence[int]) -> _Descriptor:
    address, shape, strides = spec.evaluate(values)
    return _Descriptor(_Memory(address), list(shape), list(strides), list(spec.block))


def _present(types: Any) -> tuple[Any, ...]:
    """For each parameter how many arguments of the kernel's function it becomes: tuples of counts for tuples."""
    return tuple(_present(type) if isinstance(type, tuple) else _count(type) for type in types)


def _count(type: str) -> int:
    if type == "constexpr":
        return 0
    if type.startswith("tensordesc"):
        rank = type[type.index("[") + 1 : type.index("]")].count(",") + 1
        return 1 + 2 * rank
    return 1


def _flat(present: Sequence[Any], args: Sequence[Any]) -> Iterator[Any]:
    """The arguments in the order of the kernel's function, pointers as addresses; descriptors as zeros."""
    for count, arg in zip(present, args, strict=True):
        if isinstance(count, tuple):
            yield from _flat(count, arg)
        elif count == 1:
            yield arg.data_ptr() if hasattr(arg, "data_ptr") else arg
        else:
            yield from (0 for _ in range(count))


__all__ = ["launch_is_ours", "launch_spec", "launched_by_us", "wrap_do_compile", "wrap_kernel_init"]
