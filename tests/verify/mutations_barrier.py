"""Breaks barrier-level programs, one small change at a time: the table of kinds.

`mutants` yields each broken program with its kind and place. `mutations_reasons` lists where a mutant is equivalent,
and why. Kinds that change a whole module (D too small, P too large) are made at the aref level and lowered:
`mutations_aref.lowered`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tawa.ir import Block, Builder, MemDescType, Operation, Value, parse_type
from tawa.ir.attributes import read_int
from tests.verify.mutations_edits import (
    ARRIVE,
    COPY,
    DOT,
    DOT_WAIT,
    EXPECT,
    FENCE,
    INIT,
    STORE,
    STORE_WAIT,
    WAIT,
    Change,
    Edit,
    Kind,
    Mutant,
    add,
    after_loop,
    all_mutants,
    before_loop,
    before_the_wait,
    double,
    drop,
    earlier,
    later,
    nudge,
    to_end,
    to_start,
)


def mutants(text: str, step: int = 1) -> Iterator[Mutant]:
    """All single changes of a program."""
    return all_mutants(text, KINDS, step)


# -- parities and predicates -------------------------------------------------------------------------------------------


def _operand(op: Operation, index: int, make: Callable[[Builder, Value], Value]) -> Edit:
    op.set_operand(index, make(Builder.before(op), op.operands[index]))
    return Edit()


def _flipped(builder: Builder, value: Value) -> Value:
    return builder.create("arith.xori", (value, builder.constant(1, value.type)), (value.type,)).result


def flip_parity(op: Operation) -> Edit | None:
    """Makes a wait wait for the other parity."""
    return _operand(op, 1, _flipped)


def constant_parity(value: int) -> Change:
    """Makes a wait use the same parity every time."""

    def change(op: Operation) -> Edit | None:
        old = op.operands[1].defining_op
        if old is not None and old.name == "arith.constant" and read_int(old.properties["value"]) == value:
            return None
        return _operand(op, 1, lambda builder, _: builder.constant(value))

    return change


def negate_predicate(op: Operation) -> Edit | None:
    """Negates the predicate; None if there is none."""
    found = [index for index, operand in enumerate(op.operands) if operand.type == "i1"]
    return _operand(op, found[-1], _flipped) if found else None


def _first_value(value: Value) -> tuple[Operation, int] | None:
    """The initial value, at the outermost loop, of a loop-carried number."""
    found: tuple[Operation, int] | None = None
    while True:
        made = value.defining_op
        if made is not None and made.name in ("arith.xori", "arith.andi"):
            value = made.operands[0]
            continue
        if made is not None and made.name == "scf.for":
            found = (made, value.index + 3)
        elif made is not None and made.name == "scf.while":
            found = (made, value.index)
        elif isinstance(value.owner, Block) and (start := _loop_operand(value.owner, value.index)) is not None:
            found = start
        else:
            return found
        value = found[0].operands[found[1]]


def _loop_operand(block: Block, index: int) -> tuple[Operation, int] | None:
    """The loop, and its operand that initialises argument `index` of its body."""
    loop = block.parent_op
    if loop is not None and loop.name == "scf.for" and index:
        return loop, index + 2
    if loop is not None and loop.name == "scf.while":
        return loop, index
    return None


def flip_first_parity(op: Operation) -> Edit | None:
    """Starts with the other parity; None if the parity is not loop-carried."""
    found = _first_value(op.operands[1])
    if found is None:
        return None
    return _operand(*found, _flipped)


def first_slot(op: Operation) -> Edit | None:
    """Starts with the second slot; None if the slot is not loop-carried."""
    view = _view(op.operands[0])
    found = _first_value(view.operands[1]) if view is not None else None
    if view is None or found is None or _slots(view) == 1:
        return None
    return _operand(*found, lambda builder, old: _next(builder, old, 1, _slots(view)))


# -- slots -------------------------------------------------------------------------------------------------------------


def _view(value: Value) -> Operation | None:
    """The ``memdesc_index`` that a value is a view of."""
    made = value.defining_op
    while made is not None and made.name == "ttg.memdesc_trans":
        made = made.operands[0].defining_op
    return made if made is not None and made.name == "ttg.memdesc_index" else None


def _slots(view: Operation) -> int:
    row = parse_type(view.operands[0].type)
    assert isinstance(row, MemDescType)
    return row.shape[0]


def _next(builder: Builder, slot: Value, step: int, slots: int) -> Value:
    more = builder.create("arith.addi", (slot, builder.constant(step % slots)), ("i32",)).result
    return builder.create("arith.remsi", (more, builder.constant(slots)), ("i32",)).result


def other_slot(index: int, step: int) -> Change:
    """Moves the slot of operand `index` by `step` around the ring."""

    def change(op: Operation) -> Edit | None:
        view = _view(op.operands[index])
        if (
            view is None or _slots(view) == 1 or (step < 0 and _slots(view) == 2)
        ):  # with two slots, both steps give the same
            return None

        def make(builder: Builder, old: Value) -> Value:
            slot = _next(builder, view.operands[1], step, _slots(view))
            moved = builder.create("ttg.memdesc_index", (view.operands[0], slot), (view.result.type,)).result
            if old is view.result:
                return moved
            outer = old.defining_op
            assert outer is not None
            return builder.create(outer.name, (moved,), (old.type,), properties=dict(outer.properties)).result

        return _operand(op, index, make)

    return change


def next_slot(index: int) -> Change:
    """Moves the slot of operand `index` to the next one of the ring."""
    return other_slot(index, 1)


def _views(op: Operation) -> list[int]:
    return [index for index, operand in enumerate(op.operands) if "memdesc" in operand.type]


def copy_target(op: Operation) -> Edit | None:
    """The TMA copy fills another slot."""
    return next_slot(_views(op)[1])(op)


def copy_barrier(op: Operation) -> Edit | None:
    """The TMA copy signals another slot."""
    return next_slot(_views(op)[0])(op)


def dot_operand(op: Operation) -> Edit | None:
    """The wgmma reads another slot."""
    return next_slot(1)(op) if "memdesc" in op.operands[1].type else None


# -- numbers -----------------------------------------------------------------------------------------------------------


def _tile_bytes(op: Operation) -> int:
    """The bytes of the first copy that signals the barrier of an expect."""
    block = op.parent
    assert block is not None
    copy = next(it for it in block.ops if it.name == COPY)
    tile = parse_type(copy.operands[_views(copy)[1]].type)
    assert isinstance(tile, MemDescType)
    return tile.bytes


def one_tile_more(op: Operation) -> Edit | None:
    """Expects the bytes of one tile too many."""
    return add("size", _tile_bytes(op))(op)


def one_tile_less(op: Operation) -> Edit | None:
    """Expects the bytes of one tile too few."""
    return add("size", -_tile_bytes(op))(op)


def none_pending(op: Operation) -> Edit | None:
    """Waits for all."""
    pendings = read_int(op.properties["pendings"])
    return add("pendings", -pendings)(op) if pendings else None


_WAITS = (FENCE, STORE_WAIT, DOT_WAIT)
_SIGNALS = (WAIT, ARRIVE, EXPECT, COPY)

KINDS: tuple[Kind, ...] = (
    Kind("drop", (*_SIGNALS, *_WAITS, INIT), drop),
    Kind("double", (*_SIGNALS, *_WAITS, INIT), double),
    Kind("later", (*_SIGNALS, *_WAITS, STORE), later),
    Kind("earlier", (*_SIGNALS, *_WAITS, STORE), earlier),
    Kind("to the start", (*_SIGNALS, *_WAITS), to_start),
    Kind("to the end", (*_SIGNALS, *_WAITS), to_end),
    Kind("nudge", (*_SIGNALS, *_WAITS), nudge),
    Kind("before the loop", (*_SIGNALS, FENCE, STORE_WAIT), before_loop),
    Kind("behind the loop", (*_SIGNALS, FENCE, STORE_WAIT), after_loop),
    Kind("before the wgmma is done", (ARRIVE,), before_the_wait),
    Kind("flip parity", (WAIT,), flip_parity),
    Kind("parity always 0", (WAIT,), constant_parity(0)),
    Kind("parity always 1", (WAIT,), constant_parity(1)),
    Kind("flip first parity", (WAIT,), flip_first_parity),
    Kind("first slot is the second", (WAIT, ARRIVE), first_slot),
    Kind("negate predicate", (WAIT, ARRIVE, EXPECT, COPY), negate_predicate),
    Kind("next slot", (WAIT, ARRIVE, EXPECT, INIT), next_slot(0)),
    Kind("previous slot", (WAIT, ARRIVE, EXPECT, INIT), other_slot(0, -1)),
    Kind("copy to the next slot", (COPY,), copy_target),
    Kind("copy signals the next slot", (COPY,), copy_barrier),
    Kind("dot reads the next slot", (DOT,), dot_operand),
    Kind("one byte more", (EXPECT,), add("size", 1)),
    Kind("one tile more", (EXPECT,), one_tile_more),
    Kind("one tile less", (EXPECT,), one_tile_less),
    Kind("count of arrivals + 1", (INIT,), add("count", 1)),
    Kind("count of arrivals - 1", (INIT,), add("count", -1, least=1)),
    Kind("arrives twice at once", (ARRIVE,), add("count", 1)),
    Kind("one more pending", (DOT_WAIT, STORE_WAIT), add("pendings", 1)),
    Kind("none pending", (DOT_WAIT, STORE_WAIT), none_pending),
)
"""All kinds of mutants of the barrier level. There is none with an arrival count of 0, which no mbarrier can have."""
