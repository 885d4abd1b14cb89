"""How values flow through loops, branches and partitions, and how to add or drop such values.

    %r = scf.for %i = %l to %u step %s iter_args(%a = %init) {
      …                                                          incoming(%a), incoming(%r):   %init, %next
      scf.yield %next }                                          outgoing(%next of the yield): %a, %r

`incoming` and `outgoing` are inverse: an operand is incoming for a value where the value is outgoing for the operand.
They know `scf.for`, `scf.if`, `scf.while`, the branches of `cf`, `warp.group` and `ttg.warp_specialize`; for any other
operation, and for the arguments of functions, both are empty. The induction variable of a `scf.for` has no incoming
operand: it is computed from the bounds, which `deciding` returns. Which functions a module has, and whether it is one
without branches, is asked here as well.

Source: MLIR, `RegionBranchOpInterface` and `BranchOpInterface`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tawa.dialects.builtin import BranchOp, CondBranchOp
from tawa.dialects.scf import ConditionOp, ForOp, IfOp, WhileOp, YieldOp
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import WarpSpecializeOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Block, Module, Operation, Region, Use, Value, ValueMap
from tawa.ir.attributes import read_array

# -- where values come from and where they go --------------------------------------------------------------------------


def incoming(value: Value) -> list[Use]:
    """The operands whose value a block argument or a result of control flow may have; empty for any other value.

    The order is that of execution: for a loop-carried value, the initial value comes first, then the yielded one; for
    the result of a branch, the value of `then` comes first.
    """
    index, owner = value.index, value.owner
    if isinstance(owner, Block):
        return _incoming_argument(owner, index)
    if not owner.regions:
        return []
    if loop := ForOp.of(owner):
        return [owner.use(3 + index), loop.body.terminator.use(index)]
    if branch := IfOp.of(owner):
        return [block.terminator.use(index) for block in branch.branches]
    if repeat := WhileOp.of(owner):
        return [repeat.before.terminator.use(1 + index)]
    if group := GroupOp.of(owner):
        return [group.body.terminator.use(index)]
    if fork := WarpSpecializeOp.of(owner):
        return [end.use(index) for end in fork.yields]
    return []


def _incoming_argument(block: Block, index: int) -> list[Use]:
    holder = block.parent_op
    if loop := ForOp.of(holder):
        return [loop.op.use(2 + index), block.terminator.use(index - 1)] if index > 0 else []
    if repeat := WhileOp.of(holder):
        if block is repeat.before:
            return [repeat.op.use(index), repeat.after.terminator.use(index)]
        return [repeat.before.terminator.use(1 + index)]
    region = block.parent
    if region is None:
        return []
    if block is region.blocks[0]:
        fork = WarpSpecializeOp.of(holder.parent_op) if holder is not None else None
        return [fork.capturing.use(index)] if fork else []
    ends = [other.terminator for other in region.blocks if other.ops]
    return [operands[index] for end in ends for target, operands in successor_operands(end) if target is block]


def outgoing(use: Use) -> list[Value]:
    """The block arguments and results that may get the value of an operand; empty for any other operand."""
    op, index = use.op, use.index
    if loop := ForOp.of(op):
        return [loop.iter_args[index - 3], op.results[index - 3]] if index >= 3 else []
    if repeat := WhileOp.of(op):
        return [repeat.before.args[index]]
    if op.successors:
        edges = [(target, place, it) for target, uses in successor_operands(op) for place, it in enumerate(uses)]
        return [target.args[place] for target, place, it in edges if it.index == index]
    holder = op.parent_op
    fork = WarpSpecializeOp.of(op) or WarpSpecializeOp.of(holder)
    if fork and op is fork.capturing:
        return [block.args[index] for block in fork.partitions]
    return _handed_on(holder, op, index) if holder is not None else []


def _handed_on(holder: Operation, end: Operation, index: int) -> list[Value]:
    """The values that get operand `index` of the terminator of a region."""
    if end.parent is None or end.parent.terminator is not end:
        return []
    loop, repeat = ForOp.of(holder), WhileOp.of(holder)
    if loop:
        return [loop.iter_args[index], holder.results[index]]
    if repeat and end.name == ConditionOp.NAME:
        return [repeat.after.args[index - 1], holder.results[index - 1]] if index >= 1 else []
    if repeat:
        return [repeat.before.args[index]]
    if IfOp.of(holder) or GroupOp.of(holder) or WarpSpecializeOp.of(holder):
        return [holder.results[index]] if index < len(holder.results) else []
    return []


def successor_operands(end: Operation) -> list[tuple[Block, list[Use]]]:
    """The blocks that `cf.br` or `cf.cond_br` may jump to, each with the operands that become its arguments.

    For `cf.cond_br`, the first is the block of a true condition. Empty for any other operation.
    """
    operands = [end.use(index) for index in range(len(end.operands))]
    if BranchOp.matches(end):
        return [(end.successors[0], operands)]
    if CondBranchOp.matches(end):
        _, yes, no = read_array(end.properties.get("operandSegmentSizes", "array<i32: 1, 0, 0>"))
        return [(end.successors[0], operands[1 : 1 + yes]), (end.successors[1], operands[1 + yes : 1 + yes + no])]
    return []


def deciding(op: Operation) -> list[Use]:
    """The operands that determine the trip count of a loop or the branch taken; empty for any other operation.

    For `scf.for` the bounds and the step, for `scf.if` the condition, for `scf.while` the first operand of its
    `scf.condition`.
    """
    if ForOp.of(op):
        return [op.use(0), op.use(1), op.use(2)]
    if IfOp.of(op):
        return [op.use(0)]
    repeat = WhileOp.of(op)
    return [repeat.before.terminator.use(0)] if repeat else []


def holder_of(value: Value) -> Operation | None:
    """The operation that has `value` as a result, or as an argument of one of its regions."""
    return value.owner if isinstance(value.owner, Operation) else value.owner.parent_op


# -- loop-carried values of a `scf.for` --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoopCarried:
    """Loop-carried value `index` of a `scf.for`: its initial value and block argument."""

    loop: ForOp
    index: int

    @property
    def init(self) -> Value:
        """The value in the first iteration, and the result if there is no iteration."""
        return self.loop.inits[self.index]

    @property
    def argument(self) -> Value:
        """The value at the start of an iteration."""
        return self.loop.iter_args[self.index]


def loop_carried(value: Value) -> LoopCarried | None:
    """The loop-carried value whose block argument or result is `value`; None for any other value."""
    loop = ForOp.of(holder_of(value))
    if loop is None:
        return None
    index = value.index - 1 if isinstance(value.owner, Block) else value.index
    return LoopCarried(loop, index) if index >= 0 else None


# -- adding carried values ---------------------------------------------------------------------------------------------


def carry_through(op: Operation, value: Value, step: Callable[[Block, Value], Value], hint: str = "") -> Value:
    """Carries `value` through a `scf.for`, `scf.if`, `scf.while` or `warp.group`; returns the new result.

        op { … }      →      %r = op iter_args(%inside = value) { …; yield step(block, %inside) }

    step: is called for each block in textual order with the value at its start, and returns the value at its end. An
    `scf.if` without `else` gets one. hint: the name of the new arguments and of the result.
    """
    return carry_all_through(op, (value,), lambda block, inside: (step(block, inside[0]),), (hint,))[0]


def carry_all_through(
    op: Operation,
    values: Sequence[Value],
    step: Callable[[Block, Sequence[Value]], Iterable[Value]],
    hints: Sequence[str],
) -> list[Value]:
    """`carry_through` for several values at a time; returns the new results."""
    loop, branch, repeat, group = ForOp.of(op), IfOp.of(op), WhileOp.of(op), GroupOp.of(op)
    if loop:
        inside = [loop.carry(value, hint) for value, hint in zip(values, hints, strict=True)]
        _extend(loop.body, step(loop.body, inside))
        return op.results[len(op.results) - len(values) :]
    if branch:
        branch.ensure_else()
        for block in branch.branches:
            _extend(block, step(block, values))
    elif repeat:
        for value in values:
            op.add_operand(value)
        for block in (repeat.before, repeat.after):
            inside = [block.add_arg(value.type, hint) for value, hint in zip(values, hints, strict=True)]
            _extend(block, step(block, inside))
    elif group:
        _extend(group.body, step(group.body, values))
    else:
        raise ValueError(f"{op.name} is neither a loop nor a branch")
    for value, hint in zip(values, hints, strict=True):
        op.results.append(Value(value.type, op, len(op.results), hint))
    return op.results[len(op.results) - len(values) :]


def _extend(block: Block, values: Iterable[Value]) -> None:
    for value in values:
        block.terminator.add_operand(value)


# -- dropping carried values -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kept:
    """The indices that stay in a loop or a branch. arguments, ends: of the block and the terminator of each region."""

    operands: list[int]
    results: list[int]
    arguments: list[list[int]]
    ends: list[list[int]]


def _kept(op: Operation, results: Sequence[int], inits: Sequence[int]) -> _Kept:
    results, inits = list(results), list(inits)
    shifted = [1 + index for index in results]
    if ForOp.of(op):
        return _Kept([0, 1, 2, *(3 + index for index in results)], results, [[0, *shifted]], [results])
    if IfOp.of(op):
        return _Kept([0], results, [[], []], [results, results])
    if WhileOp.of(op):
        return _Kept(inits, results, [inits, results], [[0, *shifted], inits])
    raise ValueError(f"{op.name} is neither a loop nor a branch")


def narrow(op: Operation, results: Sequence[int], inits: Sequence[int] = ()) -> bool:
    """Drops all but some results of a `scf.for`, `scf.if` or `scf.while`, with their operands and block arguments.

    results: the indices that stay, in order. inits: for a `scf.while`, the indices of the initial values that stay,
    which are independent of its results. Dropped values may be used only by dropped values. Returns whether anything
    was dropped.
    """
    kept = _kept(op, results, inits)
    if len(kept.results) == len(op.results) and len(kept.operands) == len(op.operands):
        return False
    op.set_operands([op.operands[index] for index in kept.operands])
    for region, arguments, end in zip(op.regions, kept.arguments, kept.ends, strict=True):
        if region.blocks and region.blocks[0].ops:
            block = region.block
            block.args = _chosen(block.args, arguments)
            block.terminator.set_operands([block.terminator.operands[index] for index in end])
    op.results = _chosen(op.results, kept.results)
    return True


def _chosen(values: list[Value], indices: list[int]) -> list[Value]:
    """Some of the arguments or results, renumbered."""
    chosen = [values[index] for index in indices]
    for place, value in enumerate(chosen):
        value.index = place
    return chosen


def clone_narrowed(
    op: Operation,
    mapping: ValueMap,
    copy_block: Callable[[Block, Block], None],
    results: Sequence[int],
    inits: Sequence[int] = (),
) -> Operation:
    """A copy of a loop or a branch with only some of its results; `results` and `inits` are those of `narrow`.

    mapping: the values of the copy by values of the original; results and arguments of `op` are added. copy_block:
    copies the operations of a block, without its terminator, into a new one.
    """
    kept = _kept(op, results, inits)
    copy = Operation(
        op.name,
        [mapping.get(op.operands[index], op.operands[index]) for index in kept.operands],
        [op.results[index].type for index in kept.results],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        loc=op.loc,
        hints=[op.results[index].hint for index in kept.results],
    )
    for region, arguments, end in zip(op.regions, kept.arguments, kept.ends, strict=True):
        target = Block()
        if region.blocks and region.blocks[0].ops:
            source = region.block
            for arg in (source.args[index] for index in arguments):
                mapping[arg] = target.add_arg(arg.type, arg.hint, arg.loc)
            copy_block(source, target)
            values = [source.terminator.operands[index] for index in end]
            handed = [mapping.get(value, value) for value in values]
            target.append(Operation(source.terminator.name, handed, loc=source.terminator.loc))
        copy.add_region(Region([target]))
    for index, result in zip(kept.results, copy.results, strict=True):
        mapping[op.results[index]] = result
    _drop_empty_else(copy)
    return copy


def _drop_empty_else(op: Operation) -> None:
    """Erases the yield of an `else` block that contains only an empty yield."""
    branch = IfOp.of(op)
    block = op.regions[1].block if branch else None
    if block and not op.results and [it.name for it in block.ops] == [YieldOp.NAME]:
        block.terminator.erase()


def functions_of(module: Module) -> list[FuncOp]:
    """The functions of a module, in the order of the text."""
    return [view for op in module.body.ops if (view := FuncOp.of(op))]


def structured_kernel(module: Module) -> FuncOp | None:
    """The only function of a module; None if there are others, or if it has branches between blocks."""
    functions = functions_of(module)
    return functions[0] if len(functions) == 1 and functions[0].structured else None


def public_functions(module: Module) -> list[FuncOp]:
    """The functions that can be launched; the others are called by them."""
    return [it for it in functions_of(module) if "private" not in it.op.properties.get("sym_visibility", "")]
