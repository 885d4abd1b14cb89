"""The launcher of one kernel with added arguments, or with a choice: the kernel, its persistent form, or the stock one.

Each launch needs the descriptors that the kernel's `LaunchSpec` makes of its arguments. Where a condition of the spec
does not hold, or the launch is too short to pay, the stock kernel is launched; where there are more programs than SMs,
the persistent form, if there is one: on as many programs as there are SMs, with the size of the grid behind the
arguments. All this is found out once for each set
of those arguments that it depends on, and the descriptors are kept as the hardware reads them: what a launch costs on
the host counts for kernels of some 10 µs, and Triton's autotuner measures it with them.

With ``mode="measure"`` the first launch times both kernels on its arguments, if running twice does no harm, and the
faster one is launched from then on (`tawa.runtime.measure`).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import Any, Literal

from tawa.analysis.tma.launch_choice import fits, rounds_of, why_not_launchable, why_slower
from tawa.bridge.launch.argument_paths import argument_paths, plain_value, values_at
from tawa.symbolic.host.launch_spec import DescriptorSpec, LaunchSpec

_log = logging.getLogger("tawa")

_MOST_KNOWN = 1024
_LEAST_ADDRESS = 1 << 32  # sizes are less, memory of a GPU lies above

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


_capturing: Callable[[], bool] | None = None


def use_capture_check(capturing: Callable[[], bool]) -> None:
    """Sets who knows whether launches are being captured, as into a CUDA graph: then nothing is compiled or loaded."""
    global _capturing
    _capturing = capturing


def _captured() -> bool:
    return _capturing is not None and _capturing()


@dataclass(slots=True)
class _Memory:
    """Stands for a tensor where Triton asks for its address."""

    address: int

    def data_ptr(self) -> int:
        return self.address


@dataclass(slots=True)
class MadeDescriptor:
    """Stands for Triton's `TensorDescriptor`, without its checks: the spec's conditions are them."""

    base: _Memory
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False


Encoder = Callable[[int, MadeDescriptor], Sequence[Any]]


def encoder(about: Sequence[Any]) -> Encoder:
    """What makes of added descriptor `number` the arguments of Triton's launcher. about: Triton's notes on each."""

    def encode(number: int, descriptor: MadeDescriptor) -> Sequence[Any]:
        from triton.backends.nvidia import driver

        make: Any = driver.make_tensordesc_arg
        # Later Tritons pass the first arguments of the launch too, which only AMD's looks at.
        return make(descriptor, about[number], *[()] * (len(inspect.signature(make).parameters) - 2))

    return encode


class Launcher:
    """Called as Triton's launcher is. kernel: the compiled kernel. inner: Triton's launcher of it.

    encode: see `encoder`. compile_stock: makes the stock kernel. compile_persistent: makes the persistent form of this
    one, or None where that cannot be. measured: whether to ask the referee. processors: SMs.
    """

    def __init__(
        self, kernel: Any, inner: Callable[..., None], spec: LaunchSpec, encode: Encoder,
        compile_stock: Callable[[], Any], compile_persistent: Callable[[], Any] = lambda: None,
        measured: bool = False, processors: int = 1,
    ) -> None:  # fmt: skip
        self.kernel, self.inner, self.spec, self.encode = kernel, inner, spec, encode
        self.compile_stock, self.compile_persistent, self.processors = compile_stock, compile_persistent, processors
        self.types = tuple(kernel.src.signature.values())
        self.paths, self.key_of = argument_paths(self.types), _key_of(self.types, spec.arguments)
        self.known: dict[tuple[Any, ...], _Made | str] = {}
        self.scratch = bool(kernel.metadata.global_scratch_size)
        self.faster: Literal["stock", "tawa"] | None = None if measured else "tawa"

    def __call__(
        self, grid_0: int, grid_1: int, grid_2: int, stream: int, function: int, packed: Any, launch_metadata: Any,
        enter: Any, leave: Any, *args: Any,
    ) -> None:  # fmt: skip
        """Launches with added arguments; another kernel where that is better, or these arguments demand it."""
        made = self.known.get((grid_0, grid_1, grid_2, *self.key_of(args)))
        if made is None:
            made = self._keep((grid_0, grid_1, grid_2), args)
        if type(made) is _Made and self.faster == "tawa":
            made.inner(*made.grid, stream, *made.kernel, launch_metadata, enter, leave, *args, *made.added)
            return
        where, hooks = (grid_0, grid_1, grid_2, stream), (launch_metadata, enter, leave)
        if isinstance(made, str):
            self._launch_stock(made, where, hooks, args)
        else:
            self._launch_faster(made, where, hooks, args)

    def _keep(self, grid: tuple[int, ...], args: tuple[Any, ...]) -> _Made | str:
        if len(self.known) >= _MOST_KNOWN:
            self.known.clear()
        made = self.made(values_at(self.paths, args), grid)
        if not _captured():
            self.known[*grid, *self.key_of(args)] = made  # a persistent form may have come, with a key of its own
        return made

    def _at_hand(self, form: str) -> bool:
        """Whether another form of the kernel may be had: while launches are captured, only if it is there already."""
        return form in vars(self) or not _captured()

    def made(self, values: Sequence[Any], grid: tuple[int, ...]) -> _Made | str:
        """What such a launch takes, or why the stock kernel is better."""
        refused = why_not_launchable(self.spec, values, grid)
        if refused:
            return refused
        slower = why_slower(self.spec, values, grid, self.processors)
        if slower and self._at_hand("stock"):
            return slower
        many = rounds_of(grid, self.processors) > 1
        if many and self.spec.offered and fits(grid, self.spec.offered) and self._at_hand("persistent"):
            made = self.persistent.run.made(values, grid) if self.persistent is not None else ""
            if isinstance(made, _Made):
                return made
        found = [_descriptor(spec, values) for spec in self.spec.descriptors]
        added = tuple(it for number, descriptor in enumerate(found) for it in self.encode(number, descriptor))
        own, inner = grid, _with_scratch(self.inner) if self.scratch else self.inner
        if self.spec.axes:
            own, added = (min(prod(grid), self.processors), 1, 1), (*added, *grid[: self.spec.axes])
        return _Made(inner, own, (self.kernel.function, self.kernel.packed_metadata), added)

    @cached_property
    def persistent(self) -> Any:
        """The persistent form of the kernel, or None. It describes more: launches that differ there differ from now."""
        made = self.compile_persistent()
        if made is not None:
            self.key_of = _key_of(self.types, self.spec.arguments | made.run.spec.arguments)
            self.known.clear()
        return made

    @cached_property
    def stock(self) -> Any:
        """The stock kernel."""
        return self.compile_stock()

    def _launch_faster(
        self, made: _Made, where: tuple[Any, ...], hooks: tuple[Any, ...], args: tuple[Any, ...]
    ) -> None:
        """Asks the referee which kernel is faster, if he has not said; he may put it off to a later launch."""

        def ours() -> None:
            made.inner(*made.grid, where[3], *made.kernel, *hooks, *args, *made.added)

        if self.faster is None and _referee is not None and _all_different(args):
            stock = partial(self._launch_stock, "to be measured", where, hooks, args)
            self.faster = _referee(self.kernel.hash, self.kernel.name, stock, ours)
        if self.faster == "stock":
            self._launch_stock("measured to be faster", where, hooks, args)
        else:
            ours()

    def _launch_stock(self, reason: str, where: tuple[Any, ...], hooks: tuple[Any, ...], args: tuple[Any, ...]) -> None:
        if "stock" not in vars(self):
            _log.info("%s: launched as stock Triton compiles it: %s", self.kernel.name, reason)
        with _scratch() if self.scratch else nullcontext():
            self.stock.run(*where, self.stock.function, self.stock.packed_metadata, *hooks, *args)


@dataclass(frozen=True, slots=True)
class _Made:
    """What launches with the same arguments on the same grid take.

    inner: Triton's launcher. kernel: the function and the packed metadata. added: arguments behind the user's.
    """

    inner: Callable[..., None]
    grid: tuple[int, ...]
    kernel: tuple[int, Any]
    added: tuple[Any, ...]


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


def _with_scratch(inner: Callable[..., None]) -> Callable[..., None]:
    def launch(*args: Any) -> None:
        with _scratch():
            inner(*args)

    return launch


def _all_different(args: Sequence[Any]) -> bool:
    """Whether no two arguments are of one tensor: one that is read and written would change with each run."""
    memory = list(_memory(args))
    return len(set(memory)) == len(memory)


def _memory(args: Sequence[Any]) -> Iterator[int]:
    """Where the memory of each tensor begins, of views that of the whole; also of tensors in tuples and descriptors."""
    for arg in args:
        tensor = getattr(arg, "base", arg)  # of a descriptor
        if isinstance(arg, tuple):
            yield from _memory(arg)
        elif hasattr(tensor, "untyped_storage"):
            yield tensor.untyped_storage().data_ptr()
        elif isinstance(address := plain_value(tensor), int) and address >= _LEAST_ADDRESS:
            yield address


def _descriptor(spec: DescriptorSpec, values: Sequence[int]) -> MadeDescriptor:
    address, shape, strides = spec.evaluate(values)
    return MadeDescriptor(_Memory(address), list(shape), list(strides), list(spec.block))


# -- arguments ---------------------------------------------------------------------------------------------------------


def _key_of(types: Sequence[Any], used: frozenset[int]) -> Callable[[tuple[Any, ...]], Sequence[Any]]:
    """What reads off, of the arguments of a launch, those that the kernel's function knows as `used`."""
    known = argument_paths(types)
    paths = [path for index in sorted(used) if (path := known[index])]
    if any(len(path) > 1 for path in paths):
        return lambda args: values_at(paths, args)
    pointers = [at for (at,) in paths if types[at].startswith("*")]
    numbers = [at for (at,) in paths if not types[at].startswith("*")]
    # One expression is what a launch can afford: 0.5 µs instead of 2.
    parts = ", ".join([*(f"args[{at}].data_ptr()" for at in pointers), *(f"args[{at}]" for at in numbers)])
    read: Callable[[tuple[Any, ...]], Sequence[Any]] = eval(f"lambda args: [{parts}]")

    def key_of(args: tuple[Any, ...]) -> Sequence[Any]:
        try:
            return read(args)
        except AttributeError:  # an address in place of a tensor
            return values_at([(at,) for at in (*pointers, *numbers)], args)

    return key_of


__all__ = [
    "Encoder",
    "Launcher",
    "MadeDescriptor",
    "encoder",
    "use_allocator",
    "use_capture_check",
    "use_referee",
]
