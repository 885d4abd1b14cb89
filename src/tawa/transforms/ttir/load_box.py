"""Load box: a TMA load in the place of a pointer load, its tile as the pointer load gave it.

box of 64 x 128 of a tensor that lies the other way round     descriptor_load, trans
box of 8 x 64, of which 8 rows of the tile share each         descriptor_load, expand_dims, broadcast, reshape
box of 1 x 64 x 128                                           descriptor_load of two dimensions, reshape
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.analysis.boxes import Box
from tawa.dialects.tt import BroadcastOp, DescriptorLoadOp, ExpandDimsOp, ReshapeOp, TransOp
from tawa.ir import Builder, Value
from tawa.ir.attributes import array_attr, int_attr
from tawa.symbolic.dim_relations import shape_of

_PLAIN = {"cache": "1 : i32", "evict": "1 : i32"}


def load_box(builder: Builder, box: Box, descriptor: Value, indices: Sequence[Value], nested: bool) -> Value:
    """The tile, its dimensions in order and those of size one put back. nested: as Triton 3.6 spells the load."""
    inside = [dim for dim in box.dims if dim.tile is not None]
    type, hints = tile_type([dim.block for dim in inside], box.element), (box.access.result.hint,)
    properties = dict(_PLAIN) if nested else {}
    tile = builder.create(DescriptorLoadOp.NAME, (descriptor, *indices), (type,), properties=properties, hints=hints)
    places = [dim.tile for dim in inside if dim.tile is not None]
    order = [places.index(place) for place in sorted(places)]
    if order != sorted(order):
        type = tile_type([inside[at].block for at in order], box.element)
        properties = {"order": array_attr(order)}
        tile = builder.create(TransOp.NAME, (tile.result,), (type,), properties=properties, hints=hints)
    whole = _spread(builder, tile.result, [inside[at].run for at in order], box.element)
    if shape_of(whole) != shape_of(box.access.result):
        whole = builder.create(ReshapeOp.NAME, (whole,), (box.access.result.type,), hints=hints).result
    return whole


def _spread(builder: Builder, tile: Value, runs: Sequence[int], element: str) -> Value:
    """Each row along a dimension as often as `runs` says, one after the other."""
    if all(run == 1 for run in runs):
        return tile
    hints, sizes = (tile.hint,), shape_of(tile)
    apart: list[int] = []
    spread: list[int] = []
    for dim, (size, run) in enumerate(zip(sizes, runs, strict=True)):
        apart, spread = [*apart, size], [*spread, size]
        if run > 1:
            properties = {"axis": int_attr(len(apart))}
            apart, spread = [*apart, 1], [*spread, run]
            type = tile_type((*apart, *sizes[dim + 1 :]), element)
            tile = builder.create(ExpandDimsOp.NAME, (tile,), (type,), properties=properties, hints=hints).result
    tile = builder.create(BroadcastOp.NAME, (tile,), (tile_type(spread, element),), hints=hints).result
    whole = [size * run for size, run in zip(sizes, runs, strict=True)]
    return builder.create(ReshapeOp.NAME, (tile,), (tile_type(whole, element),), hints=hints).result


def tile_type(shape: Sequence[int], element: str) -> str:
    """A tile without a layout."""
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


__all__ = ["load_box", "tile_type"]
