"""The launcher of one kernel with added arguments, or with a choice: the kernel, its persistent form, the stock kernel.

Each launch needs the descriptors that the kernel's `LaunchSpec` makes of its arguments. If a condition of the spec does
not hold, or the launch is too short to pay, the stock kernel is launched. With more programs than SMs the persistent
form is launched, if there is one: with one program for each SM, and with the size of the grid behind the arguments.

The decision is made once for each value of the arguments that it depends on, and the descriptors are kept in the form
that the hardware reads. Host time per launch matters: kernels may take only 10 µs, and Triton's autotuner counts it.

With ``mode="measure"`` the first launch times both kernels on its arguments, if running twice is harmless, and the
faster one is launched from then on (`tawa.runtime.pytorch.benchmark`).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from operator import itemgetter
from typing import Any

from tawa.analysis.tma.launch_choice import fits, rounds_of, why_not_launchable, why_slower
from tawa.bridge.launch.argument_paths import argument_paths, plain_value, values_at
from tawa.bridge.launch.host import NO_HOST, Allocate, Form, Host
from tawa.symbolic.host.launch_spec import DescriptorSpec, LaunchSpec

_log = logging.getLogger("tawa")

_MOST_KNOWN = 1024
_LEAST_ADDRESS = 1 << 32
"""Smaller integers are sizes; GPU memory has larger addresses."""


@dataclass(slots=True)
class _Memory:
    """Stands for a tensor where Triton asks for its address."""

    address: int

    def data_ptr(self) -> int:
        return self.address


@dataclass(slots=True)
class MadeDescriptor:
    """Stands for Triton's `TensorDescriptor`. It needs no checks: the spec's conditions cover them."""

    base: _Memory
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False


Encoder = Callable[[int, MadeDescriptor], Sequence[Any]]


def encoder(about: Sequence[Any]) -> Encoder:
    """Returns a function that turns added descriptor `number` into arguments of Triton's launcher.

    about: Triton's metadata of each.
    """

    def encode(number: int, descriptor: MadeDescriptor) -> Sequence[Any]:
        from triton.backends.nvidia import driver

        make: Any = driver.make_tensordesc_arg
        # Later releases of Triton also pass the leading arguments of the launch; only the AMD backend reads them.
        return make(descriptor, about[number], *[()] * (len(inspect.signature(make).parameters) - 2))

    return encode


class Launcher:
    """Called in place of Triton's launcher. kernel: the compiled kernel. inner: Triton's launcher of it.

    encode: see `encoder`. compile_stock: compiles the stock kernel. compile_persistent: compiles the persistent form of
    this one; it returns None if there is none. measured: whether both kernels are timed. processors: SMs.
    """

    def __init__(
        self, kernel: Any, inner: Callable[..., None], spec: LaunchSpec, encode: Encoder,
        compile_stock: Callable[[], Any], compile_persistent: Callable[[], Any] = lambda: None,
        measured: bool = False, processors: int = 1, host: Host = NO_HOST,
    ) -> None:  # fmt: skip
        self.kernel, self.inner, self.spec, self.encode = kernel, inner, spec, encode
        self.compile_stock, self.compile_persistent, self.processors = compile_stock, compile_persistent, processors
        self.types = tuple(kernel.src.signature.values())
        self.paths, self.key_of = argument_paths(self.types), _key_of(self.types, spec.arguments)
        self.known: dict[tuple[Any, ...], _Made | str] = {}
        self.scratch = bool(kernel.metadata.global_scratch_size)
        self.faster: Form | None = None if measured else "tawa"
        self.host = host

    def __call__(
        self, grid_0: int, grid_1: int, grid_2: int, stream: int, function: int, packed: Any, launch_metadata: Any,
        enter: Any, leave: Any, *args: Any,
    ) -> None:  # fmt: skip
        """Launches with added arguments; another kernel where that is better, or these arguments demand it."""
        try:
            key = self.key_of(args)
        except AttributeError:  # an address in place of a tensor
            key = self.key_of(_with_tensors(self.types, args))
        made = self.known.get((grid_0, grid_1, grid_2, key))
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
        if not self.host.capturing():
            self.known[*grid, self.key_of(_with_tensors(self.types, args))] = made  # `made` may have changed `key_of`
        return made

    def _at_hand(self, form: str) -> bool:
        """Whether another form of the kernel can be used: during a capture only one that is compiled already."""
        return form in vars(self) or not self.host.capturing()

    def made(self, values: Sequence[Any], grid: tuple[int, ...]) -> _Made | str:
        """What such a launch needs, or why it gets the stock kernel."""
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
        own, inner = grid, _with_scratch(self.inner, self.host.allocate) if self.scratch else self.inner
        if self.spec.axes:
            own, added = (min(prod(grid), self.processors), 1, 1), (*added, *grid[: self.spec.axes])
        return _Made(inner, own, (self.kernel.function, self.kernel.packed_metadata), added)

    @cached_property
    def persistent(self) -> Any:
        """The persistent form of the kernel, or None. If its descriptors depend on more arguments, the key grows."""
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
        """Launches the faster kernel. Times both first if that was not done; the benchmark may defer it."""

        def ours() -> None:
            made.inner(*made.grid, where[3], *made.kernel, *hooks, *args, *made.added)

        if self.faster is None and self.host.benchmark is not None and _all_different(args):
            stock = partial(self._launch_stock, "to be measured", where, hooks, args)
            self.faster = self.host.benchmark(self.kernel.hash, self.kernel.name, stock, ours)
        if self.faster == "stock":
            self._launch_stock("measured to be faster", where, hooks, args)
        else:
            ours()

    def _launch_stock(self, reason: str, where: tuple[Any, ...], hooks: tuple[Any, ...], args: tuple[Any, ...]) -> None:
        if "stock" not in vars(self):
            _log.info("%s: the stock kernel is launched: %s", self.kernel.name, reason)
        with _scratch(self.host.allocate) if self.scratch else nullcontext():
            self.stock.run(*where, self.stock.function, self.stock.packed_metadata, *hooks, *args)


@dataclass(frozen=True, slots=True)
class _Made:
    """What launches with the same arguments and grid need.

    inner: Triton's launcher. kernel: the function and the packed metadata. added: arguments behind the user's.
    """

    inner: Callable[..., None]
    grid: tuple[int, ...]
    kernel: tuple[int, Any]
    added: tuple[Any, ...]


@contextmanager
def _scratch(allocate: Allocate | None) -> Iterator[None]:
    """Makes `allocate` Triton's allocator for one launch, if the user set none."""
    from triton.runtime import _allocation

    slot: Any = _allocation._allocator
    if allocate is None or not isinstance(slot.get(), _allocation.NullAllocator):
        yield
        return
    token = slot.set(allocate)
    try:
        yield
    finally:
        slot.reset(token)


def _with_scratch(inner: Callable[..., None], allocate: Allocate | None) -> Callable[..., None]:
    def launch(*args: Any) -> None:
        with _scratch(allocate):
            inner(*args)

    return launch


def _all_different(args: Sequence[Any]) -> bool:
    """Whether no two arguments share a tensor. A tensor that is both read and written would change with each run."""
    memory = list(_memory(args))
    return len(set(memory)) == len(memory)


def _memory(args: Sequence[Any]) -> Iterator[int]:
    """The address of each tensor's storage (a view has that of its base), also of tensors in tuples and descriptors."""
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


def _key_of(types: Sequence[Any], used: frozenset[int]) -> Callable[[Sequence[Any]], Any]:
    """Returns a function that reads, of the arguments of a launch, those that the kernel's function knows as `used`.

    Its result is hashable: addresses and numbers, in nested tuples. It raises AttributeError for a pointer that is
    given as an address.
    """
    known = argument_paths(types)
    paths = [path for index in sorted(used) if (path := known[index])]
    if any(len(path) > 1 for path in paths):
        return lambda args: tuple(values_at(paths, args))
    pointers = [at for (at,) in paths if types[at].startswith("*")]
    numbers = [at for (at,) in paths if not types[at].startswith("*")]
    return _reader(pointers, numbers)


def _with_tensors(types: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """The arguments of a launch, with a stand-in for a tensor in place of each address."""
    pointers = [isinstance(type, str) and type.startswith("*") for type in types]
    return [
        _Memory(it) if pointer and not hasattr(it, "data_ptr") else it
        for pointer, it in zip(pointers, args, strict=True)
    ]


def _reader(pointers: Sequence[int], numbers: Sequence[int]) -> Callable[[Sequence[Any]], Any]:
    """Reads the addresses at `pointers`, then the values at `numbers`.

    Every launch calls the result. A closure for a fixed number of pointers takes 0.2 µs, a loop over them 0.6 µs
    (`bench/launch_key.py`).
    """
    match pointers:
        case []:
            return itemgetter(*numbers) if numbers else lambda args: ()
        case [a]:
            rest = _reader((), numbers)
            return lambda args: (args[a].data_ptr(), rest(args))
        case [a, b]:
            rest = _reader((), numbers)
            return lambda args: (args[a].data_ptr(), args[b].data_ptr(), rest(args))
        case [a, b, c, *more]:
            rest = _reader(more, numbers)
            return lambda args: (args[a].data_ptr(), args[b].data_ptr(), args[c].data_ptr(), rest(args))
        case _:
            raise AssertionError(pointers)


__all__ = ["Encoder", "Launcher", "MadeDescriptor", "encoder"]
