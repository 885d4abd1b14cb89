"""Rewrites a program before it is written, so that each partition can be read alone. Its meaning does not change.

The default partition sees all values of the kernel. Here it gets its own copies of the pure ones, as the other
partitions have; and what it returns unchanged is read where it comes from.

Names that mislead are replaced:

    %tawa_desc    a descriptor of what `a_ptr` points to      a_desc
    %acc = muli   moved to the loop that computes `acc`       none
"""

from __future__ import annotations

from tawa.dialects import arith, scf, tt, ttg
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.parameters import parameter_name
from tawa.emit.parameters import descriptor_name
from tawa.emit.values.expressions import CASTS, ELEMENTWISE
from tawa.ir import Block, Module, Operation, Value
from tawa.ir.rewriter import clone_op

_AGAIN = ELEMENTWISE | CASTS | op_names(
    arith.ConstantOp, tt.SplatOp, tt.BroadcastOp, tt.ExpandDimsOp, tt.MakeRangeOp,
    tt.GetProgramIdOp, tt.GetNumProgramsOp,
)  # fmt: skip
"""Operations that are cheap to repeat; the compiler merges them again."""
_JOINS = scf.LOOPS | op_names(scf.IfOp)


def prepare(module: Module) -> None:
    """Changes the module in place."""
    _name_descriptors(module)
    _forget_names_of_loops(module)
    for fork in [it for op in module.walk() if (it := ttg.WarpSpecializeOp.of(op))]:
        _read_at_the_source(fork)
        _copy_into(fork.default)


def _name_descriptors(module: Module) -> None:
    """Names the descriptors that Tawa added after what they describe."""
    for function in [it for op in module.walk() if (it := tt.FuncOp.of(op))]:
        names = [parameter_name(module, argument) for argument in function.body.args]
        for argument in function.body.args:
            if base := function.memory_of(argument):
                argument.hint = descriptor_name(names[base.index], names)


def _forget_names_of_loops(module: Module) -> None:
    """Removes the name that an operation has from a loop: what was moved to a loop has the loop's location."""
    loops = [op for op in module.walk() if op.name in scf.LOOPS]
    names = {op.loc: {result.hint for result in op.results} for op in loops}
    for op in module.walk():
        if op.loc in names and op.name not in _JOINS:
            for result in op.results:
                result.hint = "" if result.hint in names[op.loc] else result.hint


def _read_at_the_source(fork: ttg.WarpSpecializeOp) -> None:
    """Replaces results of the fork that are only passed through it."""
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
