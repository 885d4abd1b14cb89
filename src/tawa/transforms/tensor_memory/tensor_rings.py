"""The rings of buffers that the dots and the threads access, as entries of the Plan.

tensor0    an accumulator or an operand in tensor memory       1 or 2 slots: columns of 512
operand1   an operand in shared memory                         1 slot
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from tawa.dialects.aref import Fill
from tawa.errors import PlanError
from tawa.ir import Value, memdesc_type
from tawa.machine.machines import SM_100
from tawa.plan import Plan
from tawa.plan.fields import OPERAND_RING, TENSOR_RING, RingPlan
from tawa.transforms.tensor_memory.buffers import columns_of

TWO_SLOTS = "the next dots do not wait until this result has been read"
IN_TURN = "the dots and the {} take turns writing to it"
ONCE = "each program hands it over only once"
NO_ROOM = "a second one does not fit in tensor memory"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A buffer that changes hands. why_one: why it has one slot; empty if it may have several."""

    buffer: Value
    fill: Fill
    why_one: str

    @property
    def columns(self) -> int:
        """Of tensor memory, for one slot; 0 in shared memory."""
        return columns_of(self.buffer)

    @property
    def slot_bytes(self) -> int:
        """Of shared memory."""
        return 0 if self.columns else memdesc_type(self.buffer.type).bytes


def rings_of(plan: Plan, exchanges: Sequence[Exchange], groups: int, scales: int = 0) -> tuple[RingPlan, ...]:
    """The rings, with the depths that a Plan pins; raises PlanError for a pinned value that a ring cannot have.

    groups: of consumers, each with copies of its own. scales: columns that the dots of one group copy scales to.
    """
    most = SM_100.tensor_columns
    names = [f"{TENSOR_RING if it.columns else OPERAND_RING}{number}" for number, it in enumerate(exchanges)]
    if unknown := [it.name for it in plan.rings if it.is_exchanged and it.name not in names]:
        raise PlanError(f"the Plan names a ring that the kernel does not have: {unknown[0]}; cure: {', '.join(names)}")
    pins = [plan.ring(it) for it in names]
    needed = groups * (scales + sum((pin.depth or 1) * it.columns for pin, it in zip(pins, exchanges, strict=True)))
    found: list[RingPlan] = []
    for pin, it in zip(pins, exchanges, strict=True):
        depth, size = pin.depth, it.columns * groups
        if depth is None:
            depth = 2 if not it.why_one and size and needed + size <= most else 1
            needed += size * (depth - 1)
        elif depth != 1 and (it.why_one or not depth):
            raise PlanError(f"D = {depth} in {pin.name}: {it.why_one or 'a ring has a slot'}; cure: D = 1")
        ring = RingPlan(pin.name, (it.buffer.type,), depth, it.slot_bytes, groups, it.fill)
        _check_pinned(pin, ring)
        found.append(ring)
    if needed > most:
        deep = max(found, key=lambda ring: ring.slots)
        raise PlanError(
            f"D = {deep.depth} in {deep.name}: {needed} columns of tensor memory, which has {most}; "
            f"cure: D = {deep.slots - 1} or less"
        )
    return tuple(found)


def reasons(rings: Sequence[RingPlan], exchanges: Sequence[Exchange]) -> dict[str, str]:
    """The reason for D of each ring, by field of the Plan."""
    found: dict[str, str] = {}
    for ring, it in zip(rings, exchanges, strict=True):
        why = TWO_SLOTS if ring.slots > 1 else it.why_one or NO_ROOM
        used = ring.slots * it.columns * (ring.copies or 1)
        columns = f"; {used} of {SM_100.tensor_columns} columns" if used else ""
        found[f"rings.{ring.name}.depth"] = f"{why}{columns}"
    return found


def _check_pinned(pin: RingPlan, ring: RingPlan) -> None:
    """Raises PlanError for what a Plan has otherwise than the kernel."""
    for it in fields(RingPlan):
        asked, own = getattr(pin, it.name), getattr(ring, it.name)
        if asked not in (None, (), own):
            raise PlanError(f"the Plan has {it.name}={asked!r} in {ring.name}; cure: {it.name}={own!r}")
