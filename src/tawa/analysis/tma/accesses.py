"""Accesses: pointer loads and stores of tiles, and the types and modifiers for which TMA copies exist."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from tawa.analysis.loops.invariants import varies
from tawa.analysis.rings.loads import dots_fed_by, tile_beside
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import LoadOp, StoreOp
from tawa.ir import Operation, ScalarType, Value, parse_type
from tawa.ir.attributes import read_bool, read_int
from tawa.symbolic.dim_relations import has_rows, shape_of

MAX_BLOCK_ELEMENTS = 1 << 20
_ELEMENTS = ("f16", "bf16", "f32", "f8E4M3FN", "f8E5M2", "i8", "i16", "i32", "i64")
_PLAIN_CACHES = (1, 2, 3)  # none, .ca, .cg: they choose a cache level, and do not change the value that is read
_PLAIN_STORES = _PLAIN_CACHES[:1]


class NotABox(Exception):
    """Why an access is not a box, and the cure. op: the operation that stands in the way, if it is another one."""

    def __init__(self, reason: str, cure: str = "", op: Operation | None = None) -> None:
        super().__init__(reason)
        self.reason, self.cure, self.op = reason, cure, op


def is_operand_load(
    op: Operation, persistent: bool = False, products: Collection[Value] = (), beside: bool = False
) -> bool:
    """Whether a load is executed repeatedly and its tile, or its row, feeds a dot.

    persistent: whether the kernel will be persistent, so that loads of tiles before its loop repeat for every tile.
    products: values that depend on dots (`from_dots`). A row is not followed through them: rows that are combined with
        products, as in a softmax, do not feed a dot.
    beside: whether a row that may travel with a tile counts, too (`tile_beside`). Rows of dots of 8-bit elements never
        do: the rows of their operands may be reordered, and TMA copies a row in the order of memory.
    """
    if not LoadOp.matches(op) or all(size == 1 for size in shape_of(op.result)):
        return False
    rows = has_rows(op.result)
    if not enclosing_loops(op) and not (persistent and rows):
        return False
    if rows:
        return bool(dots_fed_by(op.result))
    if dots_fed_by(op.result, products):
        return True
    if not beside or not varies(op.operands[0], enclosing_loops(op)[0]):
        return False
    return tile_beside(op, products) is not None and not any(map(_in_bytes, dots_fed_by(op.result)))


def _in_bytes(dot: Operation) -> bool:
    """Whether an operand of a dot has 8-bit elements."""
    return any(bytes_of(getattr(parse_type(it.type), "element", "i32")) == 1 for it in dot.operands[:2])


def tile_of(access: Operation) -> Value:
    """The tile that an access loads or stores."""
    store = StoreOp.of(access)
    return store.source if store else access.result


def mask_of(access: Operation) -> Value | None:
    """The mask of an access; None if it has none."""
    store = StoreOp.of(access)
    return store.mask if store else LoadOp(access).mask


def bytes_of(element: str) -> int:
    """Bytes of an element type."""
    type = parse_type(element)
    return type.bits // 8 if isinstance(type, ScalarType) else 0


def element_of(access: Operation) -> str:
    """The element type of an access; raises NotABox if TMA has no such copy."""
    element = getattr(parse_type(tile_of(access).type), "element", "")
    if read_bool(access.properties.get("isVolatile", "false")):
        raise NotABox("a volatile load", "drop volatile=True if no other program writes the tensor")
    cache = read_int(access.properties.get("cache", "1"))
    if cache not in (_PLAIN_CACHES if LoadOp.of(access) else _PLAIN_STORES):
        raise NotABox("TMA does not support its cache modifier", "use .ca, .cg or none")
    if element not in _ELEMENTS:
        raise NotABox(f"TMA does not copy elements of type {element}")
    elements = prod(shape_of(tile_of(access)))
    if elements > MAX_BLOCK_ELEMENTS:
        raise NotABox(f"a tile of {elements} elements is larger than Triton's limit of {MAX_BLOCK_ELEMENTS}")
    return element
