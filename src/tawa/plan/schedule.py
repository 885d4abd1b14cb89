"""The schedule of one loop: a stage and a place for every operation of its body, and why it is no shorter.

A loop of T iterations becomes T + S kernel iterations, S + 1 being the number of stages: in kernel iteration t the
operations of stage s work on iteration t − s. `order` is the place within the kernel iteration.

    stage  order  begin  operation         line
        0      0      0  k = get           fa.py:18
        0      2     22  s = dot           fa.py:19
        1      4     44  acc = dot         fa.py:26      (of the iteration before)
        0      6    556  m_new = reduce    fa.py:20

A frozen value: it prints, goes to JSON and back, and can be pinned in a Plan. `tawa.plan.scheduler` makes and checks
it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tawa.errors import PlanError


@dataclass(frozen=True, slots=True)
class ScheduledOp:
    """One operation of the body. begin_cycle: in a kernel iteration, as the cost model has it.

    label: `result = operation`; location: file:line, empty where unknown. Both are for readers.
    """

    stage: int
    order: int
    begin_cycle: int
    label: str
    location: str = ""


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound on the cycles of a kernel iteration: of a unit, or of a circle of dependences."""

    what: str
    cycles: int


@dataclass(frozen=True, slots=True)
class Carried:
    """A tile that is carried from one kernel iteration to the next, or further: what made it, its shape and type."""

    label: str
    type: str
    iterations: int = 1


@dataclass(frozen=True, slots=True)
class Schedule:
    """The schedule of one loop.

    loop: which one: its number among the loops with dots of its own in the consumer, in textual order.
    location: file:line of the loop. ii_cycles: a kernel iteration (the initiation interval). bounds: what keeps it from
    being shorter, tightest first. ops: in textual order of the body. ring_depths: slots that each ring needs at least,
    by the ring's name. tile_registers: the most registers of a thread that tiles take at a time, an estimate. carried:
    the tiles that are carried, which follows from the stages.
    """

    loop: int
    location: str
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

    @property
    def stages(self) -> int:
        """S + 1."""
        return 1 + max((op.stage for op in self.ops), default=0)

    @property
    def sequence(self) -> list[int]:
        """Indices of the operations, in the order of a kernel iteration."""
        return sorted(range(len(self.ops)), key=lambda index: self.ops[index].order)

    @property
    def summary(self) -> str:
        """Stages, cycles, and what binds it, in one line."""
        text = f"{self.stages} stage{'s' * (self.stages > 1)}, {self.ii_cycles} cycles an iteration"
        if self.bounds:
            text += f", not fewer than {self.bounds[0].cycles} for the sake of {self.bounds[0].what}"
        return text

    def __str__(self) -> str:
        """The table: a head, then one line an operation."""
        bounds = ", ".join(f"{bound.what} {bound.cycles}" for bound in self.bounds)
        rings = ", ".join(f"{name} D >= {depth}" for name, depth in self.ring_depths)
        where = f" ({self.location})" if self.location else ""
        head = (
            f"loop {self.loop}{where}: {self.stages} stages, {self.ii_cycles} cycles an iteration; at least: {bounds}"
        )
        needs = f"tiles take {self.tile_registers} registers a thread" + (f"; {rings}" if rings else "")
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

    @staticmethod
    def from_json(text: str) -> Schedule:
        """Reads a schedule written by `to_json`; raises PlanError on anything else."""
        try:
            return Schedule.from_dict(json.loads(text))
        except ValueError as error:
            raise PlanError(f"not a schedule: {error}; cure: start from the kernel's own schedule") from error

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Schedule:
        """Reads what `dataclasses.asdict` made; raises PlanError on anything else."""
        try:
            fields = dict(data)
            fields["bounds"] = tuple(Bound(**bound) for bound in fields["bounds"])
            fields["ops"] = tuple(ScheduledOp(**op) for op in fields["ops"])
            fields["carried"] = tuple(Carried(**it) for it in fields.get("carried", ()))
            fields["ring_depths"] = tuple((str(name), int(depth)) for name, depth in fields["ring_depths"])
            numbers = [fields["loop"], fields["ii_cycles"], fields["tile_registers"]]
            numbers += [number for op in fields["ops"] for number in (op.stage, op.order, op.begin_cycle)]
            if any(type(number) is not int for number in numbers):
                raise TypeError("stages, orders and cycles are whole numbers")
            return Schedule(**fields)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise PlanError(f"not a schedule: {error}; cure: start from the kernel's own schedule") from error
