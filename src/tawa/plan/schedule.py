"""The schedule of one loop: a stage and a position for every operation of its body, and the lower bounds.

A loop of T iterations becomes T + S kernel iterations, S + 1 being the number of stages: in kernel iteration t the
operations of stage s execute iteration t − s. `order` is the position within the kernel iteration.

    stage  order  begin  operation         line
        0      0      0  k = get           fa.py:18
        0      2     22  s = dot           fa.py:19
        1      4     44  acc = dot         fa.py:26      (of the previous iteration)
        0      6    556  m_new = reduce    fa.py:20

A schedule is a frozen value that can be printed, converted to and from JSON, and pinned in a Plan.
`tawa.plan.scheduler` computes and checks schedules.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from tawa.errors import PlanError


@dataclass(frozen=True, slots=True)
class ScheduledOp:
    """One operation of the body. begin_cycle: its start within a kernel iteration, according to the cost model.

    label: `result = operation`. location: file:line, empty if unknown, no part of a comparison. Both are only
    informative.
    """

    stage: int
    order: int
    begin_cycle: int
    label: str
    location: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound on the cycles of a kernel iteration, from a resource or a recurrence."""

    what: str
    cycles: int


@dataclass(frozen=True, slots=True)
class Carried:
    """A tile that is live across kernel iterations: the operation that defines it, its shape and element type."""

    label: str
    type: str
    iterations: int = 1


@dataclass(frozen=True, slots=True)
class Schedule:
    """The schedule of one loop.

    loop: the number of the loop. location: file:line of the loop, no part of a comparison. ii_cycles: the cycles of a
    kernel iteration (the initiation interval). bounds: its lower bounds, tightest first. ops: in textual order of the
    body. ring_depths: the least depth of each ring, by the ring's name. tile_registers: an estimate of the most
    registers per thread that live tiles take. carried: the tiles that are live across kernel iterations, which follow
    from the stages.
    """

    loop: int
    location: str = field(compare=False)
    ii_cycles: int
    bounds: tuple[Bound, ...]
    ops: tuple[ScheduledOp, ...]
    ring_depths: tuple[tuple[str, int], ...] = ()
    tile_registers: int = 0
    carried: tuple[Carried, ...] = ()

    def __post_init__(self) -> None:
        orders = sorted(op.order for op in self.ops)
        if orders != list(range(len(self.ops))):
            raise PlanError(
                f"the schedule of loop {self.loop} has orders {orders}; cure: each from 0 to {len(orders) - 1} once"
            )
        if any(op.stage < 0 for op in self.ops) or (self.ops and min(op.stage for op in self.ops) > 0):
            raise PlanError(f"the schedule of loop {self.loop} must begin with stage 0; cure: count stages from 0")
        if self.stages > max(len(self.ops), 1):
            raise PlanError(
                f"the schedule of loop {self.loop} has {self.stages} stages for {len(self.ops)} operations; "
                "cure: each stage has an operation"
            )

    @property
    def stages(self) -> int:
        """S + 1."""
        return 1 + max((op.stage for op in self.ops), default=0)

    @property
    def sequence(self) -> list[int]:
        """The indices of the operations, in the order of a kernel iteration."""
        return sorted(range(len(self.ops)), key=lambda index: self.ops[index].order)

    @property
    def summary(self) -> str:
        """Stages, cycles and the tightest bound, in one line."""
        text = f"{self.stages} stage{'s' * (self.stages > 1)}, {self.ii_cycles} cycles per iteration"
        if self.bounds:
            text += f"; lower bound {self.bounds[0].cycles} ({self.bounds[0].what})"
        return text

    def __str__(self) -> str:
        """A table: a header, then one line per operation."""
        bounds = ", ".join(f"{bound.what} {bound.cycles}" for bound in self.bounds)
        rings = ", ".join(f"{name} D >= {depth}" for name, depth in self.ring_depths)
        where = f" ({self.location})" if self.location else ""
        head = f"loop {self.loop}{where}: {self.stages} stages, {self.ii_cycles} cycles per iteration; bounds: {bounds}"
        needs = f"tiles take {self.tile_registers} registers per thread" + (f"; {rings}" if rings else "")
        width = max((len(op.label) for op in self.ops), default=0)
        lines = [head, needs, f"stage  order  begin  {'operation':{width}}  line"]
        for index in self.sequence:
            op = self.ops[index]
            row = f"{op.stage:5}  {op.order:5}  {op.begin_cycle:5}  {op.label:{width}}  {op.location}"
            lines.append(row.rstrip())
        return "\n".join(lines)

    def to_json(self) -> str:
        """JSON text that `from_json` reads back."""
        return json.dumps(asdict(self), indent=2)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A part of a schedule that is fixed, in names of the source.

    stages: exactly so many. carry: the variables whose tiles are carried from one iteration to the next, each with its
    element type, empty for any. steps: the stage of every operation, and its name, in the order of an iteration; of
    several operations of one name, the second is "name.1".
    """

    stages: int | None = None
    carry: tuple[tuple[str, str], ...] | None = None
    steps: tuple[tuple[int, str], ...] | None = None
