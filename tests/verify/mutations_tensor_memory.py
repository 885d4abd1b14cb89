"""Breaks programs with tensor memory, one small change at a time: the kinds that only they have, and those of barriers.

A dot of tcgen05 completes by a commit, so here releases and fills are commits: dropped, doubled, moved, exchanged, and
sent to another barrier. Tensor memory is read and written in slots and columns, and a dot adds to what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tawa.dialects.tcgen05 import TCGen5MMAOp
from tawa.ir import Block, Builder, MemDescType, Operation, Value, parse_type
from tawa.ir.attributes import int_attr, read_array, read_int
from tests.verify import mutations_barrier
from tests.verify.mutations_barrier import next_slot
from tests.verify.mutations_edits import (
    ARRIVE,
    COMMIT,
    LOCAL_STORE,
    MMA,
    SCALED_MMA,
    TMEM_COPY,
    TMEM_LOAD,
    TMEM_STORE,
    Change,
    Edit,
    Kind,
    Mutant,
    after_loop,
    all_mutants,
    before_loop,
    double,
    drop,
    earlier,
    later,
    move,
    place,
    to_end,
    to_start,
)

SUBSLICE, LOCAL_LOAD = "ttng.tmem_subslice", "ttg.local_load"
ALLOC, TMEM_ALLOC = "ttg.local_alloc", "ttng.tmem_alloc"


def mutants(text: str, step: int = 1) -> Iterator[Mutant]:
    """All single changes of a program."""
    return all_mutants(text, KINDS, step)


# -- commits -----------------------------------------------------------------------------------------------------------


def _barriers(op: Operation) -> list[int]:
    """The operands that are barriers, of a commit or of a dot."""
    return [index for index, it in enumerate(op.operands) if "xi64" in it.type]


def _exchange(op: Operation, step: int) -> Edit | None:
    """Commits to the barrier of another commit of its block."""
    block, at = place(op)
    ops = block.ops[at + 1 :] if step > 0 else block.ops[:at][::-1]
    other = next((it for it in ops if it.name == COMMIT), None)
    if other is None:
        return None
    mine, theirs = op.operands[0], other.operands[0]
    _before(theirs, op, block)
    op.set_operand(0, theirs)
    other.set_operand(0, mine)
    return Edit()


def _before(value: Value, op: Operation, block: Block) -> None:
    """Moves what makes a value, in the block of an operation, before that operation."""
    made = value.defining_op
    if made is not None and made.parent is block and block.index_of(made) > block.index_of(op):
        made.detach()
        block.insert(block.index_of(op), made)
        for operand in made.operands:
            _before(operand, made, block)


def exchange_with_next(op: Operation) -> Edit | None:
    """Exchanges the barriers of two commits that follow each other."""
    return _exchange(op, 1)


def _keeps(op: Operation, kept: Callable[[int], bool]) -> Edit | None:
    """Leaves only some of the barriers of a dot, which stays asynchronous."""
    sizes = list(read_array(op.properties["operandSegmentSizes"]))
    count = sizes[6]
    if not count:
        return None
    first = sum(sizes[:6])
    places = [index for index in range(count) if kept(index)]
    if len(places) == count:
        return None
    operands = [*op.operands[:first], *(op.operands[first + part * count + it] for part in (0, 1) for it in places)]
    sizes[6] = sizes[7] = len(places)
    properties = {**op.properties, "operandSegmentSizes": f"array<i32: {', '.join(map(str, sizes))}>"}
    types = tuple(result.type for result in op.results)
    made = Builder.before(op).create(op.name, tuple(operands), types, properties=properties)
    for old, new in zip(op.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
    return Edit()


def without_first_barrier(op: Operation) -> Edit | None:
    """The dot does not commit to its first barrier."""
    return _keeps(op, lambda index: index > 0)


def without_last_barrier(op: Operation) -> Edit | None:
    """The dot does not commit to its last barrier, of several."""
    return _keeps(op, lambda index: index == 0)


def exchange_barriers(op: Operation) -> Edit | None:
    """Twice the first barrier of a dot, and never the second."""
    found = _barriers(op)
    if len(found) < 2:
        return None
    op.set_operand(found[1], op.operands[found[0]])
    return Edit()


def barrier_in_next_slot(op: Operation) -> Edit | None:
    """The dot commits to the next slot of a ring."""
    edits = (next_slot(index)(op) for index in _barriers(op))
    return next((it for it in edits if it is not None), None)


def before_the_dot(op: Operation) -> Edit | None:
    """Moves a commit before the dot that precedes it in its block."""
    block, at = place(op)
    dots = [it for it in block.ops[:at] if it.name == MMA]
    return move(op, block.index_of(dots[-1])) if dots else None


# -- dots and tensor memory --------------------------------------------------------------------------------------------


def _flag(which: str, value: bool | None) -> Change:
    """Makes a flag of a dot constant, or negates it."""

    def change(op: Operation) -> Edit | None:
        old: Value = getattr(TCGen5MMAOp(op), which)
        made = old.defining_op
        constant = made.properties["value"] if made is not None and made.name == "arith.constant" else ""
        if value is not None and constant == ("true" if value else "false"):
            return None
        builder = Builder.before(op)
        one = builder.constant(1, "i1")
        new = one if value else builder.create("arith.xori", (old if value is None else one, one), ("i1",)).result
        first = sum(read_array(op.properties["operandSegmentSizes"])[: 4 if which == "use_d" else 5])
        op.set_operand(first, new)
        return Edit()

    return change


def _buffer(op: Operation) -> int:
    """The operand of a load or store that is tensor memory."""
    return 0 if op.name in (TMEM_LOAD, TMEM_STORE) else 2


def other_accumulator(op: Operation) -> Edit | None:
    """Works on the next slot of the accumulator ring."""
    return next_slot(_buffer(op))(op)


def other_columns(step: int) -> Change:
    """Takes a slice as far from its place as it is wide."""

    def change(op: Operation) -> Edit | None:
        width = _columns(op.result)
        start = read_int(op.properties["N"]) + step * width
        if start < 0 or start + width > _columns(op.operands[0]):
            return None
        op.properties["N"] = int_attr(start)
        return Edit()

    return change


def _columns(buffer: Value) -> int:
    type = parse_type(buffer.type)
    assert isinstance(type, MemDescType)
    return type.shape[-1]


def before_the_access(op: Operation) -> Edit | None:
    """Moves an arrival before the last access of memory by the threads of its partition, in its block."""
    block, at = place(op)
    uses = [it for it in block.ops[:at] if it.name in (TMEM_LOAD, TMEM_STORE, LOCAL_STORE, LOCAL_LOAD)]
    return move(op, block.index_of(uses[-1])) if uses else None


def one_slot_less(op: Operation) -> Edit | None:
    """Allocates a ring with one slot less than its counts take."""
    buffer = op.results[0]
    type = parse_type(buffer.type)
    assert isinstance(type, MemDescType)
    slots = next(iter(type.shape))
    if slots == 1 or (len(type.shape) < 3 and type.element != "i64"):
        return None
    buffer.type = buffer.type.replace(f"<{slots}x", f"<{slots - 1}x", 1)
    return Edit()


_ON_TENSOR_MEMORY = (MMA, TMEM_LOAD, TMEM_STORE)

KINDS: tuple[Kind, ...] = (
    *mutations_barrier.KINDS,
    Kind("drop commit", (COMMIT,), drop),
    Kind("double commit", (COMMIT,), double),
    Kind("commit later", (COMMIT,), later),
    Kind("commit earlier", (COMMIT,), earlier),
    Kind("commit to the start", (COMMIT,), to_start),
    Kind("commit to the end", (COMMIT,), to_end),
    Kind("commit before the loop", (COMMIT,), before_loop),
    Kind("commit behind the loop", (COMMIT,), after_loop),
    Kind("commit to the next slot", (COMMIT,), next_slot(0)),
    Kind("exchange the barriers of two commits", (COMMIT,), exchange_with_next),
    Kind("without the first barrier", (MMA,), without_first_barrier),
    Kind("without the last barrier", (MMA,), without_last_barrier),
    Kind("one barrier twice", (MMA,), exchange_barriers),
    Kind("barrier in the next slot", (MMA,), barrier_in_next_slot),
    Kind("drop tensor access", _ON_TENSOR_MEMORY[:1] + _ON_TENSOR_MEMORY[2:], drop),
    Kind("tensor access later", _ON_TENSOR_MEMORY, later),
    Kind("tensor access earlier", _ON_TENSOR_MEMORY, earlier),
    Kind("tensor access to the start", _ON_TENSOR_MEMORY, to_start),
    Kind("always adds", (MMA,), _flag("use_d", True)),
    Kind("adds at the wrong step", (MMA,), _flag("use_d", None)),
    Kind("never executed", (MMA,), _flag("predicate", False)),
    Kind("next slot of A", (MMA,), next_slot(0)),
    Kind("next slot of B", (MMA,), next_slot(1)),
    Kind("next slot of tensor memory", _ON_TENSOR_MEMORY, other_accumulator),
    Kind("drop copy", (TMEM_COPY,), drop),
    Kind("earlier in its thread", (TMEM_COPY, SCALED_MMA), earlier),
    Kind("later in its thread", (TMEM_COPY, SCALED_MMA), later),
    Kind("to the start of its thread", (TMEM_COPY, SCALED_MMA), to_start),
    Kind("columns to the right", (SUBSLICE,), other_columns(1)),
    Kind("columns to the left", (SUBSLICE,), other_columns(-1)),
    Kind("one slot less", (ALLOC, TMEM_ALLOC), one_slot_less),
    Kind("release before the access", (ARRIVE,), before_the_access),
)
"""All kinds of mutants of a program with tensor memory."""
