"""The decisions about partitioned loops: operands kept in registers, schedules, prefetched loads.

They depend on the partitioned loops, so they are made in the middle of the pipeline. Pinned values are checked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod

from tawa.analysis.loops.async_wgmma import dots_in, is_aside
from tawa.analysis.loops.dependences import find_dependences
from tawa.analysis.loops.loads_around import WrittenInfo
from tawa.analysis.loops.masked_rows import find_masked_rows, has_masked_rows
from tawa.analysis.loops.prefetchable_loads import AheadLoads, bytes_ahead
from tawa.analysis.loops.register_operands import dots_of, operands_to_keep
from tawa.analysis.names import Name, loop_number, name_of
from tawa.dialects.scf import LOOPS, ForOp, enclosing_loops
from tawa.dialects.tt import DOTS, LoadOp
from tawa.dialects.warp import GroupOp, find_consumers, find_groups
from tawa.errors import PlanError
from tawa.ir import Module, Operation, shape_of, source_of
from tawa.machine.nvidia import WARP
from tawa.plan.decide.wanted import given_slots, needed_slots, refuse_shallow, wanted_schedule
from tawa.plan.defaults import BYTES_AHEAD, ELEMENTS_AHEAD, KEPT_REGISTERS, MAX_STAGES
from tawa.plan.fields import LoopPlan, OperandPlan
from tawa.plan.pinned_schedule import check_schedule
from tawa.plan.plan import Plan
from tawa.plan.schedule import Schedule, Wanted
from tawa.plan.scheduler import Limits, find_schedule, placed_schedule

NOTHING_BEHIND = (
    "no dot there has a result that is only stored or added up by relaxed atomics, and reads an exchanged tile alone"
)
_OWN = "start from the kernel's own Plan"
_SHARING = range(2, 5)
"""Warps that share straight code of masked rows."""


def loops_with_dots(module: Module) -> list[LoopPlan]:
    """An undecided entry for each loop that is the innermost loop of some dot, in program order."""
    loops = dict.fromkeys(loop for op in module.walk() if op.name in DOTS for loop in enclosing_loops(op)[:1])
    numbered = sorted((number, loop) for loop in loops if (number := loop_number(loop)) is not None)
    return [LoopPlan(number, line=_line(module, loop)) for number, loop in numbered]


def kept_dots(root: Operation, num_warps: int, plan: Plan) -> set[Operation]:
    """The dots inside `root` whose left operand stays in registers: those of the Plan, and where it is open, that fit.

    num_warps: that execute the dots.
    """
    fitting = {dot.op for dot in operands_to_keep(root, num_warps, KEPT_REGISTERS)}
    found: set[Operation] = set()
    for loop in (op for op in root.walk() if op.name in LOOPS):
        number = loop_number(loop)
        listed = None if number is None else plan.loop(number).kept
        dots = enumerate(dots_of(loop))
        found |= {dot.op for index, dot in dots if (dot.op in fitting if listed is None else index in listed)}
    return found


def choose_kept(module: Module, plan: Plan) -> Plan:
    """The dots of each loop whose left operand stays in registers, for loops where the Plan leaves that open."""
    found: dict[int, tuple[int, ...]] = {}
    for group in find_groups(module):
        if group.role == "consumer" and not plan.owned:  # where groups own different dots, they take the registers
            keep = kept_dots(group.op, group.num_warps, plan)
            for loop in (op for op in group.op.walk() if op.name in LOOPS) if keep else ():
                number = loop_number(loop)
                indices = tuple(index for index, dot in enumerate(dots_of(loop)) if dot.op in keep)
                if indices and number is not None:
                    found.setdefault(number, indices)
    loops = [it for it in plan.loops if it.loop is not None and it.kept is None]
    return Plan(loops=tuple(LoopPlan(it.loop, kept=found.get(it.loop or 0, ())) for it in loops))


# -- schedules ---------------------------------------------------------------------------------------------------------


def staged_loops(module: Module) -> list[ForOp]:
    """The loops of consumers that a schedule can stage: they directly contain dots, and all of them are synchronous.

    Of nested loops, only the innermost: it runs most often, and its dots wait for all wgmmas of the outer loop.
    """
    groups = [group for op in module.walk() if (group := GroupOp.of(op)) and group.role == "consumer"]
    loops = [loop for group in groups for op in group.op.walk() if (loop := ForOp.of(op)) and not is_aside(loop)]
    found = [loop for loop in loops if (dots := dots_in(loop)) and not any(dot.is_async for dot in dots)]
    return [loop for loop in found if not any(loop.op.is_ancestor_of(other.op) for other in found)]


def numbered(loops: Iterable[ForOp]) -> Iterator[tuple[int, ForOp]]:
    """Loops with their numbers; if the module has no names, the position is the number."""
    for count, loop in enumerate(loops):
        number = loop_number(loop.op)
        yield count if number is None else number, loop


def groups_of(loops: Iterable[tuple[int, ForOp]], plan: Plan) -> Iterator[tuple[int, int, ForOp]]:
    """Numbered loops with the group whose program they are in: 0 where all groups run the same program."""
    seen: dict[int, int] = {}
    for number, loop in loops:
        group = seen.get(number, 0) if plan.owned else 0
        seen[number] = group + 1
        yield number, group, loop


def choose_schedules(module: Module, plan: Plan) -> dict[int, tuple[Schedule, ...]]:
    """The schedules of a module after `PipelineMma`, by loop: those of the Plan, and computed ones for other loops.

    Consumer groups run the same program, so corresponding loops have one schedule; one for each group if they own
    different dots. Raises PlanError if a pinned schedule violates a dependence of its loop, or if the loop does not
    exist.
    """
    loops = list(numbered(staged_loops(module)))
    pinned = {it.loop: it.schedule for it in plan.loops if it.schedule is not None and it.loop is not None}
    unknown = sorted(set(pinned) - {number for number, _ in loops})
    if unknown:
        raise PlanError(
            f"the Plan has schedules of loops {sorted(pinned)}, the kernel has "
            f"{len(loops)} to schedule: {[number for number, _ in loops]}; cure: {_OWN}"
        )
    wanted = {it.loop: it.wanted for it in plan.loops if it.wanted is not None and it.loop is not None}
    for number in wanted:
        _check_stageable(module, plan, number, [it for it, _ in loops])
    found: dict[int, tuple[Schedule, ...]] = {}
    groups = sum(group.role == "consumer" for group in find_groups(module))
    for number, group, loop in groups_of(loops, plan):
        reason, asked = _obstacle(loop), plan.loop(number).schedule_of(group) if number in pinned else None
        if reason:
            if asked is not None or number in wanted:
                where = _line(module, loop.op)
                raise PlanError(f"loop {number} ({where}) cannot be staged: {reason}; cure: leave its schedule out")
            continue
        stages = plan.loop(number).stages
        if len(found.get(number, ())) > group or (asked is None and stages == 0):
            continue
        graph = find_dependences(loop)
        if asked is not None:
            check_schedule(graph, asked)
            asked = replace(asked, loop=number, ring_depths=needed_slots(graph, asked))
            found[number] = (*found.get(number, ()), asked)
            refuse_shallow(asked, given_slots(graph), f"loop {number} ({_line(module, loop.op)})")
            continue
        places = [_line(module, op) for op in (loop.op, *graph.nodes)]
        behind = plan.loop(number).behind is True
        usual = 1 if plan.owned and not behind else MAX_STAGES  # dots of one group run while another one computes
        limits, want = _limits(loop, usual if stages is None else stages, groups), wanted.get(number)
        if want is not None and group:
            want = Wanted(want.stages)  # what is carried, and the steps, are those of the first group
        limits = replace(limits, behind=behind, owned=plan.owned)
        schedule = (
            wanted_schedule(graph, limits, want, number, places)
            if want is not None
            else find_schedule(graph, limits, number, places)
        )
        own = next((it for it in plan.loops if it.loop == number), None)
        if own and own.behind and (schedule is None or schedule.stages == 1):
            where = f"loop {number} ({own.line})" if own.line else f"loop {number}"
            raise PlanError(f"the Plan has behind in {where}: {NOTHING_BEHIND}; cure: behind=false")
        if schedule is None and plan.owned:  # each group waits where it needs a result
            schedule = placed_schedule(graph, limits, [0] * len(graph.nodes), range(len(graph.nodes)), number, places)
        if schedule:
            found[number] = (*found.get(number, ()), schedule)
    return found


def _check_stageable(module: Module, plan: Plan, number: int, staged: list[int]) -> None:
    """Raises PlanError if a loop whose schedule is wanted has none."""
    if number in staged:
        return
    entry = plan.loop(number)
    where = f"loop {number} ({entry.line})" if entry.line else f"loop {number}"
    cure = "stages = 0" if entry.wanted is None or entry.wanted.stages else "leave its carry and steps out"
    if entry.mma_depth:
        raise PlanError(
            f"{where} has {entry.mma_depth} iterations of dots in flight (P), so it has no schedule; "
            f"cure: {cure}, or P = 0"
        )
    raise PlanError(
        f"{where} has no schedule: its dots are in flight together or in branches, or loops are inside; cure: {cure}"
    )


def scheduled(plan: Plan, schedules: dict[int, tuple[Schedule, ...]]) -> Plan:
    """The decisions for every loop of a Plan, given these schedules.

    No loop is joined to the one before it unless a Plan says so: the code of the second loop is there twice, and
    compiles take up to half as long again.
    """
    return Plan(
        loops=tuple(
            LoopPlan(
                it.loop,
                stages=max(one.stages for one in made) if (made := schedules.get(it.loop)) else 0,
                schedule=made[0] if made else None,
                joined=it.joined is True if made else None,
                others=made[1:] or None if made else None,
            )
            for it in plan.loops
            if it.loop is not None
        )
    )


# -- unrolled loops ----------------------------------------------------------------------------------------------------


def choose_unrolled(module: Module, plan: Plan) -> Plan:
    """Whether loops over masked rows become straight code, in a kernel without partitions.

    Where the Plan leaves that open, they do if two to four warps share the code: one warp alone waits for its
    instructions, and of eight each has little to do (bench/unpartitioned.py).

    Raises PlanError if there is no such loop.
    """
    for _, num_warps in find_consumers(module):
        if has_masked_rows(module, num_warps):
            return Plan(unrolled=num_warps in _SHARING if plan.unrolled is None else plan.unrolled)
    if plan.unrolled:
        raise PlanError("the Plan unrolls loops over masked rows, but there is none; cure: unrolled=false")
    return Plan(unrolled=False)


# -- prefetched loads ------------------------------------------------------------------------------------------------


def choose_ahead(module: Module, plan: Plan, spills: bool = False) -> Plan:
    """The loads of consumers to prefetch, up to `BYTES_AHEAD`, where the Plan leaves that open.

    In loops with a pinned schedule nothing is left open: the schedule places the loads that the loop has now. A
    kernel without partitions prefetches in loops without dots, since Triton's pipeliner serves the others, and only
    where an iteration has enough to do, and where registers are left: `spills` says that stock Triton's kernel spills.
    Raises PlanError if the Plan loads rows ahead in a loop that has no such loads.
    """
    staged = {it.loop for it in plan.loops if it.schedule is not None}
    found: dict[Name, OperandPlan] = {}
    unpartitioned, written = plan.form == "unpartitioned", WrittenInfo.of(module)
    for scope, num_warps in find_consumers(module):
        for op in scope.walk():
            loop = ForOp.of(op)
            if plan.unrolled and loop and find_masked_rows(loop, written, num_warps) is not None:
                continue
            if loop and not loop.unsigned and _may_load_ahead(loop, unpartitioned):
                full = loop_number(op) in staged or (unpartitioned and (spills or not _hides_loads(loop, num_warps)))
                for load in AheadLoads(loop).loads(_Room(plan, num_warps, 0 if full else BYTES_AHEAD).has):
                    name, line = name_of(load.op), _line(module, load.op)
                    found.setdefault(name, OperandPlan(*name, "consumer", prefetched=True, line=line))
    if unpartitioned and not found and any(it.prefetched and it.argument is None for it in plan.operands):
        raise PlanError(
            "the Plan loads rows one iteration ahead, but no loop has one that can be; cure: prefetched=false"
        )
    return Plan(operands=(*found.values(), OperandPlan(prefetched=False)))


def _may_load_ahead(loop: ForOp, unpartitioned: bool) -> bool:
    if unpartitioned:
        return not any(it.name in DOTS for it in loop.op.walk())
    return any(it.name in DOTS for it in loop.body.ops)


def _hides_loads(loop: ForOp, num_warps: int) -> bool:
    """Whether an iteration of a loop without dots computes so much that prefetched loads pay, beside their masks."""
    elements = max((prod(shape_of(it)) for op in loop.body.ops for it in op.results), default=1)
    loads = [it.op for it in AheadLoads(loop).loads() if it.tile is not None]
    tiles = len({name_of(it) for it in loads})  # Triton repeats a load for each layout in which its row is used
    return elements >= ELEMENTS_AHEAD * num_warps * WARP * tiles


@dataclass(slots=True)
class _Room:
    """The bytes that a thread may still carry for prefetched loads of one loop."""

    plan: Plan
    num_warps: int
    left: int

    def has(self, load: LoadOp) -> bool:
        """Whether the Plan or, if it leaves that open, the space that is left permits a load to be prefetched."""
        name, size = name_of(load.op), bytes_ahead(load, self.num_warps)
        if name[0] is None:
            return False
        asked = self.plan.operand(name).prefetched
        permitted = size <= self.left if asked is None else asked
        self.left -= size if permitted else 0
        return permitted


def _limits(loop: ForOp, stages: int, groups: int) -> Limits:
    group = next(GroupOp(op) for op in loop.op.ancestors() if GroupOp.of(op))
    registers = min(group.registers or 255, 255)
    return Limits(group.num_warps, registers, stages, groups)


def _obstacle(loop: ForOp) -> str:
    """Why this loop cannot be staged; empty if it can."""
    if loop.unsigned:
        return "its induction variable is unsigned"
    if any(dot.adds_partial_sums for dot in dots_in(loop)):
        return "a dot adds up partial sums of fp8 products (max_num_imprecise_acc)"
    return ""


def _line(module: Module, op: Operation) -> str:
    return str(source_of(module, op) or "")
