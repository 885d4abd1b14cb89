"""The entries of a Plan: what it says of one partition, load, store, ring or loop, and of launches.

Each field may be None: then it is left to the planner. A field with a value that it cannot have raises PlanError.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tawa.dialects.aref import Fill
from tawa.errors import PlanError
from tawa.plan.schedule import Schedule

Path = Literal[
    "host_descriptor", "kernel_descriptor", "raised", "raised_in_kernel", "cp.async", "registers", "consumer",
    "pointers",
]  # fmt: skip
PartitionRole = Literal["producer", "consumer"]
Launched = Literal["stock", "specialised"]


UNCAPPED = 0
"""In place of a number of registers: left to Triton."""


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """One partition (warp group). `registers` of a thread; 0 leaves them to Triton's even split."""

    name: str
    role: PartitionRole
    num_warps: int
    registers: int | None = None

    def __post_init__(self) -> None:
        check_numbers(self, "num_warps", "registers")
        check_words(self, role=PartitionRole)


@dataclass(frozen=True, slots=True)
class OperandPlan:
    """One load.

    path: how its tile reaches those who need it.
        host_descriptor, kernel_descriptor  by TMA, as the kernel is written
        raised, raised_in_kernel            by TMA in place of pointers; the descriptor is made by the launcher, or by
                                            the kernel
        cp.async, registers                 through pointers, by copies of the producer's threads, or their registers
        pointers                            one of these two, whichever it can be
        consumer                            the warps that compute load it themselves
    ring: the ring that carries it; operands of one ring that are loaded side by side for the same dots share a slot,
    others have their turns. None where no ring does.
    hoisted: it is loaded beside the load before it that feeds the same dots, so that both fill one slot.
    prefetched: a consumer loads it one iteration before it is used.
    """

    argument: str | None = None
    loop: int | None = None
    ordinal: int = 0
    path: Path | None = None
    ring: str | None = None
    hoisted: bool | None = None
    prefetched: bool | None = None
    line: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_numbers(self, "loop", "ordinal")
        check_flags(self, "hoisted", "prefetched")
        check_words(self, path=Path)

    @property
    def key(self) -> tuple[str | None, int | None, int]:
        """What tells it from other loads."""
        return self.argument, self.loop, self.ordinal


@dataclass(frozen=True, slots=True)
class StorePlan:
    """One store of a tile.

    path: host_descriptor, kernel_descriptor (by TMA, as the kernel is written), raised (by TMA in place of pointers),
    or pointers. staged: it leaves from a buffer of its own, which is waited for no sooner than that is used again.
    """

    argument: str | None = None
    loop: int | None = None
    ordinal: int = 0
    path: Path | None = None
    staged: bool | None = None
    line: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_numbers(self, "loop", "ordinal")
        check_flags(self, "staged")
        check_words(self, path=Path)

    @property
    def key(self) -> tuple[str | None, int | None, int]:
        """What tells it from other stores."""
        return self.argument, self.loop, self.ordinal


@dataclass(frozen=True, slots=True)
class RingPlan:
    """One ring: `payload` are the types of a slot's buffers, `depth` is D, `slot_bytes` of one slot.

    copies: rings like it, one for each consumer group, where its tiles are rows of the group; else 1.
    fill: how the producer fills a slot: "tma", "cp.async", or from its "registers".
    What follows from its operands (all but the depth) may be left out of a Plan that pins it.
    """

    name: str
    payload: tuple[str, ...] = ()
    depth: int | None = None
    slot_bytes: int | None = None
    copies: int | None = None
    fill: Fill | None = None

    def __post_init__(self) -> None:
        check_numbers(self, "depth", "slot_bytes", "copies")
        check_words(self, fill=Fill)

    @property
    def key(self) -> str:
        """What tells it from other rings."""
        return self.name

    @property
    def slots(self) -> int:
        """D of a ring of a complete Plan."""
        assert self.depth is not None
        return self.depth

    @property
    def total_bytes(self) -> int:
        """Shared memory of all slots, barriers not counted."""
        return self.slots * (self.slot_bytes or 0) * (self.copies or 1)


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """One loop with dots of its own.

    mma_depth: P, iterations whose wgmmas stay in flight. stages: the most that its schedule may have; 1 changes only
    the order, 0 leaves the loop as it is. schedule: of a loop whose dots are staged. kept: dots, by their number in the
    loop, whose left operand the loop does not change and which waits in registers.
    """

    loop: int | None = None
    mma_depth: int | None = None
    stages: int | None = None
    schedule: Schedule | None = None
    kept: tuple[int, ...] | None = None
    line: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_numbers(self, "loop", "mma_depth", "stages")

    @property
    def key(self) -> int | None:
        """What tells it from other loops."""
        return self.loop


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Which launches get the kernel.

    conditions: what a launch must fulfil, in words; the others get the stock kernel. They follow from the operands.
    short, crowded: what launches get that an SM is done with soon, or that have more programs than SMs.
    many: what launches of more programs than SMs get: the kernel as it is, or its persistent form.
    """

    conditions: tuple[str, ...] | None = None
    short: Launched | None = None
    crowded: Launched | None = None
    many: Literal["as_written", "persistent"] | None = None

    def __post_init__(self) -> None:
        check_words(self, short=Launched, crowded=Launched, many=Literal["as_written", "persistent"])


def check_numbers(value: Any, *names: str) -> None:
    """Raises PlanError when a field that counts something is no whole number from 0 on, or None."""
    for name in names:
        number: object = getattr(value, name)
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise PlanError(f"{name}={number!r} in a Plan: a whole number is needed, not {type(number).__name__}")
        if number is not None and number < 0:
            raise PlanError(f"{name}={number} in a Plan; cure: 0 or more")


def check_flags(value: Any, *names: str) -> None:
    """Raises PlanError when a field is not True, False or None."""
    for name in names:
        flag: object = getattr(value, name)
        if flag is not None and not isinstance(flag, bool):
            raise PlanError(f"{name}={flag!r} in a Plan: True or False is needed, not {type(flag).__name__}")


def check_words(value: Any, **words: Any) -> None:
    """Raises PlanError when a field is not one of the words that it may be."""
    for name, known in words.items():
        word: object = getattr(value, name)
        if word is not None and word not in get_args(known):
            raise PlanError(f"{name}={word!r} in a Plan: one of {', '.join(get_args(known))} is needed")


__all__ = [
    "UNCAPPED", "LaunchPlan", "Launched", "LoopPlan", "OperandPlan", "PartitionPlan", "PartitionRole", "Path",
    "RingPlan", "StorePlan", "check_flags", "check_numbers", "check_words",
]  # fmt: skip
