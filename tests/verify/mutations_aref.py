"""Mutants of aref-level programs: each access dropped, doubled, moved, re-ordered or re-indexed; D and P changed.

`mutants(text)` gives each with its kind and place; the module is parsed anew for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tawa.dialects.warp import GroupOp
from tawa.ir import Block, Module, Operation, ValueMap, clone_op, parse_module

ACCESSES = ("aref.put", "aref.get", "aref.consumed", "ttng.warp_group_dot_wait")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed program. kind: what was done to which operation; number: to the how-manieth."""

    kind: str
    number: int
    module: Module


def mutants(text: str) -> Iterator[Mutant]:
    """Every mutant of the program in `text`."""
    for name in ACCESSES:
        for change, apply in CHANGES.items():
            for number in range(text.count(f'"{name}"')):
                module = parse_module(text)
                op = [it for it in module.walk() if it.name == name][number]
                if apply(op):
                    yield Mutant(f"{change} {name.partition('.')[2]}", number, module)
    for change, whole in WHOLE.items():
        module = parse_module(text)
        if whole(module):
            yield Mutant(change, 0, module)


def place(op: Operation) -> tuple[Block, int]:
    assert op.parent is not None
    return op.parent, op.parent.index_of(op)


def drop(op: Operation) -> bool:
    block, at = place(op)
    if op.name == "aref.get":
        for result in op.results:
            buffer = block.insert(at, Operation("ttg.local_alloc", (), (result.type,)))
            result.replace_all_uses_with(buffer.result)
    if op.name == "ttng.warp_group_dot_wait":
        for operand, result in zip(op.operands, op.results, strict=True):
            result.replace_all_uses_with(operand)
    op.erase()
    return True


def double(op: Operation) -> bool:
    block, at = place(op)
    block.insert(at + 1, clone_op(op, ValueMap()))
    return True


def to_start(op: Operation) -> bool:
    """To the start of its block, where its operands are there already."""
    block, at = place(op)
    if at == 0 or op.name == "ttng.warp_group_dot_wait" or any(it.owner in block.ops for it in op.operands):
        return False
    block.insert(0, op.detach())
    return True


def to_end(op: Operation) -> bool:
    block, at = place(op)
    if at == len(block.ops) - 2 or any(result.uses for result in op.results):
        return False
    op.detach()
    block.insert(len(block.ops) - 1, op)
    return True


def before_the_wait(op: Operation) -> bool:
    block, at = place(op)
    waits = [it for it in block.ops[:at] if it.name == "ttng.warp_group_dot_wait"]
    if op.name != "aref.consumed" or not waits or any(it.owner in block.ops[:at] for it in op.operands):
        return False
    op.detach()
    block.insert(block.index_of(waits[-1]), op)
    return True


def next_count(op: Operation) -> bool:
    """At the count after its own."""
    if op.name == "ttng.warp_group_dot_wait":
        return False
    block, at = place(op)
    count = op.operands[1]
    advanced = block.insert(at, Operation("aref.advance", (count,), (count.type,)))
    op.set_operand(1, advanced.result)
    return True


def first_count(op: Operation) -> bool:
    """Always at 0."""
    if op.name == "ttng.warp_group_dot_wait":
        return False
    block, at = place(op)
    first = block.insert(at, Operation("aref.first", (op.operands[0],), (op.operands[1].type,)))
    op.set_operand(1, first.result)
    return True


def always(op: Operation) -> bool:
    """A release without its condition."""
    if op.name != "aref.consumed" or len(op.operands) < 3:
        return False
    op.set_operands(op.operands[:2])
    return True


def one_more_pending(op: Operation) -> bool:
    if op.name != "ttng.warp_group_dot_wait":
        return False
    pendings = int(op.properties["pendings"].split()[0])
    op.properties["pendings"] = f"{pendings + 1} : i32"
    return True


def none_pending(op: Operation) -> bool:
    if op.name != "ttng.warp_group_dot_wait" or op.properties["pendings"].startswith("0"):
        return False
    op.properties["pendings"] = "0 : i32"
    return True


def make_fresh(op: Operation) -> bool:
    if op.name != "aref.put" or op.properties.get("fresh") == "true":
        return False
    op.properties["fresh"] = "true"
    return True


def make_stale(op: Operation) -> bool:
    """A put before the partitions waits for its slot."""
    if op.properties.get("fresh") != "true":
        return False
    op.properties["fresh"] = "false"
    return True


CHANGES: dict[str, Callable[[Operation], bool]] = {
    function.__name__: function
    for function in (
        drop, double, to_start, to_end, before_the_wait, next_count, first_count, always, one_more_pending,
        none_pending, make_fresh, make_stale,
    )
}  # fmt: skip


def groups(module: Module) -> list[GroupOp]:
    return [view for op in module.walk() if (view := GroupOp.of(op))]


def one_slot(module: Module) -> bool:
    """D = 1."""
    return set_depth(module, lambda depth: 1)


def one_slot_less(module: Module) -> bool:
    """D − 1."""
    return set_depth(module, lambda depth: depth - 1)


def one_slot_more(module: Module) -> bool:
    """D + 1."""
    return set_depth(module, lambda depth: depth + 1)


def set_depth(module: Module, change: Callable[[int], int]) -> bool:
    made = next(op for op in module.walk() if op.name == "aref.create")
    depth = int(made.result.type[11:].split()[0])
    if change(depth) in (0, depth):
        return False
    old, new = f"<{depth}", f"<{change(depth)}"
    for op in module.walk():
        for value in (*op.results, *(arg for region in op.regions for block in region.blocks for arg in block.args)):
            for prefix in ("!aref.ring", "!aref.index"):
                if value.type.startswith(prefix + old):
                    value.type = prefix + new + value.type[len(prefix + old) :]
    return True


def a_second_reader(module: Module) -> bool:
    """Two readers that both release: as right as one."""
    return second_reader(module, "")


def a_second_reader_never_releases(module: Module) -> bool:
    return second_reader(module, "aref.consumed")


def second_reader(module: Module, without: str) -> bool:
    consumer = groups(module)[-1].op
    copy = clone_op(consumer, ValueMap())
    copy.properties["partition"] = '"consumer2"'
    for op in [op for op in copy.walk() if op.name == without]:
        op.erase()
    block, at = place(consumer)
    block.insert(at, copy)
    return True


def a_second_writer(module: Module) -> bool:
    producer = groups(module)[0].op
    copy = clone_op(producer, ValueMap())
    copy.properties["partition"] = '"producer2"'
    block, at = place(producer)
    block.insert(at, copy)
    return True


def _double_advance(module: Module, group: int) -> bool:
    found = [op for op in groups(module)[group].op.walk() if op.name == "aref.advance"]
    if not found:
        return False
    block, at = place(found[-1])
    twin = Operation("aref.advance", (found[-1].operands[0],), (found[-1].result.type,))
    block.insert(at, twin)
    found[-1].set_operand(0, twin.result)
    return True


def producer_counts_by_two(module: Module) -> bool:
    return _double_advance(module, 0)


def consumer_counts_by_two(module: Module) -> bool:
    return _double_advance(module, -1)


def _stretch(module: Module, group: int) -> bool:
    """The outermost loop of a partition runs one iteration more."""
    loop = next((op for op in groups(module)[group].op.walk() if op.name == "scf.for"), None)
    if loop is None:
        return False
    block, at = place(loop)
    longer = Operation("arith.addi", (loop.operands[1], loop.operands[2]), ("i32",))
    block.insert(at, longer)
    loop.set_operand(1, longer.result)
    return True


def producer_runs_longer(module: Module) -> bool:
    return _stretch(module, 0)


def consumer_runs_longer(module: Module) -> bool:
    return _stretch(module, -1)


WHOLE: dict[str, Callable[[Module], bool]] = {
    function.__name__: function
    for function in (
        one_slot, one_slot_less, one_slot_more, a_second_reader, a_second_reader_never_releases, a_second_writer,
        producer_counts_by_two, consumer_counts_by_two, producer_runs_longer, consumer_runs_longer,
    )
}  # fmt: skip
