"""What a simulated kernel can do wrong, one class per cause. Each text says what, where, and how to cure it."""

from __future__ import annotations

from typing import ClassVar

from tawa.errors import TawaError
from tawa.remarks import SourceLocation


class SimulationError(TawaError):
    """Base: the run stopped. The machine adds the operation, its source line, the partition and the CTA."""

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
    """The simulator has no meaning for an operation (or for this form of it) and does not guess one."""

    cure = "simulate a kernel without this operation, or teach tawa.sim its meaning"


class ArgumentError(SimulationError):
    """The arguments given do not fit the kernel's."""

    cure = "pass one value for each parameter of the kernel, by name"


class EndlessLoop(UnsupportedOp):
    """A loop begins with a step that leads nowhere: the language gives a step of 0 or less no meaning."""

    cure = "pass a step of 1 or more"


class Deadlock(SimulationError):
    """No partition can go on and nothing is in flight; the text lists what each partition waits for."""

    cure = "let somebody make the barrier or slot that is waited for complete"


class UnwrittenRead(SimulationError):
    """Shared memory is read that nobody wrote, or whose TMA copy has not landed."""

    cure = "wait for the write before the read"


class MissingFence(SimulationError):
    """The async proxy (wgmma, TMA) reads what the generic proxy wrote, or writes what it read, without a fence between.

    The fence is that of the one who wrote or read.
    """

    cure = "put ttng.fence_async_shared between the two"


class SharedMemoryRace(SimulationError):
    """Shared memory is written while an asynchronous operation reads or writes it."""

    cure = "wait for the asynchronous operation before the memory is given back"


class DescriptorInUse(SimulationError):
    """A descriptor is made where an earlier one lies, which a TMA copy in flight may still read."""

    cure = "wait for the copies before the descriptor is made anew"


class AccumulatorInFlight(SimulationError):
    """The result of an asynchronous wgmma is used before a wait that covers it, or past it but not through it."""

    cure = "put ttng.warp_group_dot_wait between the dot and the use, and use what it returns"


class BarrierMisuse(SimulationError):
    """An mbarrier is not initialised, is initialised twice, or gets more arrivals than its count."""

    cure = "initialise each barrier once, and arrive as often as its count says"


class OutOfBounds(SimulationError):
    """A pointer leaves its tensor, or a view its buffer."""

    cure = "mask the access, or correct the index"


class MisalignedBox(SimulationError):
    """A TMA box begins within 16 bytes of its innermost dimension: a GPU ends the kernel with "illegal instruction"."""

    cure = "let the innermost coordinate be a multiple of 16 bytes; pad what lies along that dimension"


class ProtocolTrap(SimulationError):
    """An aref is used out of order: the slot holds another round than the one asked for."""

    cure = "carry one running count a partition through every loop around the accesses"


class FailedAssertion(SimulationError):
    """A tt.assert or an assumption of the kernel does not hold."""

    cure = "pass arguments for which the kernel's assumptions hold"
