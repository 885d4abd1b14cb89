"""Pure operations on tiles and views of buffers, as expressions."""

from __future__ import annotations

from tawa.dialects import arith, tcgen05, tt, ttg
from tawa.dialects.declare.declaration import by_name
from tawa.emit.body import Body, Expression, type_of
from tawa.emit.errors import cannot_say
from tawa.emit.extras import REINTERPRET
from tawa.emit.values.expressions import CASTS, ELEMENTWISE, elementwise, integers, type_source
from tawa.emit.values.objects import literal, object_of
from tawa.ir import Operation
from tawa.ir.locations import source_of
from tawa.ir.types import PointerType, ScalarType, TensorType, memdesc_type, parse_type


def _elementwise(body: Body, op: Operation) -> str:
    """Of literals only, the first one is written as a number of Triton: others have no methods and no type."""
    first = 1 if arith.SelectOp.matches(op) else 0
    plain = all(body.parameter(it) or literal(body.of(it)) is not None for it in op.operands[first:])

    def of(index: int) -> str:
        operand = op.operands[index]
        return object_of(body.of(operand), operand.type) if plain and index == first else body.of(operand)

    return elementwise(op, of)


def _axis(call: str) -> Expression:
    return lambda body, op: f"{call}({integers(op.properties['axis'])[0]})"


def _constant(body: Body, op: Operation) -> str:
    text = body.literal(op)
    type = parse_type(op.result.type)
    if isinstance(type, ScalarType):
        return text
    tile = type_of(op.result)
    return f"gl.full({list(tile.shape)}, {text}, {type_source(tile.element)}, {body.layout(tile)})"


def _splat(body: Body, op: Operation) -> str:
    tile = type_of(op.result)
    if isinstance(parse_type(op.operands[0].type), PointerType):
        return f"{body.of(op.operands[0], atomic=True)} + {_zeros(body, tile)}"
    element = type_source(tile.element)
    return f"gl.full({list(tile.shape)}, {body.of(op.operands[0])}, {element}, {body.layout(tile)})"


def _broadcast(body: Body, op: Operation) -> str:
    return f"gl.broadcast({body.smaller(op)}, {_zeros(body, type_of(op.result))})[0]"


def _zeros(body: Body, type: TensorType) -> str:
    """A tile of this shape and layout, to add to or to broadcast with."""
    return f"gl.full({list(type.shape)}, 0, gl.int32, {body.layout(type)})"


def _make_range(body: Body, op: Operation) -> str:
    start, end = (integers(op.properties[it])[0] for it in ("start", "end"))
    return f"gl.arange({start}, {end}, {body.layout(type_of(op.result))})"


def _placed(text: str, body: Body, op: Operation) -> str:
    """A tile in the layout of the result, which costs no instruction."""
    return f"gl.convert_layout({text}, {body.layout(type_of(op.result))}, assert_trivial=True)"


def _reshape(body: Body, op: Operation) -> str:
    return _placed(f"gl.reshape({body.of(op.operands[0])}, {list(type_of(op.result).shape)})", body, op)


def _trans(body: Body, op: Operation) -> str:
    return _placed(f"gl.permute({body.of(op.operands[0])}, {list(integers(op.properties['order']))})", body, op)


def _join(body: Body, op: Operation) -> str:
    return _placed(f"gl.join({body.of(op.operands[0])}, {body.of(op.operands[1])})", body, op)


def _convert_layout(body: Body, op: Operation) -> str:
    return f"gl.convert_layout({body.of(op.operands[0])}, {body.layout(type_of(op.result))})"


def _expand_dims(body: Body, op: Operation) -> str:
    return f"gl.expand_dims({body.of(op.operands[0])}, {integers(op.properties['axis'])[0]})"


# -- views of buffers --------------------------------------------------------------------------------------------------


def _buffer(body: Body, op: Operation) -> str:
    return body.of(op.operands[0], atomic=True)


def _index(body: Body, op: Operation) -> str:
    return f"{_buffer(body, op)}.index({body.of(op.operands[1])})"


def _permuted(body: Body, op: Operation) -> str:
    return f"{_buffer(body, op)}.permute({list(integers(op.properties['order']))})"


def _sliced(body: Body, op: Operation) -> str:
    """A subslice of a buffer, one `slice` for each axis."""
    source, result = memdesc_type(op.operands[0].type), memdesc_type(op.result.type)
    buffer = _buffer(body, op)
    offsets = integers(op.properties["offsets"])
    for axis, (size, part, offset) in enumerate(zip(source.shape, result.shape, offsets, strict=True)):
        if part != size:
            buffer += f".slice({offset}, {part}, {axis})"
    return buffer


def _reshaped(body: Body, op: Operation) -> str:
    type = memdesc_type(op.result.type)
    return f"{_buffer(body, op)}.reshape({list(type.shape)})"


def _reinterpreted(body: Body, op: Operation) -> str:
    type = memdesc_type(op.result.type)
    arguments = f"{type_source(type.element)}, {list(type.shape)}, {body.layout(type)}"
    if type.in_tensor_memory:
        body.file.extras.use(REINTERPRET)
        return f"reinterpret({body.of(op.operands[0])}, {arguments})"
    return f"{_buffer(body, op)}._reinterpret({arguments})"


def _columns(body: Body, op: Operation) -> str:
    """A subslice of a buffer in tensor memory."""
    view = tcgen05.TMEMSubsliceOp(op)
    if view.dim != 1:
        raise cannot_say("a subslice of rows of tensor memory", source_of(body.file.module, op))
    return f"{_buffer(body, op)}.slice({view.start}, {memdesc_type(op.result.type).shape[1]})"


EXPRESSIONS: dict[str, Expression] = {
    **dict.fromkeys(ELEMENTWISE | CASTS, _elementwise),
    **by_name({
        arith.ConstantOp: _constant,
        tt.SplatOp: _splat,
        tt.BroadcastOp: _broadcast,
        tt.GetProgramIdOp: _axis("gl.program_id"),
        tt.GetNumProgramsOp: _axis("gl.num_programs"),
        tt.MakeRangeOp: _make_range,
        tt.ExpandDimsOp: _expand_dims,
        tt.ReshapeOp: _reshape,
        tt.TransOp: _trans,
        tt.JoinOp: _join,
        ttg.ConvertLayoutOp: _convert_layout,
        ttg.MemDescIndexOp: _index,
        ttg.MemDescTransOp: _permuted,
        ttg.MemDescSubsliceOp: _sliced,
        ttg.MemDescReshapeOp: _reshaped,
        ttg.MemDescReinterpretOp: _reinterpreted,
        tcgen05.TMEMSubsliceOp: _columns,
    }),
}  # fmt: skip
