"""Errors of a simulated kernel, one class per cause. Each message states what is wrong, where, and how to cure it."""

from __future__ import annotations

from typing import ClassVar

from tawa.errors import TawaError
from tawa.remarks import SourceLocation


class SimulationError(TawaError):
    """Base class. The machine adds the operation, its source line, the partition and the CTA."""

    cure: ClassVar[str] = ""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.op: str = ""
        self.location: SourceLocation | None = None
        self.partition: str = ""
        self.program: tuple[int, ...] | None = None

    def __str__(self) -> str:
        op = f"{self.op}: " if self.op else ""
        where = f"\n  at {self.location}" if self.location else ""
        program = f" of program {self.program}" if self.program else ""
        who = f"\n  in partition {self.partition}{program}" if self.partition else ""
        cure = f"\n  cure: {self.cure}" if self.cure else ""
        return f"{op}{self.reason}{where}{who}{cure}"


class UnsupportedOp(SimulationError):
    """The simulator does not implement an operation, or this form of it."""

    cure = "simulate a kernel without this operation, or implement it in tawa.sim"


class ArgumentError(SimulationError):
    """The arguments do not match the kernel's parameters."""

    cure = "pass one value for each parameter of the kernel, by name"


class EndlessLoop(UnsupportedOp):
    """A loop with at least one trip has a step of 0 or less, which Triton's language leaves undefined."""

    cure = "pass a step of 1 or more"


class Deadlock(SimulationError):
    """All partitions are blocked and no work is in flight; the message lists what each partition waits for."""

    cure = "add the missing arrival, transaction bytes or release of the barrier or slot"


class UnwrittenRead(SimulationError):
    """A read of shared or tensor memory that was never written, or whose TMA copy is in flight."""

    cure = "wait for the write before the read"


class MissingFence(SimulationError):
    """Generic-proxy and async-proxy (wgmma, TMA) accesses to the same bytes are not ordered by a proxy fence.

    Either the async proxy reads bytes that threads wrote, or it writes bytes that threads read or wrote. The partition
    that made the generic access executes the fence.
    """

    cure = "insert fence_async_shared (ttng.fence_async_shared in TTGIR) between the two accesses"


class SharedMemoryRace(SimulationError):
    """Shared memory is written or freed while an asynchronous operation reads or writes it."""

    cure = "wait for the asynchronous operation before the memory is released"


class TensorMemoryRace(SimulationError):
    """Tensor memory is read or written while an mma or a copy in flight writes it, or written while one reads it."""

    cure = "wait for a commit that follows the mma or the copy before the access"


class DescriptorInUse(SimulationError):
    """A descriptor overwrites an earlier one that a TMA copy in flight may still read."""

    cure = "wait for the copies before the descriptor is overwritten"


class AccumulatorInFlight(SimulationError):
    """The result of an asynchronous wgmma is used before the wait that covers it, or instead of that wait's result."""

    cure = "insert ttng.warp_group_dot_wait between the dot and the use, and use the result of the wait"


class BarrierMisuse(SimulationError):
    """An mbarrier is used before its initialisation, is initialised twice, or gets more arrivals than its count."""

    cure = "initialise each barrier once, and match the arrivals of each phase to its count"


class OutOfBounds(SimulationError):
    """An access is outside its tensor, or a view is outside its buffer."""

    cure = "sizes that fit the tensor, a mask for the access, or another index"


class MisalignedBox(SimulationError):
    """The innermost coordinate of a TMA box is not a multiple of 16 bytes: an illegal instruction on a GPU."""

    cure = "make the innermost coordinate a multiple of 16 bytes, for example by padding that dimension"


class StoreBeforeRow(SimulationError):
    """The innermost coordinate of a TMA store or reduction is negative: an illegal instruction on a GPU."""

    cure = "begin the box at column 0 or later"


class MisalignedDescriptor(SimulationError):
    """The address or a stride of a TMA descriptor is not a multiple of 16 bytes: the GPU cannot encode it."""

    cure = "let the tensor and its rows begin at multiples of 16 bytes"


class ProtocolTrap(SimulationError):
    """An aref is used out of order: the slot is at another round than the access expects."""

    cure = "carry one running count per partition through all loops around the accesses"


class FailedAssertion(SimulationError):
    """A tt.assert or llvm.intr.assume of the kernel is false."""

    cure = "pass arguments that meet the kernel's assumptions"
