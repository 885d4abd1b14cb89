"""Unroll loops: several iterations of a loop become one, so that their loads are under way together.

    for k = 0 to n:                        for k = 0 to n - n % 2 step 2, s:
      x = load(p + k)                →       x = load(p + k);      s = s + f(x)
      s = s + f(x)                           y = load(p + k + 1);  s = s + f(y)
                                           for k = n - n % 2 to n, s:     what is left
                                             x = load(p + k);      s = s + f(x)

A loop that loads a row in each iteration and computes with it waits for memory each time. ptxas moves the loads of one
body to its start, but none across iterations. Loads that are prefetched (`prefetch_loads`) cost copies between
registers, and masks for the last iteration; a body of several iterations has neither.

Requires: TTGIR before anything is specialised.
Ensures: the same operations on the same values, in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.names import loop_number
from tawa.dialects.arith import AddIOp, DivSIOp, MaxSIOp, MulIOp, SubIOp, constant_int
from tawa.dialects.scf import ForOp
from tawa.ir import Builder, Module, Value, ValueMap, clone_op
from tawa.plan import Plan
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class UnrollLoops:
    """Options: the Plan, whose loops say how many iterations become one."""

    plan: Plan

    def run(self, module: Module) -> PassResult:
        """Unrolls every loop for which the Plan says so."""
        changed = False
        for op in list(module.walk()):
            loop, number = ForOp.of(op), loop_number(op)
            if loop is None or number is None:
                continue
            times = self.plan.loop(number).unrolled or 1
            if times > 1:
                _unroll(loop, times)
                changed = True
        return PassResult(changed)


def _unroll(loop: ForOp, times: int) -> None:
    """Puts a loop in front of this one, each of whose iterations is `times` of this one's. `can_unroll` accepts it."""
    builder, type = Builder.before(loop.op), loop.induction.type
    lower, upper, step = loop.bounds
    stride = constant_int(step)
    assert stride is not None
    whole = builder.constant(times * stride, type)
    rounds = DivSIOp.create(builder, SubIOp.create(builder, upper, lower), whole)
    rounds = MaxSIOp.create(builder, rounds, builder.constant(0, type))
    end = AddIOp.create(builder, lower, MulIOp.create(builder, rounds, whole))
    first = builder.insert(clone_op(loop.op, {}))
    made = ForOp(first)
    first.set_operand(1, end)
    first.set_operand(2, whole)
    body = [it for it in loop.body.ops if it is not loop.body.terminator]
    at = Builder.before(made.body.terminator)
    for number in range(1, times):
        at.loc = loop.op.loc
        own = AddIOp.create(at, made.induction, at.constant(number * stride, type))
        mapping: ValueMap = dict(zip(loop.body.args, (own, *made.yielded), strict=True))
        for op in body:
            at.insert(clone_op(op, mapping))
        ends: list[Value] = [mapping.get(it, it) for it in loop.yielded]
        made.body.terminator.set_operands(ends)
    loop.op.set_operand(0, end)
    for index, result in enumerate(first.results):
        loop.op.set_operand(3 + index, result)


__all__ = ["UnrollLoops"]
