"""Slots of a buffer by turns, and their views, which take the place of an immutable allocation."""

from __future__ import annotations

from dataclasses import replace

from tawa.dialects.arith import AddIOp, CmpIOp, Predicate, SelectOp
from tawa.dialects.ttg import VIEWS
from tawa.ir import Builder, MemDescType, Operation, Value, parse_type


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
    following = AddIOp.create(builder, slot, builder.constant(1))
    wrapped = CmpIOp.create(builder, Predicate.EQ, following, builder.constant(count))
    zero = builder.constant(0)
    return SelectOp.create(builder, wrapped, zero, following, "slot"), wrapped
