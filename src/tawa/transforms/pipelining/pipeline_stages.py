"""Pipeline stages: software-pipelines a loop by its schedule: dots overlap the arithmetic of another iteration.

    for k, acc:                        x = get; s = dot(q, x) {isAsync}; s = wait(s) {pendings = 0}
      x = get                          consumed x; p = exp(s)                             prologue: stage 0 of 0
      s = dot(q, x)                    for k from the second, acc, p:
      consumed x                         x = get; s = dot(q, x) {isAsync}
      p = exp(s)             →           y = get; acc' = dot(p, y, acc) {isAsync}         stage 1 of the one before
      y = get                            s = wait(s) {pendings = 1}; consumed x; p' = exp(s)
      acc = dot(p, y, acc)               acc' = wait(acc') {pendings = 0}; consumed y
      consumed y                       y = get; acc = dot(p, y, acc) …                    epilogue: stage 1 of the last

With S + 1 stages, in kernel iteration t the operations of stage s work on iteration t − s. S kernel iterations before
the loop and S after it are partial: `if trips >= S { prologue; steady loop; epilogue } else { the original loop }`.
Values from an earlier kernel iteration are loop-carried. That includes running counts, so the rings are left in the
same state as by the original loop.

A buffer that the loop fills may stay for a dot of a later stage: it is then allocated before the loop, and stored into.

Each kernel iteration waits for a dot before the first use of its result, before the release of a slot that it reads,
and at the latest at the end, so that no dot is in flight across kernel iterations. `pendings` is the number of dots
issued after it. A dot that nothing overlaps stays synchronous, and so does one for which each iteration stores the same
tile.

Two loops in a row may share one pipeline (`join_stages`).

Requires: `partition`; runs after `pipeline_mma`, whose loops (their dots are asynchronous) are skipped.
Ensures: no in-flight accumulator is accessed; every slot is released once, after its last reader.
Leaves a loop as it is if the Plan has no schedule for it (`tawa.plan.decide.loops`). Raises PlanError if the Plan joins
loops that cannot be joined.
Source: arXiv 2510.14719, section 5.2 (coarse-grained pipeline); B. R. Rau, "Iterative Modulo Scheduling" (1996).
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.errors import PlanError
from tawa.ir import Module, source_of
from tawa.plan import Plan
from tawa.remarks import Remark
from tawa.transforms.pipelining.expand_stages import Expander
from tawa.transforms.pipelining.join_stages import join_stages, scheduled_loops, why_not_joined
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class PipelineStages:
    """Options: the Plan, whose loops contain the schedules."""

    plan: Plan

    def run(self, module: Module) -> PassResult:
        """Pipelines every loop of every consumer that has a schedule."""
        remarks: list[Remark] = []
        ready: Expander | None = None  # its pipeline may be joined by the next loop's
        for number, schedule, expander in list(scheduled_loops(module, self.plan)):
            entry = self.plan.loop(number)
            stages, _, rest = schedule.summary.partition(", ")
            reason = f"{stages} in this loop: {rest}"
            remarks.append(Remark("note", reason, source_of(module, expander.loop.op)))
            if entry.joined:
                why = "there is no loop before it" if ready is None else why_not_joined(ready, expander)
                if why or ready is None:
                    where = f" ({entry.line})" if entry.line else ""
                    raise PlanError(
                        f"the Plan joins loop {number}{where} to the loop before it: {why}; cure: joined=false"
                    )
                join_stages(ready, expander)
                ready = None
            else:
                if ready is not None:
                    ready.run()
                ready = expander
        if ready is not None:
            ready.run()
        return PassResult(bool(remarks), tuple(remarks))
