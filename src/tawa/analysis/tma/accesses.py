"""Accesses: tiles that a kernel loads or stores through pointers, and which of them TMA could copy at all."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from tawa.analysis.rings.loads import dots_fed_by
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import LoadOp, StoreOp
from tawa.ir import Operation, ScalarType, Value, parse_type
from tawa.ir.attributes import read_bool, read_int
from tawa.symbolic.dim_relations import has_rows, shape_of

MAX_BLOCK_ELEMENTS = 1 << 20
_ELEMENTS = ("f16", "bf16", "f32", "f8E4M3FN", "f8E5M2", "i8", "i16", "i32")
_PLAIN_CACHES = (1, 2, 3)  # none, .ca, .cg: which cache keeps it, not what is read
_PLAIN_STORES = _PLAIN_CACHES[:1]


class NotABox(Exception):
    """Why an access is no box, and what its author can do."""

    def __init__(self, reason: str, cure: str = "") -> None:
        super().__init__(reason)
        self.reason, self.cure = reason, cure


def is_operand_load(op: Operation, in_turn: bool = False, products: Collection[Value] = ()) -> bool:
    """Whether a load is of a tile that feeds a dot, or of a row that goes into one, and is done more than once.

    in_turn: whether programs will be done in turn, so that tiles in front of a loop are.
    products: what dots give (`from_dots`), through which a row is not followed: rows that meet sums, as those of a
        softmax do, are loaded beside the dot anyway.
    """
    if not LoadOp.matches(op) or all(size == 1 for size in shape_of(op.result)):
        return False
    rows = has_rows(op.result)
    if not enclosing_loops(op) and not (in_turn and rows):
        return False
    return bool(dots_fed_by(op.result, () if rows else products))


def tile_of(access: Operation) -> Value:
    """What a load reads, or a store writes."""
    store = StoreOp.of(access)
    return store.source if store else access.result


def mask_of(access: Operation) -> Value | None:
    """Which elements it touches; None means all."""
    store = StoreOp.of(access)
    return store.mask if store else LoadOp(access).mask


def bytes_of(element: str) -> int:
    """Bytes of an element type."""
    type = parse_type(element)
    return type.bits // 8 if isinstance(type, ScalarType) else 0


def element_of(access: Operation) -> str:
    """The element type of an access that TMA could do; raises NotABox."""
    element = getattr(parse_type(tile_of(access).type), "element", "")
    if read_bool(access.properties.get("isVolatile", "false")):
        raise NotABox("a volatile load", "drop volatile=True where nobody else writes the tensor")
    cache = read_int(access.properties.get("cache", "1"))
    if cache not in (_PLAIN_CACHES if LoadOp.of(access) else _PLAIN_STORES):
        raise NotABox("its cache modifier says when it is read anew, which TMA cannot", "use .ca, .cg or none")
    if element not in _ELEMENTS:
        raise NotABox(f"TMA does not copy elements of type {element}")
    elements = prod(shape_of(tile_of(access)))
    if elements > MAX_BLOCK_ELEMENTS:
        raise NotABox(f"a tile of {elements} elements is larger than Triton's limit of {MAX_BLOCK_ELEMENTS}")
    return element


__all__ = ["NotABox", "bytes_of", "element_of", "is_operand_load", "mask_of", "tile_of"]
