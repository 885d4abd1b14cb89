"""Pipeline MMA: keeps P iterations of wgmmas in flight and releases their slots P iterations later.

    for k, acc, i:                          for k, acc, i, prev = i0, old = false:
      x, y = aref.get(r, i)                   x, y = aref.get(r, i)
      acc = dot(x, y, acc)          →         acc = dot(x, y, acc) {isAsync}
      aref.consumed(r, i)                     acc = dot_wait(acc) {pendings = P}
                                              aref.consumed(r, prev) if old
                                            acc = dot_wait(acc) {pendings = 0}
                                            aref.consumed(r, prev) if old

`prev` is the count of P iterations ago and `old` is true if that iteration exists. Both are loop-carried, so no trip
count is assumed. The remaining slots are released right after the loop and before the epilogue, so that the producer
can fill them for the next tile. With P = 0 the wgmmas of one iteration still overlap each other: there is one wait,
after the last of them.

An operand that the loop computes (converted or scaled weights) gets P + 1 buffers in rotation, so that it is computed
while the tensor cores work on the previous one:

    for k, acc:                             y' = local_alloc() of P + 1 buffers
      y = local_alloc(t)          →         for k, acc, s = 0:
      acc = dot(x, y, acc)                    y = y'[s];  local_store(t, y);  fence;  acc = dot(x, y, acc)
                                              next s = (s + 1) mod (P + 1)
                                            acc = dot_wait(acc) {pendings = 0};  local_dealloc y'

Buffer s is written again P + 1 iterations later, after the consumer has waited for the dot that read it. Each warp
waits for its own wgmmas only, so Triton's back end inserts a barrier of the partition's warps between that wait and the
store. The `local_dealloc` after the wait (inside the loop if P = 0) extends the buffer's live range: Triton's allocator
ends it at the last use and does not know that a wgmma in flight still reads the buffer.

Requires: `partition`. Works on loops of the consumer.
Ensures: every slot is released after the wgmmas that read it have completed.
Leaves a loop at P = 0 (with a note) if a wgmma must not stay in flight: its accumulator is used inside the loop, its
operand is in registers or in a buffer with other uses, the slot's count is not carried by the loop, or the loop is a
`while`.
Source: arXiv 2510.14719, section 5.1 (fine-grained pipeline); PTX ISA, "wgmma.wait_group".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tawa.analysis.loops.async_wgmma import dots_in, is_aside, obstacle, own_buffers
from tawa.analysis.names import loop_number
from tawa.analysis.rings.channels import slot_readers
from tawa.dialects.aref import ConsumedOp, GetOp
from tawa.dialects.control_flow import carry_through
from tawa.dialects.scf import ForOp, WhileOp
from tawa.dialects.ttg import LocalAllocOp, LocalDeallocOp, LocalStoreOp, MemDescIndexOp
from tawa.dialects.ttng import FenceAsyncSharedOp, WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Block, Builder, MemDescType, Module, Operation, Value, parse_type, source_of
from tawa.ir.attributes import bool_attr, int_attr
from tawa.plan import LoopPlan, Plan
from tawa.remarks import Remark
from tawa.transforms.lowering.slots import make_mutable, next_slot
from tawa.transforms.result import PassResult

_NOT_IN_FLIGHT = "no wgmma of this loop stays in flight over an iteration"


@dataclass(frozen=True, slots=True)
class PipelineMma:
    """Options: the Plan, whose loops say P.

    The result has the P of each loop: 0 if no wgmma may stay in flight.
    """

    plan: Plan

    def run(self, module: Module) -> PassResult:
        """Pipelines every loop of every consumer with wgmmas directly in its body."""
        remarks: list[Remark] = []
        reached: dict[int, int] = {}
        changed = False
        for op in list(module.walk()):
            group = GroupOp.of(op)
            if group is None or group.role != "consumer":
                continue
            for nested in list(op.walk()):
                loop, repeat = ForOp.of(nested), WhileOp.of(nested)
                number = loop_number(nested) if loop or repeat else None
                depth = self.plan.loop(number).mma_depth or 0 if loop or repeat else 0
                if repeat and depth and any(WarpGroupDotOp.of(it) for it in repeat.after.ops):
                    text = f"{_NOT_IN_FLIGHT}: it is a `while`"
                    remarks.append(Remark("note", text, source_of(module, nested)))
                if loop is None or is_aside(loop) or len(dots_in(loop)) < (1 if depth else 2):
                    continue
                reason = _obstacle(loop)
                if reason and depth == 0:
                    continue
                if reason:
                    remarks.append(Remark("note", f"{_NOT_IN_FLIGHT}: {reason}", source_of(module, nested)))
                else:
                    _pipeline(loop, depth)
                    changed = True
                    if number is not None:
                        reached[number] = depth
        found = {it.loop: reached.get(it.loop, 0) for it in self.plan.loops if it.loop is not None}
        decided = Plan(loops=tuple(LoopPlan(number, mma_depth=depth) for number, depth in found.items()))
        return PassResult(changed, tuple(remarks), decided)


def _obstacle(loop: ForOp) -> str:
    """Why no wgmma of this loop may stay in flight; empty if all may."""
    reason = obstacle(loop)
    if reason:
        return reason
    for op in loop.body.ops:
        consumed = ConsumedOp.of(op)
        if consumed and not (consumed.index.owner is loop.body and consumed.condition is None):
            return "a slot's count is not carried by this loop"
    return ""


def _rotate_buffers(loop: ForOp, buffers: list[LocalAllocOp], count: int) -> list[Value]:
    """Multi-buffers what an iteration fills: `count` copies of each buffer in rotation; returns the allocations."""
    made: list[Value] = []
    front = Builder.before(loop.op)
    front.loc = buffers[0].op.loc

    def fill(body: Block, slot: Value) -> Value:
        for buffer in buffers:
            source, one = buffer.source, parse_type(buffer.op.result.type)
            assert source is not None and isinstance(one, MemDescType)
            front.loc = buffer.op.loc
            hint = buffer.op.result.hint
            whole = front.create(LocalAllocOp.NAME, (), (str(one.with_slots(count)),), hints=(hint,)).result
            made.append(whole)
            builder = Builder.before(buffer.op)
            view = builder.create(MemDescIndexOp.NAME, (whole, slot), (str(replace(one, mutable=True)),), hints=(hint,))
            builder.create(LocalStoreOp.NAME, (source, view.result))
            builder.create(FenceAsyncSharedOp.NAME, properties={"bCluster": bool_attr(False)})
            buffer.op.result.replace_all_uses_with(view.result)
            make_mutable(view.result, builder)
            buffer.op.erase()
        end = Builder.before(body.terminator)
        end.loc = buffers[0].op.loc
        return next_slot(end, slot, count)[0]

    carry_through(loop.op, front.constant(0), fill, "slot")
    return made


def _pipeline(loop: ForOp, depth: int) -> None:
    dots = dots_in(loop)
    filled = own_buffers(loop)
    buffers = _rotate_buffers(loop, filled, depth + 1) if depth and filled else [it.op.result for it in filled]
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
        # Releases after the wait stay: they have a later reader there, such as a dot in a branch.
        end = loop.body.index_of(waited)
        moved = [view.op.detach() for view in consumed if loop.body.index_of(view.op) < end]
        release = Builder.after(waited)
        for op in moved:
            release.insert(op)
        _end_live_ranges(release, buffers)
        return
    after = Builder.after(loop.op)
    after.loc = dots[-1].op.loc
    results = [loop.op.results[index] for index in indices]
    users = [use for result in results for use in result.uses]
    drained = _wait(after, results, 0)
    renamed = dict(zip(results, drained.results, strict=True))
    for use in users:
        use.op.set_operand(use.index, renamed[use.op.operands[use.index]])

    _end_live_ranges(after, buffers)
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
    # Slots are released in the order in which they were acquired: all rings of the oldest iteration first.
    for age in reversed(range(depth)):
        for view, previous in zip(consumed, delayed, strict=True):
            after.create(ConsumedOp.NAME, (view.ring, previous[age], old[age]))


def _end_live_ranges(builder: Builder, buffers: list[Value]) -> None:
    """Extends the live ranges of buffers to the wait; Triton's allocator would end them at their last use."""
    for buffer in buffers:
        builder.create(LocalDeallocOp.NAME, (buffer,))


def _delay(loop: ForOp, inits: list[Value], value: Value, hint: str) -> list[Value]:
    """Carries the values of `value` of 1, 2, … iterations ago; returns the loop's results in that order."""
    results: list[Value] = []
    for init in inits:
        results.append(carry_through(loop.op, init, lambda _, __, before=value: before, hint))
        value = loop.iter_args[-1]
    return results


def _wait(builder: Builder, values: list[Value], pendings: int) -> Operation:
    return builder.create(
        WarpGroupDotWaitOp.NAME,
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
