"""Sink epilogue: moves the consumer's code after its last ring access to after the join of the partitions.

    group producer { … }              group producer { … }
    group consumer {                  %acc = group consumer {
      loop { get … consumed }           loop { get … consumed }
      store f(acc) }           →        end acc }
                                      store f(acc)

The consumer's warps execute the epilogue either way. After the join the rings are dead, so the allocator reuses their
shared memory for the epilogue's staging buffers and layout scratch. A kernel with one tile per program then needs room
for its rings or its epilogue, not for both, and more CTAs fit on one SM. A persistent kernel has no code after its
loop, so nothing moves to after its join.

Where the accumulator comes from tensor memory, operations that only the epilogue needs and that access no memory, such
as the addresses of a store, move to after the last access as well, also in a loop over tiles. Otherwise each thread
holds their results while it reads the accumulator.

Requires: `partition`, `pipeline_mma` (which moves releases).
Ensures: no operation after the groups accesses a ring, and no wgmma is in flight there.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.arith import ConstantOp
from tawa.dialects.control_flow import carry_through
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.effects import is_pure
from tawa.dialects.scf import LOOPS
from tawa.dialects.tcgen05 import TMEMLoadOp
from tawa.dialects.ttg import LocalDeallocOp
from tawa.dialects.ttng import WarpGroupDotWaitOp
from tawa.dialects.warp import GroupOp, find_groups
from tawa.ir import Block, Builder, Module, Operation, Value, clone_op
from tawa.transforms.result import PassResult

_BEHIND_LOOP = op_names(WarpGroupDotWaitOp, LocalDeallocOp)


@dataclass(frozen=True, slots=True)
class SinkEpilogue:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Moves the tail of the consumer after the groups; a kernel with several consumers stays as it is."""
        groups = find_groups(module)
        consumers = [group for group in groups if group.role == "consumer"]
        if len(consumers) != 1:
            return PassResult(changed=False)
        changed = False
        for loop in [op for op in consumers[0].op.walk() if op.name in LOOPS]:
            early, late = _epilogue(loop.regions[-1].block)
            changed |= bool(early)
            for op in early:
                Builder.before(late[0]).insert(op.detach())
        tail = [op for part in _epilogue(consumers[0].body) for op in part]
        if not tail:
            return PassResult(changed)
        assert groups[0].op.parent is not None
        builder = Builder.before(groups[0].op.parent.terminator)
        for op in tail:
            builder.insert(op.detach())
        _rewire(consumers[0], tail)
        return PassResult(changed=True)


def _epilogue(block: Block) -> tuple[list[Operation], list[Operation]]:
    """What the epilogue alone needs, and the operations behind the last ring access.

    These come after the waits and deallocations that directly follow the access.
    """
    ops = block.ops[:-1]
    last = max((index for index, op in enumerate(ops) if _touches(op)), default=len(ops))
    while last + 1 < len(ops) and ops[last + 1].name in _BEHIND_LOOP:
        last += 1
    front, late = ops[: last + 1], ops[last + 1 :]
    needed: list[Operation] = []
    if any(TMEMLoadOp.matches(it) for op in front for it in op.walk()):
        behind = set(late)
        for op in reversed(front):
            if is_pure(op) and not op.regions and _feeds(op, behind):
                behind.add(op)
                needed.insert(0, op)
    return needed, late


def _feeds(op: Operation, behind: set[Operation]) -> bool:
    """Whether the results of an operation are used, and only behind."""
    uses = [use.op for result in op.results for use in result.uses]
    return bool(uses) and all(any(it in behind for it in (use, *use.ancestors())) for use in uses)


def _touches(op: Operation) -> bool:
    """Whether an operation accesses a ring, or tensor memory."""
    types = [operand.type for nested in op.walk() for operand in nested.operands]
    return any(it.startswith("!aref.ring<") or "#ttng.tensor_memory" in it for it in types)


def _rewire(group: GroupOp, tail: list[Operation]) -> None:
    """Replaces the tail's uses of values of the group: constants are cloned, all others become results of the group."""
    replaced: dict[Value, Value] = {}
    front = Builder.before(tail[0])
    for op in tail:
        for nested in op.walk():
            for index, value in enumerate(nested.operands):
                if not _inside(group, value):
                    continue
                if value not in replaced:
                    replaced[value] = _cloned_constant(value, front) or _returned(group, value)
                nested.set_operand(index, replaced[value])


def _inside(group: GroupOp, value: Value) -> bool:
    op = value.defining_op
    return op is not None and op.parent is group.body


def _cloned_constant(value: Value, builder: Builder) -> Value | None:
    op = value.defining_op
    return builder.insert(clone_op(op, {})).result if op is not None and ConstantOp.of(op) else None


def _returned(group: GroupOp, value: Value) -> Value:
    """Returns a value of the group as one more result of the group."""
    return carry_through(group.op, value, lambda _, inside: inside, value.hint)
