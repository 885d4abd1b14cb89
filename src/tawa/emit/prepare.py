"""Changes a program before it is written, so that each partition reads by itself. The program stays the same.

The default partition sees all values of the kernel. Here it gets its own copies of the pure ones, as the other
partitions have; and what it returns unchanged is read where it comes from.
"""

from __future__ import annotations

from tawa.dialects import arith, tt, ttg
from tawa.dialects.declare.declaration import op_names
from tawa.emit.values.expressions import CASTS, ELEMENTWISE
from tawa.ir import Block, Module, Operation, Value
from tawa.ir.rewriter import clone_op

_AGAIN = ELEMENTWISE | CASTS | op_names(
    arith.ConstantOp, tt.SplatOp, tt.BroadcastOp, tt.ExpandDimsOp, tt.MakeRangeOp,
    tt.GetProgramIdOp, tt.GetNumProgramsOp,
)  # fmt: skip
"""Operations that cost little, or that the compiler merges again."""


def prepare(module: Module) -> None:
    """Changes the module in place."""
    for fork in [it for op in module.walk() if (it := ttg.WarpSpecializeOp.of(op))]:
        _read_at_the_source(fork)
        _copy_into(fork.default)


def _read_at_the_source(fork: ttg.WarpSpecializeOp) -> None:
    """Replaces results of the fork that are values from before it."""
    block = fork.default
    for result, value in zip(fork.op.results, block.terminator.operands, strict=True):
        if not _inside(value, block):
            result.replace_all_uses_with(value)


def _copy_into(block: Block) -> None:
    """Copies pure operations from outside to the first operation in the block that needs them."""
    copies: dict[Value, Value] = {}
    for op in list(block.ops[:-1]):
        for inner in op.walk():
            for index, operand in enumerate(inner.operands):
                if not _inside(operand, block) and _pure(operand):
                    inner.set_operand(index, _copy(operand, block, op, copies))


def _pure(value: Value, depth: int = 12) -> bool:
    op = value.defining_op
    return op is not None and op.name in _AGAIN and depth > 0 and all(
        it.defining_op is None or _pure(it, depth - 1) for it in op.operands
    )  # fmt: skip


def _copy(value: Value, block: Block, before: Operation, copies: dict[Value, Value]) -> Value:
    op = value.defining_op
    if op is None:
        return value
    if value not in copies:
        for operand in op.operands:
            _copy(operand, block, before, copies)
        made = clone_op(op, copies)
        copies.update(zip(op.results, made.results, strict=True))
        block.insert(block.index_of(before), made)
    return copies[value]


def _inside(value: Value, block: Block) -> bool:
    owner: Operation | Block | None = value.owner
    while owner is not None:
        if owner is block:
            return True
        owner = owner.parent_op if isinstance(owner, Block) else owner.parent
    return False


__all__ = ["prepare"]
