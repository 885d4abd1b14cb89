"""Sink epilogue: what the consumer does behind its last ring access runs after the partitions have joined.

    group producer { … }              group producer { … }
    group consumer {                  %acc = group consumer {
      loop { get … consumed }           loop { get … consumed }
      store f(acc) }           →        end acc }
                                      store f(acc)

The consumer's warps go on either way. But behind the join the rings are dead, so that staging buffers and layout
scratch of the epilogue take their place in shared memory: a kernel with one tile a program needs room for its rings or
for its epilogue, not for both, and more CTAs fit on one SM. A persistent kernel has nothing behind its loop.

Requires: `partition`, `pipeline_mma` (which moves releases).
Ensures: nothing behind the groups touches a ring, and no wgmma is in flight there.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.arith import ConstantOp
from tawa.dialects.control_flow import carry_through
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.ttg import LocalDeallocOp
from tawa.dialects.ttng import WarpGroupDotWaitOp
from tawa.dialects.warp import GroupOp, find_groups
from tawa.ir import Builder, Module, Operation, Value, clone_op
from tawa.transforms.result import PassResult

_BEHIND_LOOP = op_names(WarpGroupDotWaitOp, LocalDeallocOp)


@dataclass(frozen=True, slots=True)
class SinkEpilogue:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Moves the tail of the one consumer behind the groups."""
        groups = find_groups(module)
        consumers = [group for group in groups if group.role == "consumer"]
        if len(consumers) != 1:
            return PassResult(changed=False)
        tail = _tail(consumers[0])
        if not tail:
            return PassResult(changed=False)
        assert groups[0].op.parent is not None
        builder = Builder.before(groups[0].op.parent.terminator)
        for op in tail:
            builder.insert(op.detach())
        _hand_over(consumers[0], tail)
        return PassResult(changed=True)


def _tail(group: GroupOp) -> list[Operation]:
    """The operations behind the last one that touches a ring, the wait for its wgmmas, and what ends with that."""
    ops = group.body.ops[:-1]
    last = max((index for index, op in enumerate(ops) if _touches_ring(op)), default=len(ops))
    while last + 1 < len(ops) and ops[last + 1].name in _BEHIND_LOOP:
        last += 1
    return ops[last + 1 :]


def _touches_ring(op: Operation) -> bool:
    return any(operand.type.startswith("!aref.ring<") for nested in op.walk() for operand in nested.operands)


def _hand_over(group: GroupOp, tail: list[Operation]) -> None:
    """Gives the tail what it uses from the group: constants again, everything else as results of the group."""
    replaced: dict[Value, Value] = {}
    front = Builder.before(tail[0])
    for op in tail:
        for nested in op.walk():
            for index, value in enumerate(nested.operands):
                if not _inside(group, value):
                    continue
                if value not in replaced:
                    replaced[value] = _again(value, front) or _returned(group, value)
                nested.set_operand(index, replaced[value])


def _inside(group: GroupOp, value: Value) -> bool:
    op = value.defining_op
    return op is not None and op.parent is group.body


def _again(value: Value, builder: Builder) -> Value | None:
    op = value.defining_op
    return builder.insert(clone_op(op, {})).result if op is not None and ConstantOp.of(op) else None


def _returned(group: GroupOp, value: Value) -> Value:
    """A value of the group as a result of it."""
    return carry_through(group.op, value, lambda _, inside: inside, value.hint)
