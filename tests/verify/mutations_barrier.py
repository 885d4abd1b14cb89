"""Breaks barrier-level programs, one small change at a time: every kind at every place.

`mutants` gives each broken program with its kind. A few kinds change nothing at some places; `EQUIVALENT` says which
and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tawa.ir import Builder, MemDescType, Module, Operation, Value, clone_op, parse_module, parse_type
from tawa.ir.attributes import int_attr, read_int

Change = Callable[[Operation], bool]
"""Breaks an operation; False where there is nothing to break in this way."""

WAIT, ARRIVE, EXPECT, INIT = "ttng.wait_barrier", "ttng.arrive_barrier", "ttng.barrier_expect", "ttng.init_barrier"
COPY, STORE = "ttng.async_tma_copy_global_to_local", "ttng.async_tma_copy_local_to_global"
FENCE, STORE_WAIT, DOT_WAIT, DOT = (
    "ttng.fence_async_shared",
    "ttng.async_tma_store_wait",
    "ttng.warp_group_dot_wait",
    "ttng.warp_group_dot",
)
EVENTS = frozenset({WAIT, ARRIVE, EXPECT, COPY, STORE, FENCE, STORE_WAIT, DOT_WAIT, DOT, "ttg.local_store"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken program: what was done, to the which-th operation of which name."""

    kind: str
    target: str
    place: int
    module: Module

    def __str__(self) -> str:
        return f"{self.kind} {self.target} #{self.place}"


def mutants(text: str) -> Iterator[Mutant]:
    """All single changes of a program."""
    for kind, names, change in CHANGES:
        for name in names:
            place = 0
            while True:
                module = parse_module(text)
                found = [op for op in module.walk() if op.name == name]
                if place >= len(found):
                    break
                if change(found[place]):
                    yield Mutant(kind, name.split(".")[1], place, module)
                place += 1


# -- the changes -------------------------------------------------------------------------------------------------------


def drop(op: Operation) -> bool:
    for operand, result in zip(op.operands, op.results, strict=False):
        result.replace_all_uses_with(operand)
    op.erase()
    return True


def double(op: Operation) -> bool:
    block = op.parent
    assert block is not None and not op.results
    block.insert(block.index_of(op) + 1, clone_op(op, {}))
    return True


def later(op: Operation) -> bool:
    """Behind the next protocol operation of its block."""
    block = op.parent
    assert block is not None
    start = block.index_of(op)
    following = next((other for other in block.ops[start + 1 :] if other.name in EVENTS), None)
    if following is None or any(use.op is following for result in op.results for use in result.uses):
        return False
    if op.results and any(
        block.index_of(use.op) <= block.index_of(following)
        for result in op.results
        for use in result.uses
        if use.op.parent is block
    ):
        return False
    op.detach()
    block.insert(block.index_of(following) + 1, op)
    return True


def _operand(op: Operation, index: int, make: Callable[[Builder, Value], Value]) -> bool:
    value = make(Builder.before(op), op.operands[index])
    op.set_operand(index, value)
    return True


def flip_parity(op: Operation) -> bool:
    return _operand(
        op, 1, lambda builder, old: builder.create("arith.xori", (old, builder.constant(1)), ("i32",)).result
    )


def constant_parity(value: int) -> Change:
    def change(op: Operation) -> bool:
        return _operand(op, 1, lambda builder, old: builder.constant(value))

    return change


def next_slot(index: int) -> Change:
    """Turns the slot of operand `index` into the next one of the row."""

    def change(op: Operation) -> bool:
        view = op.operands[index].defining_op
        while view is not None and view.name == "ttg.memdesc_trans":
            view = view.operands[0].defining_op
        if view is None or view.name != "ttg.memdesc_index":
            return False
        row = parse_type(view.operands[0].type)
        assert isinstance(row, MemDescType)
        if row.shape[0] == 1:
            return False

        def make(builder: Builder, old: Value) -> Value:
            more = builder.create("arith.addi", (view.operands[1], builder.constant(1)), ("i32",)).result
            slot = builder.create("arith.remsi", (more, builder.constant(row.shape[0])), ("i32",)).result
            moved = builder.create("ttg.memdesc_index", (view.operands[0], slot), (view.result.type,)).result
            if old is view.result:
                return moved
            outer = old.defining_op
            assert outer is not None
            return builder.create(outer.name, (moved,), (old.type,), properties=dict(outer.properties)).result

        return _operand(op, index, make)

    return change


def copy_target(op: Operation) -> bool:
    views = [index for index, operand in enumerate(op.operands) if "memdesc" in operand.type]
    return next_slot(views[1])(op)


def copy_barrier(op: Operation) -> bool:
    views = [index for index, operand in enumerate(op.operands) if "memdesc" in operand.type]
    return next_slot(views[0])(op)


def dot_operand(op: Operation) -> bool:
    return "memdesc" in op.operands[1].type and next_slot(1)(op)


def add(key: str, amount: int) -> Change:
    def change(op: Operation) -> bool:
        op.properties[key] = int_attr(read_int(op.properties[key]) + amount)
        return True

    return change


def one_tile_more(op: Operation) -> bool:
    return add("size", read_int(op.properties["size"]) // 2)(op)


def one_tile_less(op: Operation) -> bool:
    return add("size", -(read_int(op.properties["size"]) // 2))(op)


CHANGES: tuple[tuple[str, tuple[str, ...], Change], ...] = (
    ("drop", (WAIT, ARRIVE, EXPECT, COPY, FENCE, STORE_WAIT, DOT_WAIT, INIT), drop),
    ("double", (WAIT, ARRIVE, EXPECT, COPY, FENCE, STORE_WAIT, INIT), double),
    ("later", (WAIT, ARRIVE, EXPECT, COPY, FENCE, STORE_WAIT, DOT_WAIT), later),
    ("flip parity", (WAIT,), flip_parity),
    ("parity always 0", (WAIT,), constant_parity(0)),
    ("parity always 1", (WAIT,), constant_parity(1)),
    ("next slot", (WAIT, ARRIVE, EXPECT), next_slot(0)),
    ("copy to the next slot", (COPY,), copy_target),
    ("copy signals the next slot", (COPY,), copy_barrier),
    ("dot reads the next slot", (DOT,), dot_operand),
    ("one byte more", (EXPECT,), add("size", 1)),
    ("one tile more", (EXPECT,), one_tile_more),
    ("one tile less", (EXPECT,), one_tile_less),
    ("one arrival more", (INIT,), add("count", 1)),
    ("one group more in flight", (DOT_WAIT,), add("pendings", 1)),
    ("one store more in flight", (STORE_WAIT,), add("pendings", 1)),
)


EQUIVALENT: dict[tuple[str, str], str] = {
    ("double", "wait_barrier"): "a second wait for a phase that is known to be complete passes at once",
    ("double", "fence_async_shared"): "a fence is idempotent",
    ("double", "async_tma_store_wait"): "nothing is left to wait for",
    ("double", "arrive_barrier"): "behind the last loop: nobody waits for that phase or a later one",
    ("drop", "arrive_barrier"): "behind the last loop: nobody waits for that phase",
    ("next slot", "arrive_barrier"): "behind the last loop: nobody waits for that phase",
    ("later", "arrive_barrier"): "a release that comes later, with no wait of its partition in between",
    ("later", "barrier_expect"): "the phase stays open until the expect arrives; bytes may come first",
    ("later", "async_tma_copy_global_to_local"): "two copies of one slot change places",
    ("later", "warp_group_dot_wait"): "behind the last release of the last loop: nobody fills the slot again",
}
"""Kinds that change nothing at some places of the simple programs, each with the reason."""
