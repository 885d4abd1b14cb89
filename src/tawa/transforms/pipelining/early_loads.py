"""Early loads: in loops without a schedule, a consumer loads its own rows and numbers before the iteration's dots.

    q = aref.get …                          q = aref.get …
    s = dot(k, q)                           d = load(delta + rows)
    dv = dot(p(s), …, dv)           →       s = dot(k, q)
    d = load(delta + rows)                  dv = dot(p(s), …, dv)
    dk = dot(p(s) * (… - d), …, dk)         dk = dot(p(s) * (… - d), …, dk)

In a loop without a schedule, each dot is waited for where it stands. A load behind it is issued after the wait, and the
iteration waits for global memory, too. Stock Triton issues such a load while its dots run. In the backward pass of
FlexAttention these were the longest waits of loops with few iterations.

Moving a load within its iteration takes registers from there to its first use, but carries nothing. The loads are those
of `prefetch_loads`, which moves some of them an iteration ahead; schedules place the loads of their loops themselves.

Requires: the decided schedules of the Plan.
Ensures: the same values; no address is read that the iteration did not read.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.loops.dependences import needed_by
from tawa.analysis.loops.prefetchable_loads import AheadLoads
from tawa.analysis.names import loop_number
from tawa.dialects.effects import is_pure
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import DOTS
from tawa.dialects.warp import find_groups
from tawa.ir import Builder, Module
from tawa.plan import Plan
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class EarlyLoads:
    """Options: the Plan, for its schedules."""

    plan: Plan = Plan()

    def run(self, module: Module) -> PassResult:
        """Moves loads in every loop of a consumer that has no schedule."""
        changed = False
        for group in find_groups(module):
            for op in list(group.op.walk()) if group.role == "consumer" else ():
                loop = ForOp.of(op)
                if loop and self.plan.loop(loop_number(op)).schedule is None:
                    changed |= _before_dots(loop)
        return PassResult(changed)


def _before_dots(loop: ForOp) -> bool:
    """Moves the loads of one loop; returns whether it moved any."""
    first = next((op for op in loop.body.ops if op.name in DOTS), None)
    if first is None:
        return False
    changed = False
    for load in AheadLoads(loop).movable():
        place = loop.body.index_of(first)
        behind = loop.body.ops[place : loop.body.index_of(load.op)]
        needed = needed_by(load.op, behind)
        if behind and first not in needed and all(map(is_pure, needed)):
            builder = Builder.before(first)
            for op in (*needed, load.op):
                op.detach()
                builder.insert(op)
            changed = True
    return changed
