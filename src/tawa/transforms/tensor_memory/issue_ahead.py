"""Issue ahead: the thread that issues the dots starts the first dots of an iteration in the iteration before.

    loop: s0 = q0·k; s1 = q1·k                   s0 = q0·k; s1 = q1·k
          o0 += p0·v; o1 += p1·v          →      loop: o0 += p0·v; s0' = q0·k'; o1 += p1·v; s1' = q1·k'
                                                 o0 += p0·v; o1 += p1·v

A dot is *late* if the threads compute an operand of it from another dot of the same iteration: its slot is handed back
to the thread behind a `publish`, or it comes from a ring that the threads fill. While the threads compute, nothing
would run on the tensor cores; so the dots that are not late run one iteration ahead. Group by group, the late dot comes
first: the next scores of a group then overwrite its weights as soon as these were read, by all dots that read them. A
loop is left as it is if a ring has too few slots for that.

Requires: `resolve_groups`. Ensures: what each dot reads and adds is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.loops.dependences import find_dependences
from tawa.dialects.aref import AccessOp, AcquireOp, AdvanceOp, ConsumedOp, CreateOp, GetOp, PublishOp
from tawa.dialects.scf import ForOp
from tawa.dialects.tcgen05 import DOTS, ISSUED_BY_ONE_THREAD, TMEMCopyOp
from tawa.dialects.ttg import VIEWS, whole_of
from tawa.dialects.warp import find_groups
from tawa.ir import Module, Operation, Value
from tawa.plan.schedule import Schedule, ScheduledOp
from tawa.transforms.pipelining.expand_stages import Expander
from tawa.transforms.result import PassResult

_SLOTS = 2
"""Slots that a ring needs if a late dot holds one while an early dot gets the next."""
_AHEAD, _LATE, _BEHIND = range(3)
"""The places in a turn: an early dot that overwrites nothing, the late dot, any other early dot."""


@dataclass(frozen=True, slots=True)
class IssueAhead:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Rewrites every loop of the partition that issues the dots, where some dots are late and some are not."""
        loops = [
            loop
            for group in find_groups(module)
            for op in group.op.walk()
            if group.role == "mma" and (loop := ForOp.of(op)) and not any(it.regions for it in loop.body.ops)
        ]
        changed = False
        for loop in loops:
            schedule = _schedule(loop)
            if schedule is not None:
                Expander(find_dependences(loop), schedule).run()
                changed = True
        return PassResult(changed)


def _schedule(loop: ForOp) -> Schedule | None:
    """The early operations one iteration ahead of the late ones; None if there are not both."""
    ops = loop.body.ops[:-1]
    late = _late_views(ops)
    dots = [op for op in ops if op.name in DOTS]
    behind = {op: any(it in late for it in op.operands) for op in dots}
    if len(set(behind.values())) != 2:
        return None
    stages = {op: int(it) for op, it in behind.items()}
    for at, op in enumerate(ops):
        if TMEMCopyOp.matches(op):  # scales, of the next dot
            stages[op] = next(stages[it] for it in ops[at:] if it.name in DOTS)
    for op in reversed(ops):
        if op not in stages:
            stages[op] = _stage(op, ops, stages)
    for op in ops:
        if advance := AdvanceOp.of(op):
            get = next((it for it in ops if (view := GetOp.of(it)) and view.index is advance.index), None)
            stages[op] = stages[op] if get is None else stages[get]
    if any(create.type.depth < _SLOTS for create in _held(ops, stages)):
        return None
    turns = _turns(ops, stages)
    order = sorted(range(len(ops)), key=lambda at: (*turns[at], at))
    place = {at: number for number, at in enumerate(order)}
    scheduled = tuple(ScheduledOp(stages[op], place[at], place[at], op.name) for at, op in enumerate(ops))
    return Schedule(0, "", len(ops), (), scheduled)


def _late_views(ops: list[Operation]) -> set[Value]:
    """The slots that the threads have computed, or will hand back, from a dot of the same iteration."""
    published: set[Value] = set()
    late: set[Value] = set()
    for op in ops:
        if acquire := AcquireOp.of(op):
            late.update(op.results if acquire.ring in published else ())
        elif get := GetOp.of(op):
            create = CreateOp.of(get.ring.defining_op)
            late.update(op.results if create is not None and create.writer in ("consumer", "correction") else ())
        elif publish := PublishOp.of(op):
            published.add(publish.ring)
        elif op.name in VIEWS and op.operands[0] in late:
            late.update(op.results)
        elif (copy := TMEMCopyOp.of(op)) and copy.source in late:
            late.add(copy.target)
    return late


def _stage(op: Operation, ops: list[Operation], stages: dict[Operation, int]) -> int:
    """The stage of an operation that is no dot; those that follow it have theirs."""
    if isinstance(access := PublishOp.of(op) or ConsumedOp.of(op), AccessOp):
        before = ops[: ops.index(op)]
        slots = [
            view
            for it in before
            if (made := GetOp.of(it) or AcquireOp.of(it)) and made.ring is access.ring and made.index is access.index
            for view in it.results
        ]
        issued = [it for it in before if it.name in ISSUED_BY_ONE_THREAD]
        users = [it for it in issued if any(whole_of(value) in slots for value in it.operands)]
        return max((stages[it] for it in users), default=0)
    return min((stages[user] for result in op.results for user in result.users if user in stages), default=0)


def _held(ops: list[Operation], stages: dict[Operation, int]) -> list[CreateOp]:
    """The rings whose slots are still held, for a late dot, while an early dot gets the next one."""
    early = {get.ring for op in ops if (get := GetOp.of(op)) and not stages[op]}
    late = {consumed.ring for op in ops if (consumed := ConsumedOp.of(op)) and stages[op]}
    return [create for ring in early if ring in late and (create := CreateOp.of(ring.defining_op))]


def _turns(ops: list[Operation], stages: dict[Operation, int]) -> list[tuple[int, int]]:
    """The turn of each operation, how many dots of its stage come before it, and its place there.

    What releases a slot belongs to the dot, or the copy of scales, before. In a turn, the early dot comes first, unless
    it overwrites what the late one still reads; its turn is not before that of such a late one.
    """
    found: list[int] = []
    seen, last = {0: 0, 1: 0}, {0: 0, 1: 0}
    for op in ops:
        behind = PublishOp.matches(op) or ConsumedOp.matches(op)
        stage = stages[op]
        found.append(last[stage] if behind else seen[stage])
        if op.name in ISSUED_BY_ONE_THREAD:
            last[stage] = seen[stage]
        seen[stage] += op.name in DOTS
    dots = [(op, turn) for op, turn in zip(ops, found, strict=True) if op.name in DOTS]
    reads = [(turn, {_ring_of(it) for it in op.operands[:2]}) for op, turn in dots if stages[op]]
    least: list[tuple[int, int]] = []
    for op, turn in dots:
        if not stages[op]:
            written = _ring_of(op.operands[2])
            over = [(late, _BEHIND) for late, rings in reads if written is not None and written in rings]
            least.append(max([(turn, _AHEAD), *over, *least[-1:]]))
    least.append(max([(len(least), _AHEAD), *least[-1:]]))
    return [(turn, _LATE) if stages[op] else least[turn] for op, turn in zip(ops, found, strict=True)]


def _ring_of(view: Value) -> Value | None:
    """The ring whose slot a view is of."""
    made = whole_of(view).defining_op
    access = GetOp.of(made) or AcquireOp.of(made)
    return access.ring if access is not None else None
