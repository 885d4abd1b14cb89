"""Pipeline MMA: keep P iterations of wgmmas in flight and release their slots P iterations later.

    for k, acc, i:                          for k, acc, i, prev = i0, old = false:
      x, y = aref.get(r, i)                   x, y = aref.get(r, i)
      acc = dot(x, y, acc)          →         acc = dot(x, y, acc) {isAsync}
      aref.consumed(r, i)                     acc = dot_wait(acc) {pendings = P}
                                              aref.consumed(r, prev) if old
                                            acc = dot_wait(acc) {pendings = 0}
                                            aref.consumed(r, prev) if old

`prev` is the count P iterations ago and `old` says whether there was one; both are carried, so that no trip count need
be known and none is assumed. What is left is released right behind the loop, before the epilogue, so that the
producer fills the next tile's slots meanwhile. With P = 0 the wgmmas of one iteration still run together: one wait
behind the last of them.

Requires: `partition`. Works on loops of the consumer.
Ensures: every slot is released after the wgmmas that read it are complete.
Leaves a loop at P = 0 (with a note) when a wgmma may not stay in flight: its accumulator is used inside the loop, its
operand lives in registers or in a buffer the loop writes, the slot's count is not the loop's own, or it is a `while`.
Source: arXiv 2510.14719, section 5.1 (fine-grained pipeline); PTX ISA, "wgmma.wait_group".
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.channels import slot_readers
from tawa.dialects.aref import ConsumedOp, GetOp
from tawa.dialects.scf import ForOp, WhileOp
from tawa.dialects.ttg import VIEWS
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Builder, Module, Operation, Value, source_of
from tawa.ir.attributes import bool_attr, int_attr
from tawa.plan import Plan
from tawa.remarks import Remark
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class PipelineMma:
    """Options: the Plan, whose `mma_depth` is P."""

    plan: Plan

    def run(self, module: Module) -> PassResult:
        """Pipelines every loop of every consumer that has wgmmas right inside."""
        depth = self.plan.mma_depth
        remarks: list[Remark] = []
        changed = False
        for op in list(module.walk()):
            group = GroupOp.of(op)
            if group is None or group.role != "consumer":
                continue
            for nested in list(op.walk()):
                loop, repeat = ForOp.of(nested), WhileOp.of(nested)
                if repeat and depth and any(WarpGroupDotOp.of(it) for it in repeat.after.ops):
                    text = "P = 0 in this loop: it is a `while`"
                    remarks.append(Remark("note", text, source_of(module, nested)))
                if loop is None or len(_dots(loop)) < (1 if depth else 2):
                    continue
                reason = _obstacle(loop)
                if reason and depth == 0:
                    continue
                if reason:
                    remarks.append(Remark("note", f"P = 0 in this loop: {reason}", source_of(module, nested)))
                else:
                    _pipeline(loop, depth)
                    changed = True
        return PassResult(changed, tuple(remarks))


def _dots(loop: ForOp) -> list[WarpGroupDotOp]:
    return [dot for op in loop.body.ops if (dot := WarpGroupDotOp.of(op))]


def _obstacle(loop: ForOp) -> str:
    """Why no wgmma of this loop may stay in flight; empty when all may."""
    body = loop.body
    for dot in _dots(loop):
        if dot.adds_partial_sums:
            return "the dot adds up partial sums of fp8 products (max_num_imprecise_acc)"
        if dot.a_in_registers:
            return "operand A is in registers"
        for operand in (dot.a, dot.b):
            if not _stays(loop, operand):
                return "an operand is in a buffer that the loop writes itself"
        accumulator = dot.accumulator
        carried = accumulator.owner is body and accumulator.index > 0
        chained = WarpGroupDotOp.of(accumulator.defining_op) is not None and accumulator.owner.parent is body  # type: ignore[union-attr]
        if not (carried or chained):
            return "the accumulator does not come from the previous iteration"
        if len(accumulator.uses) != 1:
            return "the accumulator has another use in the loop"
        if len(dot.op.result.uses) != 1:
            return "the result of the dot has another use in the loop"
        use = dot.op.result.uses[0]
        onward = WarpGroupDotOp.of(use.op)
        if use.op is body.terminator:
            if not _returns_to_itself(loop, dot, use.index):
                return "the accumulator moves to another variable"
        elif onward is None or use.index != 2 or use.op.parent is not body:
            return "the result of the dot is used inside the loop"
    for op in body.ops:
        consumed = ConsumedOp.of(op)
        if consumed and not (consumed.index.owner is body and consumed.condition is None):
            return "a slot's count is not carried by this loop"
    return ""


def _returns_to_itself(loop: ForOp, dot: WarpGroupDotOp, index: int) -> bool:
    """Whether the chain of dots that ends in `dot` began with the carried value it is yielded to."""
    value = dot.accumulator
    while (before := WarpGroupDotOp.of(value.defining_op)) is not None:
        value = before.accumulator
    return value is loop.iter_args[index]


def _stays(loop: ForOp, operand: Value) -> bool:
    """Whether the bytes behind a memdesc operand stay as they are until the slot is released."""
    op = operand.defining_op
    while op is not None and op.name in VIEWS:
        op = op.operands[0].defining_op
    return op is None or GetOp.of(op) is not None or not loop.op.is_ancestor_of(op)


def _pipeline(loop: ForOp, depth: int) -> None:
    dots = _dots(loop)
    for dot in dots:
        dot.op.properties["isAsync"] = bool_attr(True)
    ends = [dot for dot in dots if dot.op.result.uses[0].op is loop.body.terminator]
    indices = [dot.op.result.uses[0].index for dot in ends]
    wait = Builder.after(dots[-1].op)
    accumulators = [dot.op.result for dot in ends]
    waited = _wait(wait, accumulators, len(dots) * depth)
    for index, result in zip(indices, waited.results, strict=True):
        loop.body.terminator.set_operand(index, result)

    consumed = [view for op in loop.body.ops if (view := ConsumedOp.of(op)) and _feeds_dot(loop, view)]
    if depth == 0:
        # What stands behind the wait already has a later reader there, such as a dot in a branch.
        end = loop.body.index_of(waited)
        moved = [view.op.detach() for view in consumed if loop.body.index_of(view.op) < end]
        release = Builder.after(waited)
        for op in moved:
            release.insert(op)
        return
    after = Builder.after(loop.op)
    after.loc = dots[-1].op.loc
    results = [loop.op.results[index] for index in indices]
    users = [use for result in results for use in result.uses]
    drained = _wait(after, results, 0)
    renamed = dict(zip(results, drained.results, strict=True))
    for use in users:
        use.op.set_operand(use.index, renamed[use.op.operands[use.index]])

    if not consumed:
        return
    never = Builder.before(loop.op).constant(0, "i1")
    always = Builder.at_start(loop.body, waited.loc).constant(1, "i1")
    old = _delay(loop, [never] * depth, always, "old")
    delayed = [_delay(loop, [loop.inits[view.index.index - 1]] * depth, view.index, "previous") for view in consumed]
    moved = [view.op.detach() for view in consumed]
    release = Builder.after(waited)
    for op, view, previous in zip(moved, consumed, delayed, strict=True):
        release.insert(op)
        view.op.set_operand(1, loop.iter_args[previous[-1].index])
        view.op.add_operand(loop.iter_args[old[-1].index])
    # Slots go back in the order in which they came: all rings of the oldest iteration first.
    for age in reversed(range(depth)):
        for view, previous in zip(consumed, delayed, strict=True):
            after.create("aref.consumed", (view.ring, previous[age], old[age]))


def _delay(loop: ForOp, inits: list[Value], value: Value, hint: str) -> list[Value]:
    """Carries `value` as it was 1, 2, … iterations ago; returns the loop's results, nearest first."""
    results: list[Value] = []
    for init in inits:
        argument = loop.carry(init, hint)
        loop.body.terminator.add_operand(value)
        value = argument
        results.append(loop.op.results[-1])
    return results


def _wait(builder: Builder, values: list[Value], pendings: int) -> Operation:
    return builder.create(
        "ttng.warp_group_dot_wait",
        values,
        [value.type for value in values],
        properties={"pendings": int_attr(pendings)},
        hints=[value.hint for value in values],
    )


def _feeds_dot(loop: ForOp, consumed: ConsumedOp) -> bool:
    """Whether the slot that `consumed` releases is read by a wgmma of this loop."""
    for op in loop.body.ops:
        get = GetOp.of(op)
        if get and get.ring is consumed.ring and get.index is consumed.index:
            return any(WarpGroupDotOp.of(reader) for view in op.results for reader in slot_readers(view))
    return False
