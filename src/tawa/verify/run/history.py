"""The steps of a run in execution order, and the fault that ends it.

A set of steps is a bit mask over their numbers. A fault carries its causal past.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tawa.dialects.tcgen05 import TMEMAllocOp
from tawa.ir import MemDescType, Operation, parse_type
from tawa.verify.run.events import Event
from tawa.verify.run.places import NAMED, Place
from tawa.verify.verdict import FaultKind


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """A step of a run: an event of a partition, or a completion (then `event` is what completes, or None)."""

    partition: str
    action: str
    event: Event | None = None
    target: Place | None = None
    parity: int | None = None


class Fault(Exception):
    """The run violates the protocol at the last of `steps`; the others lead there."""

    def __init__(self, kind: FaultKind, message: str, steps: tuple[HistoryStep, ...]) -> None:
        super().__init__(message)
        self.kind: FaultKind = kind
        self.message = message
        self.steps = steps


@dataclass(slots=True)
class Memories:
    """The allocations of a program, with their names.

    unobserved: arrays of barriers on which nobody waits and no bytes arrive, with the one size of all arrivals.
    invalidated: whether a barrier of the program is invalidated. free_barriers: which named barriers a program may use.
    """

    allocations: list[Operation] = field(default_factory=list[Operation])
    names: list[str] = field(default_factory=list[str])
    unobserved: dict[int, int] = field(default_factory=dict[int, int])
    invalidated: bool = False
    free_barriers: str = ""

    def name(self, memory: Place) -> str:
        """The name of a piece of memory: ``ring0_full[1]``; of a named barrier, its number."""
        if memory.alloc == NAMED:
            return f"named barrier {memory.path[0]}"
        return f"{self.names[memory.alloc]}{''.join(f'[{slot}]' for slot in memory.path)}"

    def slots(self, alloc: int) -> int:
        """How many slots an allocation has; 1 if it is one barrier or one tile."""
        type = parse_type(self.allocations[alloc].results[0].type)
        return type.shape[0] if isinstance(type, MemDescType) and len(type.shape) > 1 else 1

    def barrier_counts(self) -> list[int]:
        """Of each array of barriers, their number."""
        types = [parse_type(op.results[0].type) for op in self.allocations]
        found = [at for at, it in enumerate(types) if isinstance(it, MemDescType) and it.element == "i64"]
        return [self.slots(at) for at in found]

    def in_tensor_memory(self, memory: Place) -> bool:
        """Whether a region is in tensor memory, which has no proxies."""
        return memory.alloc >= 0 and TMEMAllocOp.matches(self.allocations[memory.alloc])

    def beyond(self, memory: Place) -> tuple[int, int] | None:
        """The slot of an allocation that does not exist, and how many there are; None if all exist."""
        if not memory.path:
            return None
        type = parse_type(self.allocations[memory.alloc].results[0].type)
        if not isinstance(type, MemDescType):
            return None
        slots = zip(memory.path, type.shape, strict=False)
        return next(((slot, size) for slot, size in slots if not 0 <= slot < size), None)


class History:
    """The steps so far. records: whether they are kept, for a witness; else only their number is."""

    def __init__(self, memories: Memories, records: bool) -> None:
        self.memories = memories
        self.steps: list[HistoryStep] | None = [] if records else None
        self.count = 1  # bit 0 is set in every causal past
        self.bit = 1
        self.name = memories.name

    def note(self, partition: str, action: str, event: Event | None, target: Place | None, parity: int | None) -> int:
        """Adds a step; returns its bit."""
        self.bit = 1 << self.count
        self.count += 1
        if self.steps is not None:
            self.steps.append(HistoryStep(partition, action, event, target, parity))
        return self.bit

    def part(self, bit: int) -> int:
        """A bit of its own for one of several things that a step does: runs that are merged may lack one of them.

        The bit of the step itself if steps are kept: such runs are not merged.
        """
        if self.steps is not None:
            return bit
        self.count += 1
        return 1 << (self.count - 1)

    def fault(self, kind: FaultKind, message: str, mask: int, *last: HistoryStep) -> Fault:
        """The fault with the shortest run that leads to it: the steps in `mask`, in execution order, and `last`.

        Omits the initialisation of barriers, unless the fault may lie there.
        """
        steps = [step for number, step in enumerate(self.steps or (), 1) if mask >> number & 1]
        if kind not in ("barrier lifecycle", "arrive count"):
            steps = [step for step in steps if step.action != "init"] or steps
        return Fault(kind, message, (*steps, *last))

    def at(self, bit: int) -> Sequence[HistoryStep]:
        """The step of a bit, if steps are kept."""
        return () if self.steps is None else (self.steps[bit.bit_length() - 2],)

    @property
    def everything(self) -> int:
        """The mask of all steps."""
        return (1 << self.count) - 1

    def require_inside(self, event: Event, memory: Place, mask: int, *last: HistoryStep) -> None:
        """Raises Fault for a slot that does not exist."""
        if memory.alloc != NAMED and (found := self.memories.beyond(memory)) is not None:
            slots = "1 slot" if found[1] == 1 else f"{found[1]} slots"
            name = self.memories.names[memory.alloc]
            message = f"{event_name(event)} accesses slot {found[0]} of {name}, which has {slots}"
            raise self.fault("out of bounds", message, mask, *last)


_EVENT_NAMES = {
    "dot": "a wgmma", "copy in": "a TMA copy", "copy out": "a TMA store", "cp.async": "a cp.async", "wait": "a wait",
    "arrive": "an arrival", "expect": "an expect", "init": "an init", "describe": "a descriptor's creation",
    "adds": "a tcgen05 operation", "tcgen05": "a tcgen05 operation", "commit": "a commit",
}  # fmt: skip


def event_name(event: Event) -> str:
    """The name of an event in messages."""
    return _EVENT_NAMES.get(event.kind, event.op.name)
