"""Prefetch loads: moves the consumer's own loads of rows in a loop one iteration ahead of their use.

    for k:                            x0 = load(p + lower), where lower < upper
      …                               for k, x:
      x = load(p + k)           →       n = load(p + k + step), where k + step < upper
      … use x                           … use x
                                        yield n

Rows that are combined with a dot's result (gates, softmax statistics, biases) are loaded by the consumer. Without
prefetching it waits for global memory in every iteration, while stock Triton's pipeliner prefetches them. The forward
pass of the gated delta rule, whose iterations depend on each other, is slower than in stock Triton without this pass.

A load qualifies if it loads a scalar or a row, if its address depends only on the induction variable, on loop-carried
values that are known at the start of an iteration and on loop invariants, and if no store in the loop may alias it. The
schedule of the loop is decided afterwards: for it, a prefetched load is work for the next iteration. What every
iteration loads is loaded once, before the loop.

Requires: `partition`, or a kernel without partitions, which is one consumer.
Ensures: the same values; no address is read that the original loop does not read.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.loops.invariants import varies
from tawa.analysis.loops.prefetchable_loads import AheadLoads
from tawa.analysis.names import name_of, name_text
from tawa.dialects.arith import AddIOp, AndIOp, CmpIOp, Predicate, SubIOp
from tawa.dialects.control_flow import carry_through
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import LoadOp, SplatOp
from tawa.dialects.warp import find_consumers
from tawa.errors import PlanError
from tawa.ir import Builder, Module, Value, Worklist, clone_op
from tawa.ir.attributes import array_attr
from tawa.plan import Plan
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class PrefetchLoads:
    """Options: the Plan, whose operands say which loads are prefetched."""

    plan: Plan

    def run(self, module: Module) -> PassResult:
        """Prefetches in every consumer. Raises PlanError for a load that cannot be prefetched."""
        wanted = {it.key for it in self.plan.operands if it.prefetched and it.argument is not None}
        moved: set[object] = set()
        for scope, _ in find_consumers(module) if wanted else ():
            for op in list(scope.walk()):
                loop = ForOp.of(op)
                if loop and not loop.unsigned:
                    ahead = _Ahead(loop, AheadLoads(loop))
                    for load in ahead.found.loads(lambda it: name_of(it.op) in wanted):
                        moved.add(name_of(load.op))
                        ahead.move(load)
        for it in self.plan.operands:
            if it.key in wanted and it.key not in moved:
                where = f" ({it.line})" if it.line else ""
                raise PlanError(
                    f"the Plan prefetches {name_text(it.key)}{where}, which its loop cannot load one iteration ahead; "
                    "cure: prefetched=false"
                )
        return PassResult(bool(moved))


@dataclass(frozen=True, slots=True)
class _Ahead:
    """The rewrite of one loop, and its analysis."""

    loop: ForOp
    found: AheadLoads

    # -- the move ----------------------------------------------------------------------------------------------------

    def move(self, load: LoadOp) -> None:
        lower, upper, step = self.loop.bounds
        first, start = Builder.before(self.loop.op), Builder.at_start(self.loop.body)
        first.loc = start.loc = load.op.loc
        inits = dict(zip(self.loop.iter_args, self.loop.inits, strict=True))
        init = self._load(
            load, first, {self.loop.induction: lower, **inits}, CmpIOp.create(first, Predicate.SLT, lower, upper)
        )
        if not any(varies(it, self.loop.op) for it in load.op.operands):  # every iteration loads the same
            load.op.result.replace_all_uses_with(init)
            load.op.erase()
            return
        following = AddIOp.create(start, self.loop.induction, step)
        left = SubIOp.create(start, upper, self.loop.induction)
        ahead: dict[Value, Value] = {self.loop.induction: following}
        now: dict[Value, Value] = {}
        for arg, end in zip(self.loop.iter_args, self.loop.yielded, strict=True):
            if self.found.is_known(arg) and self._leads_to(load, arg):
                ahead[arg] = self._computed(end, start, now)
        # The remaining distance to the upper bound fits an unsigned number.
        made = self._load(load, start, ahead, CmpIOp.create(start, Predicate.ULT, step, left))
        result = carry_through(self.loop.op, init, lambda _, __: made, load.op.result.hint)
        load.op.result.replace_all_uses_with(self.loop.iter_args[result.index])
        load.op.erase()

    def _leads_to(self, load: LoadOp, arg: Value) -> bool:
        """Whether the address or the mask of a load depends on a loop-carried value."""
        work = Worklist(load.op.operands)
        for value in work:
            if value is arg:
                return True
            op = value.defining_op
            if op is None or op.parent is not self.loop.body:
                continue
            work += op.operands
        return False

    def _load(self, load: LoadOp, builder: Builder, values: dict[Value, Value], some: Value) -> Value:
        """Clones the load with other values for the loop's block arguments, masked by `some`."""
        operands = [self._computed(operand, builder, values) for operand in load.op.operands]
        pointers, *rest = operands
        tile, mask = load.tile, load.mask
        if tile is not None:
            type = f"tensor<{'x'.join(map(str, tile.shape))}xi1, {tile.encoding}>" if mask is None else mask.type
            some = builder.create(SplatOp.NAME, (some,), (type,)).result
        if mask is not None:
            computed, *rest = rest
            some = AndIOp.create(builder, computed, some)
        made = clone_op(load.op, dict(zip(load.op.operands, operands, strict=True)))
        made.set_operands([pointers, some, *rest])
        made.properties["operandSegmentSizes"] = array_attr([1, 1, len(rest)])
        return builder.insert(made).result

    def _computed(self, value: Value, builder: Builder, values: dict[Value, Value]) -> Value:
        """Recomputes a value of the loop's body from other values for its block arguments."""
        op = value.defining_op
        if value in values or op is None or op.parent is not self.loop.body:
            return values.get(value, value)
        for operand in op.operands:
            self._computed(operand, builder, values)
        builder.insert(clone_op(op, values))
        return values[value]
