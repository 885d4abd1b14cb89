"""Operations that create, reshape, reduce and multiply tiles. Layouts are ignored: a layout conversion is the identity.

A reduction combines halves in a tree; a scan is sequential along its axis. Both execute their region on whole slices.
A dot sums in float64 over the K of one operation and rounds once to float32. Sums of fp16 products are exact in
float64, so the result does not depend on the order of summation. Accumulators are float32 between operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tawa.dialects import tt
from tawa.dialects.builtin import PoisonOp
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Operation, TensorType, parse_type
from tawa.ir.attributes import read_array, read_bool, read_int
from tawa.sim.errors import OutOfBounds, UnsupportedOp
from tawa.sim.machine.values import Context, Handler, Pointer
from tawa.sim.numbers import Array, is_float, register_dtype, round_to, truncate_to_tf32
from tawa.sim.ops.elementwise import ELEMENTWISE


def shape_of(type: str) -> tuple[int, ...]:
    """The shape of a tile type; () for a scalar."""
    kind = parse_type(type)
    return kind.shape if isinstance(kind, TensorType) else ()


def product(a: Array, b: Array, accumulator: Array, element: str, *, tf32: bool) -> Array:
    """A·B + C as one tensor-core operation. element: the element type of A and B."""
    if element == "f32" and tf32:
        a, b = truncate_to_tf32(a), truncate_to_tf32(b)
    with np.errstate(all="ignore"):
        left, right = np.ascontiguousarray(a, np.float64), np.ascontiguousarray(b, np.float64)
        return (np.matmul(left, right) + accumulator).astype(accumulator.dtype)


def _on_elements(function: Callable[[Array], Array]) -> Callable[[Any], Any]:
    """Lifts a function on arrays to tiles of numbers and tiles of pointers."""

    def run(value: Any) -> Any:
        if isinstance(value, Pointer):
            return Pointer(value.tensor, function(np.asarray(value.offset, np.int64)))
        return function(np.asarray(value))

    return run


def _splat(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    kind = parse_type(op.result.type)
    assert isinstance(kind, TensorType)
    value = args[0]
    if isinstance(value, Pointer):
        return [Pointer(value.tensor, np.broadcast_to(np.int64(value.offset), kind.shape))]
    return [np.broadcast_to(np.asarray(value).astype(register_dtype(kind.element)), kind.shape)]


def _unsplat(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    item = args[0].reshape(-1)[0]
    return [item if is_float(op.result.type) else int(item)]


def _make_range(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    start, end = read_int(op.properties["start"]), read_int(op.properties["end"])
    return [np.arange(start, end, dtype=np.int32)]


def _expand_dims(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    axis = read_int(op.properties["axis"])
    return [_on_elements(lambda tile: np.expand_dims(tile, axis))(args[0])]


def _broadcast(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    shape = shape_of(op.result.type)
    return [_on_elements(lambda tile: np.broadcast_to(tile, shape))(args[0])]


def _reshape(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    shape = shape_of(op.result.type)
    return [_on_elements(lambda tile: tile.reshape(shape))(args[0])]


def _trans(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    order = read_array(op.properties["order"])
    return [_on_elements(lambda tile: tile.transpose(order))(args[0])]


def _join(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    return [np.stack(args, axis=-1)]


def _split(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    return [args[0][..., 0], args[0][..., 1]]


def _cat(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    return [np.concatenate(args, axis=0)]


def _gather(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    axis = read_int(op.properties["axis"])
    source, index = args
    if ((index < 0) | (index >= source.shape[axis])).any():
        raise OutOfBounds(f"a gather index is outside a dimension of size {source.shape[axis]}")
    return [np.take_along_axis(source, index.astype(np.int64), axis)]


def _histogram(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    bins = shape_of(op.result.type)[0]
    counted = args[0][args[1]] if len(args) > 1 else args[0].reshape(-1)
    counted = counted[(counted >= 0) & (counted < bins)]
    return [np.bincount(counted, minlength=bins).astype(np.int32)]


def _identity(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    return [args[0]]


def _combine(context: Context, op: Operation, left: list[Any], right: list[Any]) -> list[Any]:
    """Executes the region of a reduction, scan or map once, on whole slices."""
    block = op.regions[0].block
    env = dict(zip(block.args, [*left, *right], strict=True))
    for nested in block.ops:
        operands = [env[value] if value in env else context.env[value] for value in nested.operands]
        if nested is block.terminator:
            return operands
        handler = ELEMENTWISE.get(nested.name)
        if handler is None:
            raise UnsupportedOp(f"{nested.name} in the region of {op.name}")
        env.update(zip(nested.results, handler(context, nested, operands), strict=True))
    raise UnsupportedOp(f"{op.name} with a region that has no terminator")


def _reduce(context: Context, op: Operation, args: list[Any], /) -> list[Any]:
    axis = read_int(op.properties["axis"])
    slices = [np.moveaxis(tile, axis, 0) for tile in args]
    while slices[0].shape[0] > 1:
        half = slices[0].shape[0] // 2
        slices = _combine(context, op, [tile[:half] for tile in slices], [tile[half:] for tile in slices])
    results: list[Any] = []
    for tile, value in zip(slices, op.results, strict=True):
        item = tile[0]
        scalar = not shape_of(value.type) and not is_float(value.type)
        results.append(int(item) if scalar else item)
    return results


def _scan(context: Context, op: Operation, args: list[Any], /) -> list[Any]:
    axis, reverse = read_int(op.properties["axis"]), read_bool(op.properties.get("reverse", "false"))
    slices = [np.moveaxis(tile, axis, 0)[:: -1 if reverse else 1] for tile in args]
    rows = [[tile[0] for tile in slices]]
    for index in range(1, slices[0].shape[0]):
        rows.append(_combine(context, op, rows[-1], [tile[index] for tile in slices]))
    results = [np.stack([row[number] for row in rows]) for number in range(len(args))]
    return [np.moveaxis(tile[:: -1 if reverse else 1], 0, axis) for tile in results]


def _map_elementwise(context: Context, op: Operation, args: list[Any], /) -> list[Any]:
    if read_int(op.properties.get("pack", "1 : i32")) != 1:
        raise UnsupportedOp("tt.map_elementwise with packed elements")
    return _combine(context, op, args, [])


def _dot(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    a, b, accumulator = args
    kind = parse_type(tt.DotOp(op).a.type)
    assert isinstance(kind, TensorType)
    precision = read_int(op.properties.get("inputPrecision", "0 : i32"))
    if kind.element == "f32" and precision not in (0, 2):
        raise UnsupportedOp(f"input precision {precision}")
    result = product(a, b, accumulator, kind.element, tf32=precision == 0)
    target = parse_type(op.result.type)
    assert isinstance(target, TensorType)
    return [round_to(result, target.element) if is_float(target.element) else result]


def _program_id(context: Context, op: Operation, args: list[Any], /) -> list[Any]:
    return [context.program[read_int(op.properties["axis"])]]


def _num_programs(context: Context, op: Operation, args: list[Any], /) -> list[Any]:
    return [context.grid[read_int(op.properties["axis"])]]


def _poison(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    kind = parse_type(op.result.type)
    if not isinstance(kind, TensorType):
        return [np.float32(np.nan) if is_float(op.result.type) else 0]
    dtype = register_dtype(kind.element)
    return [np.full(kind.shape, np.nan if is_float(kind.element) else 0, dtype)]


TILES: dict[str, Handler] = by_name(
    {
        tt.GetProgramIdOp: _program_id,
        tt.GetNumProgramsOp: _num_programs,
        tt.SplatOp: _splat,
        tt.UnsplatOp: _unsplat,
        tt.MakeRangeOp: _make_range,
        tt.ExpandDimsOp: _expand_dims,
        tt.BroadcastOp: _broadcast,
        tt.ReshapeOp: _reshape,
        tt.TransOp: _trans,
        tt.JoinOp: _join,
        tt.SplitOp: _split,
        tt.CatOp: _cat,
        tt.GatherOp: _gather,
        tt.HistogramOp: _histogram,
        tt.ReduceOp: _reduce,
        tt.ScanOp: _scan,
        tt.MapElementwiseOp: _map_elementwise,
        tt.DotOp: _dot,
        ConvertLayoutOp: _identity,
        PoisonOp: _poison,
    }
)
"""Handlers, by operation name."""
