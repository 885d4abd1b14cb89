"""Runtime representation of values.

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
from tawa.machine.nvidia import TMA_CHUNK_BYTES
from tawa.sim.errors import AccumulatorInFlight, MisalignedDescriptor
from tawa.sim.numbers import Array


@dataclass(frozen=True, slots=True, eq=False)
class GlobalTensor:
    """A tensor in global memory: its bits in memory order, a view of the caller's array.

    descriptors: the tensor descriptors that the kernel built in this memory, by offset.
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

    nan_outside: elements outside the tensor read as NaN instead of zero. maker: the operation of the kernel that built
    it; all descriptors of one operation are at the same address in global memory.
    """

    pointer: Pointer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]
    nan_outside: bool = False
    maker: Operation | None = None

    def __post_init__(self) -> None:
        tensor, width = self.pointer.tensor, self.pointer.tensor.bits.itemsize
        start = int(self.pointer.offset) * width
        if start % TMA_CHUNK_BYTES:
            raise MisalignedDescriptor(f"a descriptor of {tensor.name} begins {start} bytes behind its start")
        for dim, stride in enumerate(self.strides[:-1]):
            if int(stride) * width % TMA_CHUNK_BYTES:
                text = f"{stride} elements of dimension {dim}, {int(stride) * width} bytes"
                raise MisalignedDescriptor(f"a descriptor of {tensor.name} has a stride of {text}")


@dataclass(slots=True, eq=False)
class Barrier:
    """An mbarrier. phase: completed phases. pending, bytes: missing arrivals and bytes of the current phase."""

    count: int
    pending: int
    name: str
    phase: int = 0
    bytes: int = 0


@dataclass(slots=True, eq=False)
class Buffer:
    """An allocation in shared or tensor memory. state: what was written, and to whom it is visible (see `shared`)."""

    name: str
    bits: Array
    state: Array
    barriers: dict[int, Barrier] = field(default_factory=dict[int, Barrier])


@dataclass(frozen=True, slots=True, eq=False)
class SharedView:
    """A view of a buffer: the same memory in another shape or type.

    The arrays have the shape of the type, or another one with as many elements if no array has these in that shape.
    """

    buffer: Buffer
    bits: Array
    state: Array
    type: MemDescType
    label: str


@dataclass(slots=True, eq=False)
class Accumulator:
    """The result of an asynchronous wgmma. waited: a wait has covered it, and the result of that wait may be used."""

    tile: Array | None = None
    waited: bool = False

    def use(self) -> Array:
        """Raises AccumulatorInFlight: the dot's result has no data dependence on a wait, even on one before the use."""
        after = "after its wait: only the result of the wait is complete"
        when = after if self.waited else "while the dot is in flight"
        raise AccumulatorInFlight(f"the result of an asynchronous dot is used {when}")

    def complete(self) -> Array:
        """The tile, as the result of a wait that covers the dot."""
        assert self.waited and self.tile is not None
        return self.tile


class GlobalMemory(Protocol):
    """Global memory as operations see it that turn integers into pointers."""

    def pointer(self, addresses: Any, element: str) -> Pointer:
        """The pointer for an address or a tile of addresses."""
        ...


class Context(Protocol):
    """The partition that executes an operation, as its handler sees it."""

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
        """The address space of global memory."""
        ...


class Handler(Protocol):
    """Executes operations that never block: operands in, results out."""

    def __call__(self, context: Context, op: Operation, args: list[Any], /) -> list[Any]:
        """Executes `op`."""
        ...
