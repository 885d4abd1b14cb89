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
Leaves a loop as it is when the Plan has no schedule for it (`tawa.plan.decide.loops`).
Source: arXiv 2510.14719, section 5.2 (coarse-grained pipeline); B. R. Rau, "Iterative Modulo Scheduling" (1996).
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.loops.dependences import find_dependences
from tawa.ir import Module, source_of
from tawa.plan import Plan
from tawa.plan.decide.loops import numbered, staged_loops
from tawa.remarks import Remark
from tawa.transforms.pipelining.expand_stages import expand_stages
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class PipelineStages:
    """Options: the Plan, whose loops have the schedules."""

    plan: Plan

    def run(self, module: Module) -> PassResult:
        """Stages every loop of every consumer that has a schedule."""
        changed = False
        remarks: list[Remark] = []
        for number, loop in list(numbered(staged_loops(module))):
            schedule = self.plan.loop(number).schedule
            if schedule is None:
                continue
            stages, _, rest = schedule.summary.partition(", ")
            reason = f"{stages} in this loop: {rest}"
            remarks.append(Remark("note", reason, source_of(module, loop.op)))
            expand_stages(find_dependences(loop), schedule)
            changed = True
        return PassResult(changed, tuple(remarks))


__all__ = ["PipelineStages"]
