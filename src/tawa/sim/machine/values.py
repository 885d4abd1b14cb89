"""What values are while a kernel runs.

i32, i1, …          Python int (signed; 0 or 1 for i1)          f32, f16, …        NumPy scalar
tensor<…xf16, …>    NumPy array (`numbers`): layouts have no meaning here, a tile is its elements
!tt.ptr, tiles      `Pointer`: a global tensor and an offset (an int, or an array of them)
!tt.tensordesc      `TensorDescriptor`                           !ttg.memdesc       `SharedView`
!aref.ring, count   `Ring` (arefs.py), Python int                async dot          `Accumulator`
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from tawa.ir import MemDescType, Operation, Value
from tawa.sim.errors import AccumulatorInFlight
from tawa.sim.numbers import Array


@dataclass(frozen=True, slots=True, eq=False)
class GlobalTensor:
    """A tensor in global memory: its bits in the order of memory, a view of the caller's array.

    descriptors: those that the kernel made in it, by place.
    """

    name: str
    bits: Array
    element: str
    descriptors: dict[int, TensorDescriptor] = field(default_factory=dict[int, "TensorDescriptor"])


@dataclass(frozen=True, slots=True, eq=False)
class Pointer:
    """Addresses in one tensor; `offset` counts elements."""

    tensor: GlobalTensor
    offset: Any


@dataclass(frozen=True, slots=True, eq=False)
class TensorDescriptor:
    """A TMA descriptor: a strided box of a tensor. Shape and strides count elements.

    nan_outside: what lies outside the tensor reads as NaN, not as zero. maker: the operation of the kernel that made
    it; whatever one operation makes lies in one place of global memory.
    """

    pointer: Pointer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]
    nan_outside: bool = False
    maker: Operation | None = None


@dataclass(slots=True, eq=False)
class Barrier:
    """An mbarrier: `phase` counts completed phases; `pending` arrivals and `bytes` are still to come in this one."""

    count: int
    pending: int
    name: str
    phase: int = 0
    bytes: int = 0


@dataclass(slots=True, eq=False)
class Buffer:
    """An allocation in shared memory. `state` says for each element who wrote it (see `shared`)."""

    name: str
    bits: Array
    state: Array
    barriers: dict[int, Barrier] = field(default_factory=dict[int, Barrier])


@dataclass(frozen=True, slots=True, eq=False)
class SharedView:
    """A view of a buffer: the same memory under another shape."""

    buffer: Buffer
    bits: Array
    state: Array
    type: MemDescType
    label: str


@dataclass(slots=True, eq=False)
class Accumulator:
    """The result of an asynchronous wgmma. `waited`: a wait has covered it, and what that wait returns may be used."""

    tile: Array | None = None
    waited: bool = False

    def use(self) -> Array:
        """Raises AccumulatorInFlight: the dot's own result is not tied to any wait, also where one stands between."""
        when = "past its wait: only what the wait returns is complete" if self.waited else "while the dot is in flight"
        raise AccumulatorInFlight(f"the result of an asynchronous dot is used {when}")

    def complete(self) -> Array:
        """What a wait that covers it returns."""
        assert self.waited and self.tile is not None
        return self.tile


class GlobalMemory(Protocol):
    """What an operation sees of global memory that no argument points to."""

    def pointer(self, addresses: Any, element: str) -> Pointer:
        """Where an address, or a tile of them, points to."""
        ...


class Context(Protocol):
    """What an operation sees of the partition that executes it."""

    env: dict[Value, Any]

    @property
    def program(self) -> tuple[int, int, int]:
        """The index of the CTA in the grid."""
        ...

    @property
    def grid(self) -> tuple[int, int, int]:
        """The grid."""
        ...

    @property
    def memory(self) -> GlobalMemory:
        """Where arrays lie in global memory."""
        ...


class Handler(Protocol):
    """The meaning of an operation that never waits: operands in, results out."""

    def __call__(self, context: Context, op: Operation, args: list[Any], /) -> list[Any]:
        """Executes `op`."""
        ...
