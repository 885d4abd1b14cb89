"""Available values: which values dominate an insertion point."""

from __future__ import annotations

from tawa.ir import Block, Builder, Operation, Value


def is_known(value: Value, builder: Builder) -> bool:
    """Whether a value dominates the insertion point of `builder`."""
    owner = value.owner
    block: Block | None = builder.block
    anchor = builder.anchor
    while block is not None:
        if owner is block:
            return True
        if isinstance(owner, Operation) and owner.parent is block:
            return anchor is None or block.index_of(owner) < block.index_of(anchor)
        anchor = block.parent_op
        block = anchor.parent if anchor is not None else None
    return False
