"""Breaks aref-level programs, one small change at a time: the table of kinds.

`mutants` yields each broken program with its kind and place. `lowered` lowers one to the barrier level, which is how
mutants with too small a D or too large a P are made there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tawa.dialects.warp import GroupOp
from tawa.ir import Builder, Module, Operation, ValueMap, clone_op
from tawa.ir.attributes import read_int
from tawa.transforms.lowering.lower_arefs import LowerArefs
from tawa.transforms.lowering.outline_partitions import OutlinePartitions
from tests.verify.mutations_edits import (
    CONSUMED,
    DOT_WAIT,
    GET,
    PUT,
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
    place,
    to_end,
    to_start,
)

Program = Module | Operation
"""A module, or the operation that it is."""


def mutants(text: str, step: int = 1) -> Iterator[Mutant]:
    """Every mutant of the program in `text`."""
    return all_mutants(text, KINDS, step)


def lowered(mutant: Mutant) -> Mutant:
    """The same mutant at the barrier level."""
    for step in (LowerArefs(), OutlinePartitions()):
        step.run(mutant.module)
    return replace(mutant, edit=Edit())


# -- one access --------------------------------------------------------------------------------------------------------


def drop_access(op: Operation) -> Edit | None:
    """Removes the access. The results of a get are replaced by other memory."""
    if op.name == GET:
        for result in op.results:
            buffer = Builder.before(op).create("ttg.local_alloc", (), (result.type,))
            result.replace_all_uses_with(buffer.result)
    return drop(op)


def next_count(op: Operation) -> Edit | None:
    """Uses the next count."""
    count = op.operands[1]
    op.set_operand(1, Builder.before(op).create("aref.advance", (count,), (count.type,)).result)
    return Edit()


def first_count(op: Operation) -> Edit | None:
    """Always uses count 0."""
    made = op.operands[1].defining_op
    if made is not None and made.name == "aref.first":
        return None
    first = Builder.before(op).create("aref.first", (op.operands[0],), (op.operands[1].type,))
    op.set_operand(1, first.result)
    return Edit()


def always(op: Operation) -> Edit | None:
    """Removes the condition of a release."""
    if len(op.operands) < 3:
        return None
    op.set_operands(op.operands[:2])
    return Edit()


def negate_condition(op: Operation) -> Edit | None:
    """Negates the condition of a release."""
    if len(op.operands) < 3:
        return None
    builder = Builder.before(op)
    other = builder.create("arith.xori", (op.operands[2], builder.constant(1, "i1")), ("i1",))
    op.set_operand(2, other.result)
    return Edit()


def none_pending(op: Operation) -> Edit | None:
    """Makes a wait wait for all wgmmas."""
    pendings = read_int(op.properties["pendings"])
    return add("pendings", -pendings)(op) if pendings else None


def make_fresh(op: Operation) -> Edit | None:
    """Makes a put not wait for its slot."""
    if op.properties.get("fresh") == "true":
        return None
    op.properties["fresh"] = "true"
    return Edit()


def make_stale(op: Operation) -> Edit | None:
    """Makes a put before the partitions wait for its slot."""
    if op.properties.get("fresh") != "true":
        return None
    op.properties["fresh"] = "false"
    return Edit()


# -- the whole program -------------------------------------------------------------------------------------------------


def groups(module: Program) -> list[GroupOp]:
    """The partitions."""
    return [view for op in module.walk() if (view := GroupOp.of(op))]


def depth_of(module: Program) -> int:
    """The depth D of the first ring of tiles: one of numbers needs no more than one slot."""
    made = next(
        op for op in module.walk() if op.name == "aref.create" and "number" not in op.properties.get("fill", "")
    )
    return int(made.result.type[11:].split()[0])


def set_depth(change: Callable[[int], int]) -> Callable[[Program], Edit | None]:
    """Changes D of all rings."""

    def apply(module: Program) -> Edit | None:
        depth = depth_of(module)
        if change(depth) in (0, depth):
            return None
        old, new = f"<{depth}", f"<{change(depth)}"
        for op in module.walk():
            for value in (
                *op.results,
                *(arg for region in op.regions for block in region.blocks for arg in block.args),
            ):
                for prefix in ("!aref.ring", "!aref.index"):
                    if value.type.startswith(prefix + old):
                        value.type = prefix + new + value.type[len(prefix + old) :]
        return Edit()

    return apply


one_slot = set_depth(lambda depth: 1)
one_slot_less = set_depth(lambda depth: depth - 1)
one_slot_more = set_depth(lambda depth: depth + 1)


def as_many_pending(module: Program) -> Edit | None:
    """P ≥ D: every wait for wgmmas leaves D times as many in flight."""
    waits = [op for op in module.walk() if op.name == DOT_WAIT and read_int(op.properties["pendings"])]
    depth = depth_of(module)
    for op in waits:
        add("pendings", (depth - 1) * read_int(op.properties["pendings"]))(op)
    return Edit() if waits and depth > 1 else None


def a_second_reader(module: Program) -> Edit | None:
    """Adds a second reader that releases as well: still correct."""
    return _copy_reader(module, "")


def a_second_reader_never_releases(module: Program) -> Edit | None:
    """Adds a second reader that never releases."""
    return _copy_reader(module, CONSUMED)


def _copy_reader(module: Program, without: str) -> Edit | None:
    consumer = groups(module)[-1].op
    copy = clone_op(consumer, ValueMap())
    copy.properties["partition"] = '"consumer2"'
    for op in [op for op in copy.walk() if op.name == without]:
        op.erase()
    block, at = place(consumer)
    block.insert(at, copy)
    return Edit()


def a_second_writer(module: Program) -> Edit | None:
    """Adds a second partition that puts into the same rings."""
    producer = groups(module)[0].op
    copy = clone_op(producer, ValueMap())
    copy.properties["partition"] = '"producer2"'
    block, at = place(producer)
    block.insert(at, copy)
    return Edit()


def _counts_by_two(group: int) -> Callable[[Program], Edit | None]:
    """Makes a partition skip every second count."""

    def change(module: Program) -> Edit | None:
        found = [op for op in groups(module)[group].op.walk() if op.name == "aref.advance"]
        if not found:
            return None
        twin = Builder.before(found[-1]).create("aref.advance", found[-1].operands, (found[-1].result.type,))
        found[-1].set_operand(0, twin.result)
        return Edit()

    return change


def _runs_longer(group: int) -> Callable[[Program], Edit | None]:
    """Makes the outermost loop of a partition run one more iteration."""

    def change(module: Program) -> Edit | None:
        loop = next((op for op in groups(module)[group].op.walk() if op.name == "scf.for"), None)
        if loop is None:
            return None
        longer = Builder.before(loop).create("arith.addi", loop.operands[1:3], ("i32",))
        loop.set_operand(1, longer.result)
        return Edit()

    return change


producer_counts_by_two, consumer_counts_by_two = _counts_by_two(0), _counts_by_two(-1)
producer_runs_longer, consumer_runs_longer = _runs_longer(0), _runs_longer(-1)

_ACCESSES = (PUT, GET, CONSUMED)
_ALL = (*_ACCESSES, DOT_WAIT)

DEPTHS: tuple[Kind, ...] = (
    Kind("D = 1", (), one_slot),
    Kind("D - 1", (), one_slot_less),
    Kind("D + 1", (), one_slot_more),
    Kind("P >= D", (), as_many_pending),
)
"""D too small and P too large: the kinds that the sweep also lowers to the barrier level."""

KINDS: tuple[Kind, ...] = (
    Kind("drop", _ALL, drop_access),
    Kind("double", _ALL, double),
    Kind("later", _ALL, later),
    Kind("earlier", _ALL, earlier),
    Kind("to the start", _ALL, to_start),
    Kind("to the end", _ALL, to_end),
    Kind("nudge", _ALL, nudge),
    Kind("before the loop", _ACCESSES, before_loop),
    Kind("behind the loop", _ACCESSES, after_loop),
    Kind("before the wgmma is done", (CONSUMED,), before_the_wait),
    Kind("next count", _ACCESSES, next_count),
    Kind("always count 0", _ACCESSES, first_count),
    Kind("unconditional", (CONSUMED,), always),
    Kind("negate condition", (CONSUMED,), negate_condition),
    Kind("one more pending", (DOT_WAIT,), add("pendings", 1)),
    Kind("none pending", (DOT_WAIT,), none_pending),
    Kind("does not wait", (PUT,), make_fresh),
    Kind("waits for an empty slot", (PUT,), make_stale),
    *DEPTHS,
    Kind("second reader", (), a_second_reader),
    Kind("second reader never releases", (), a_second_reader_never_releases),
    Kind("second writer", (), a_second_writer),
    Kind("producer counts by two", (), producer_counts_by_two),
    Kind("consumer counts by two", (), consumer_counts_by_two),
    Kind("producer runs longer", (), producer_runs_longer),
    Kind("consumer runs longer", (), consumer_runs_longer),
)
"""All kinds of mutants of the aref level."""
