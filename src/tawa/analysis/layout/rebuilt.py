"""Rebuilt tiles: whether a tile can be computed again in another layout, without passing through shared memory.

    %r = make_range : #slice0(#blocked)                 %r = make_range : #slice0(#mma)
    %p = addptr(splat %c, broadcast(expand %r))    →    %p = addptr(splat %c, broadcast(expand %r))
    : #blocked                                          : #mma

Elementwise operations, and operations that make or spread tiles, can be repeated in any layout. Converting a row is
cheap, so a row that cannot be computed again is converted.
"""

from __future__ import annotations

from collections.abc import Container

from tawa.analysis.layout.layouts import SliceLayout
from tawa.dialects.arith import ConstantOp
from tawa.dialects.tt import BroadcastOp, ExpandDimsOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Builder, TensorType, Value, ValueMap, Worklist, clone_op, parse_type
from tawa.symbolic.dim_relations import FREE, SOURCES, has_rows


def can_rebuild(tile: Value, encoding: str, given: Container[Value] = ()) -> bool:
    """Whether a tile can be computed in the layout `encoding` from scalars, rows, and tiles that have this layout.

    given: tiles that can be had in any layout.
    """
    work = Worklist([tile])
    for value in work:
        kind = parse_type(value.type)
        if not isinstance(kind, TensorType) or kind.encoding == encoding or not has_rows(value) or value in given:
            continue
        op = value.defining_op
        if op is None or op.regions or not (op.name in FREE or op.name in SOURCES or op.name in _SPREADING):
            return False
        work += op.operands
    return True


def rebuild(tile: Value, encoding: str, builder: Builder, made: dict[tuple[Value, str], Value]) -> Value:
    """The tile in the layout `encoding`, computed at the builder's point. `can_rebuild` has accepted it.

    made: the tiles that were made at this point, by value and layout; it is extended.
    """
    kind = parse_type(tile.type)
    if not isinstance(kind, TensorType) or kind.encoding == encoding:
        return tile
    if (tile, encoding) not in made:
        made[tile, encoding] = _made(tile, kind, encoding, builder, made)
    return made[tile, encoding]


def _made(
    tile: Value, kind: TensorType, encoding: str, builder: Builder, made: dict[tuple[Value, str], Value]
) -> Value:
    op, target = tile.defining_op, str(TensorType(kind.shape, kind.element, encoding))
    if convert := ConvertLayoutOp.of(op):
        return rebuild(convert.source, encoding, builder, made)
    builder.loc = op.loc if op is not None else builder.loc
    if op is None or op.regions or not (op.name in FREE or op.name in SOURCES or op.name in _SPREADING):
        return builder.create(ConvertLayoutOp.NAME, (tile,), (target,), hints=(tile.hint,)).result
    expand = ExpandDimsOp.of(op)
    inner = str(SliceLayout(expand.axis, encoding)) if expand else encoding
    mapping: ValueMap = {operand: rebuild(operand, inner, builder, made) for operand in op.operands}
    copy = clone_op(op, mapping)
    copy.result.type = target
    if ConstantOp.of(copy):
        copy.properties["value"] = copy.properties["value"].replace(tile.type, target)
    return builder.insert(copy).result


_SPREADING = frozenset({BroadcastOp.NAME, ExpandDimsOp.NAME, ConvertLayoutOp.NAME})
