"""Pipeline stages: dots of one iteration run beside the arithmetic of another, as the schedule of the loop says.

    for k, acc:                        x = get; s = dot(q, x) {isAsync}; s = wait(s) {pendings = 0}
      x = get                          consumed x; p = exp(s)                             prologue: stage 0 of 0
      s = dot(q, x)                    for k from the second, acc, p:
      consumed x                         x = get; s = dot(q, x) {isAsync}
      p = exp(s)             →           y = get; acc' = dot(p, y, acc) {isAsync}         stage 1 of the one before
      y = get                            s = wait(s) {pendings = 1}; consumed x; p' = exp(s)
      acc = dot(p, y, acc)               acc' = wait(acc') {pendings = 0}; consumed y
      consumed y                       y = get; acc = dot(p, y, acc) …                    epilogue: stage 1 of the last

With S + 1 stages, in kernel iteration t the operations of stage s work on iteration t − s. S kernel iterations before
the loop and S behind it are partial: `if trips >= S { prologue; steady loop; epilogue } else { the loop as it was }`.
What an operation needs from an earlier kernel iteration is carried, and a running count is carried like any other
value, so that rings are left in the same state as before.

Waits are placed by need in each kernel iteration: before the first use of a dot's result, before the release of a slot
that it reads, and at the end, so that nothing is in flight from one to the next. `pendings` is the number of dots
issued since. A dot that nothing runs beside stays synchronous, as does one that reads a buffer which the loop fills.

Requires: `partition`; behind `pipeline_mma`, whose loops (dots that are asynchronous already) are left alone.
Ensures: an in-flight accumulator is not touched; every slot is released once, behind its last reader.
Leaves a loop as it is when no schedule is clearly faster, when it counts unsigned, or when a dot adds up partial sums.
Source: arXiv 2510.14719, section 5.2 (coarse-grained pipeline); B. R. Rau, "Iterative Modulo Scheduling" (1996).
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.dependences import find_dependences
from tawa.analysis.in_flight import is_aside
from tawa.dialects.scf import ForOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.dialects.warp import GroupOp
from tawa.errors import PlanError
from tawa.ir import Module, source_of
from tawa.plan import Plan
from tawa.plan.schedule import Schedule
from tawa.plan.scheduler import Limits, check_schedule, find_schedule
from tawa.remarks import Remark
from tawa.transforms.expand_stages import expand_stages
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class PipelineStages:
    """Options: the Plan, whose `schedules` are taken as they are; other loops get their own.

    schedules: what `choose_schedules` made of this Plan and module, where that is known already.
    """

    plan: Plan
    schedules: tuple[Schedule, ...] | None = None

    def run(self, module: Module) -> PassResult:
        """Stages every loop of every consumer that has a schedule."""
        schedules = choose_schedules(module, self.plan) if self.schedules is None else self.schedules
        loops = staged_loops(module)
        remarks: list[Remark] = []
        for schedule in schedules:
            loop = loops[schedule.loop]
            stages, _, rest = schedule.summary.partition(", ")
            reason = f"{stages} in this loop: {rest}"
            remarks.append(Remark("note", reason, source_of(module, loop.op)))
            expand_stages(find_dependences(loop), schedule)
        return PassResult(bool(schedules), tuple(remarks))


def staged_loops(module: Module) -> list[ForOp]:
    """The loops of consumers whose dots are right inside and wait for themselves; a schedule counts them.

    Of loops within each other only the innermost: it runs most often, and a dot in it ends what is in flight around it.
    """
    groups = [group for op in module.walk() if (group := GroupOp.of(op)) and group.role == "consumer"]
    loops = [loop for group in groups for op in group.op.walk() if (loop := ForOp.of(op)) and not is_aside(loop)]
    found = [loop for loop in loops if (dots := _dots(loop)) and not any(dot.is_async for dot in dots)]
    return [loop for loop in found if not any(loop.op.is_ancestor_of(other.op) for other in found)]


def choose_schedules(module: Module, plan: Plan) -> tuple[Schedule, ...]:
    """The schedules of a module behind `pipeline_mma`: those of the Plan, checked, and one for each other loop.

    Raises PlanError where one of the Plan does not keep the dependences of its loop, or has no loop.
    """
    loops = staged_loops(module)
    pinned = {schedule.loop: schedule for schedule in plan.schedules}
    unknown = sorted(set(pinned) - set(range(len(loops))))
    if unknown or len(pinned) < len(plan.schedules):
        raise PlanError(
            f"the Plan has schedules of loops {[schedule.loop for schedule in plan.schedules]}, the kernel has "
            f"{len(loops)} to schedule; cure: one schedule a loop, numbered from 0"
        )
    found: list[Schedule] = []
    for number, loop in enumerate(loops):
        reason = _obstacle(loop)
        if reason:
            if number in pinned:
                raise PlanError(f"loop {number} cannot be staged: {reason}; cure: leave its schedule out")
            continue
        graph = find_dependences(loop)
        if number in pinned:
            check_schedule(graph, pinned[number])
            found.append(pinned[number])
            continue
        if plan.max_stages == 0:
            continue
        places = [str(source_of(module, op) or "") for op in (loop.op, *graph.nodes)]
        schedule = find_schedule(graph, _limits(loop, plan), number, places)
        found += [schedule] if schedule else []
    return tuple(found)


def _limits(loop: ForOp, plan: Plan) -> Limits:
    group = next(GroupOp(op) for op in loop.op.ancestors() if GroupOp.of(op))
    return Limits(group.num_warps, min(group.registers or 255, 255), plan.max_stages)


def _dots(loop: ForOp) -> list[WarpGroupDotOp]:
    return [dot for op in loop.body.ops if (dot := WarpGroupDotOp.of(op))]


def _obstacle(loop: ForOp) -> str:
    """Why this loop cannot be staged; empty when it can."""
    if loop.unsigned:
        return "it counts unsigned"
    for dot in _dots(loop):
        if dot.adds_partial_sums:
            return "a dot adds up partial sums of fp8 products (max_num_imprecise_acc)"
    return ""


__all__ = ["PipelineStages", "choose_schedules", "staged_loops"]
