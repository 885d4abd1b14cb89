"""Slots of a buffer by turns, and their views, which take the place of an immutable allocation."""

from __future__ import annotations

from dataclasses import replace

from tawa.dialects.ttg import VIEWS
from tawa.ir import Builder, MemDescType, Operation, Value, parse_type
from tawa.transforms.materialize import arithmetic


def make_mutable(view: Value, builder: Builder) -> None:
    """Views of a slot are views of memory that changes: their types say so, and none stands before the get."""
    for user in view.users:
        if user.name in VIEWS:
            type = parse_type(user.result.type)
            assert isinstance(type, MemDescType)
            user.result.type = str(replace(type, mutable=True))
            if user.parent is builder.block and _stands_before(user, builder):
                builder.insert(user.detach())
            make_mutable(user.result, builder)


def _stands_before(op: Operation, builder: Builder) -> bool:
    assert builder.anchor is not None
    return builder.block.index_of(op) < builder.block.index_of(builder.anchor)


def slot_behind(builder: Builder, slot: Value, count: int) -> tuple[Value, Value]:
    """The slot behind one of `count`, and whether that is the first again (an i1)."""
    following = arithmetic(builder, "arith.addi", slot, builder.constant(1))
    wrapped = builder.create(
        "arith.cmpi", (following, builder.constant(count)), ("i1",), properties={"predicate": "0 : i64"}
    ).result
    zero = builder.constant(0)
    return builder.create("arith.select", (wrapped, zero, following), ("i32",), hints=("slot",)).result, wrapped
