"""Slots: the next slot of a multi-buffered allocation, and views of slots as mutable memory."""

from __future__ import annotations

from dataclasses import replace

from tawa.dialects.arith import AddIOp, CmpIOp, Predicate, SelectOp
from tawa.dialects.ttg import VIEWS
from tawa.ir import Builder, Operation, Value, memdesc_type


def make_mutable(view: Value, builder: Builder) -> None:
    """Makes the types of all views of a slot mutable, and moves views that precede the get to after it."""
    for user in view.users:
        if user.name in VIEWS:
            user.result.type = str(replace(memdesc_type(user.result.type), mutable=True))
            if user.parent is builder.block and _precedes(user, builder):
                builder.insert(user.detach())
            make_mutable(user.result, builder)


def _precedes(op: Operation, builder: Builder) -> bool:
    assert builder.anchor is not None
    return builder.block.index_of(op) < builder.block.index_of(builder.anchor)


def next_slot(builder: Builder, slot: Value, count: int) -> tuple[Value, Value]:
    """The slot after `slot` in a ring of `count`, and whether it wrapped around to the first (an i1)."""
    following = AddIOp.create(builder, slot, builder.constant(1))
    wrapped = CmpIOp.create(builder, Predicate.EQ, following, builder.constant(count))
    zero = builder.constant(0)
    return SelectOp.create(builder, wrapped, zero, following, "slot"), wrapped
