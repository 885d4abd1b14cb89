"""Tiles in registers: constants, tiles that repeat a value, loads and stores by pointers."""

from __future__ import annotations

from tawa.dialects import arith, tt
from tawa.dialects.declare.declaration import by_name
from tawa.emit.body import Body, Writer, statement
from tawa.emit.constants import literal_of
from tawa.emit.expressions import integers, type_source
from tawa.emit.extras import MMA_V2
from tawa.ir import Operation
from tawa.ir.types import PointerType, ScalarType, TensorType, parse_type

PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


def _constant(body: Body, op: Operation) -> None:
    text = literal_of(op)
    type = parse_type(op.result.type)
    if isinstance(type, ScalarType):
        body.names.sources[op.result] = text if not text.startswith("-") else f"({text})"
        return
    assert isinstance(type, TensorType)
    if not body.repeated(op, text):
        shape, element, layout = list(type.shape), type_source(type.element), body.layout(type)
        body.assign(op, f"gl.full({shape}, {text}, {element}, {layout})")


def _splat(body: Body, op: Operation) -> None:
    type = parse_type(op.result.type)
    assert isinstance(type, TensorType)
    value = body.of(op.operands[0], atomic=True)
    if body.repeated(op, value):
        return
    if isinstance(parse_type(op.operands[0].type), PointerType):
        body.assign(op, f"{value} + {_zeros(body, type)}")
        return
    element = type_source(type.element)
    body.assign(op, f"gl.full({list(type.shape)}, {body.of(op.operands[0])}, {element}, {body.layout(type)})")


def _broadcast(body: Body, op: Operation) -> None:
    type = parse_type(op.result.type)
    assert isinstance(type, TensorType)
    if not body.repeated(op, body.of(op.operands[0], atomic=True)):
        body.assign(op, f"gl.broadcast({body.of(op.operands[0])}, {_zeros(body, type)})[0]")


def _zeros(body: Body, type: TensorType) -> str:
    """A tile of this shape and layout, to add to or to broadcast with."""
    return f"gl.full({list(type.shape)}, 0, gl.int32, {body.layout(type)})"


def _split(body: Body, op: Operation) -> None:
    body.comment(op)
    names = [body.names.name(it) for it in op.results]
    body.put(f"{', '.join(names)} = gl.split({body.of(op.operands[0])})")


def _dot(body: Body, op: Operation) -> None:
    """A product in the registers of warps, of tiles that are too small for wgmma."""
    precision = integers(op.properties.get("inputPrecision", "0 : i32"))[0]
    more = f', input_precision="{PRECISIONS[precision]}"' if precision else ""
    body.file.extras.use(MMA_V2)
    body.assign(op, f"mma_v2({', '.join(body.of(it) for it in op.operands)}{more})")


def pointer_options(op: Operation) -> str:
    """The arguments for the caches of a load, a store or a copy."""
    cache = integers(op.properties.get("cache", "1 : i32"))[0]
    evict = integers(op.properties.get("evict", "1 : i32"))[0]
    modifiers = {1: "", 2: ".ca", 3: ".cg", 4: ".wb", 5: ".cs", 6: ".wt", 7: ".cv"}
    policies = {1: "", 2: "evict_first", 3: "evict_last"}
    more = f', cache_modifier="{modifiers[cache]}"' if modifiers[cache] else ""
    return more + (f', eviction_policy="{policies[evict]}"' if policies[evict] else "")


def _load(body: Body, op: Operation) -> None:
    pointer, *rest = op.operands
    segments = integers(op.properties["operandSegmentSizes"])
    more = f", mask={body.of(rest[0])}" if segments[1] else ""
    more += f", other={body.of(rest[segments[1]])}" if segments[2] else ""
    if op.properties.get("isVolatile", "false") == "true":
        more += ", volatile=True"
    body.assign(op, f"gl.load({body.of(pointer)}{more}{pointer_options(op)})")


def _store(body: Body, op: Operation) -> str:
    pointer, value, *mask = op.operands
    more = f", mask={body.of(mask[0])}" if mask else ""
    return f"gl.store({body.of(pointer)}, {body.of(value)}{more}{pointer_options(op)})"


WRITERS: dict[str, Writer] = by_name(
    {
        arith.ConstantOp: _constant,
        tt.SplatOp: _splat,
        tt.BroadcastOp: _broadcast,
        tt.SplitOp: _split,
        tt.DotOp: _dot,
        tt.LoadOp: _load,
        tt.StoreOp: statement(_store),
    }
)

__all__ = ["WRITERS", "pointer_options"]
