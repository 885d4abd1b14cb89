"""Functions of libraries and rarer operations on tiles: libdevice, gather, histogram, clamp, four-bit floats."""

from __future__ import annotations

from tawa.dialects import arith, builtin, tt, ttg
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.inline.code import ExternElementwiseOp
from tawa.emit.body import Body, Writer, statement
from tawa.emit.errors import cannot_say
from tawa.emit.values.expressions import element_of, integers, type_source
from tawa.ir import Operation, Value
from tawa.ir.attributes import read_string
from tawa.ir.locations import source_of
from tawa.ir.types import TensorType, parse_type

LIBDEVICE = frozenset((
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh", "erf",
    "erfc", "exp", "exp10", "exp2", "expm1", "floor", "fmod", "hypot", "lgamma", "log", "log10", "log1p", "log2", "pow",
    "rint", "round", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc",
))  # fmt: skip
"""Functions whose names in Triton are those in the library, ``__nv_tanhf`` of float32 and ``__nv_tanh`` of float64."""


def _library(body: Body, op: Operation) -> None:
    symbol = read_string(op.properties["symbol"])
    name = symbol.removeprefix("__nv_")
    if element_of(op.result.type) == "f32":
        name = name.removesuffix("f")
    if name not in LIBDEVICE:
        raise cannot_say(f"the function {symbol} of a library", source_of(body.file.module, op))
    body.keep(op, f"gl.extra.libdevice.{name}({', '.join(body.of(it) for it in op.operands)})")


def _gather(body: Body, op: Operation) -> None:
    axis = integers(op.properties["axis"])[0]
    body.results(op, f"gl.gather({body.of(op.operands[0])}, {body.of(op.operands[1])}, {axis})")


def _histogram(body: Body, op: Operation) -> None:
    type = parse_type(op.result.type)
    assert isinstance(type, TensorType)
    source, *mask = (body.of(it) for it in op.operands)
    more = f", mask={mask[0]}" if mask else ""
    body.results(op, f"gl.histogram({source}, {type.shape[0]}{more}, layout={body.layout(type)})")


def _clamp(body: Body, op: Operation) -> None:
    values = ", ".join(body.of(it) for it in op.operands)
    nan = op.properties.get("propagateNan", "")
    more = ", propagate_nan=tl.PropagateNan.ALL" if integers(nan)[0] else ""
    body.keep(op, f"tl.clamp({values}{more})")


def _four_bits(body: Body, op: Operation) -> None:
    element, axis = type_source(element_of(op.result.type)), integers(op.properties["axis"])[0]
    body.results(op, f"gl.fp4_to_fp({body.of(op.operands[0])}, {element}, {axis})")


def _unsigned(body: Body, value: Value) -> str:
    text = body.of(value, atomic=True)
    return text if text.isdecimal() else f"{text}.to(gl.uint{element_of(value.type)[1:]})"


def _extreme(name: str) -> Writer:
    """The larger or the smaller of two unsigned numbers."""

    def write(body: Body, op: Operation) -> None:
        sides = ", ".join(_unsigned(body, it) for it in op.operands)
        body.keep(op, f"gl.{name}({sides}).to({type_source(element_of(op.result.type))})")

    return write


def _from_unsigned(body: Body, op: Operation) -> None:
    body.keep(op, f"{_unsigned(body, op.operands[0])}.to({type_source(element_of(op.result.type))})")


def _to_unsigned(body: Body, op: Operation) -> None:
    element = element_of(op.result.type)
    body.keep(op, f"{body.of(op.operands[0], atomic=True)}.to(gl.uint{element[1:]}).to({type_source(element)})")


def _remainder(body: Body, op: Operation) -> None:
    body.keep(op, f"{body.of(op.operands[0], atomic=True)} % {body.of(op.operands[1], atomic=True)}")


WRITERS: dict[str, Writer] = by_name(
    {
        ExternElementwiseOp: _library,
        tt.GatherOp: _gather,
        tt.HistogramOp: _histogram,
        tt.ClampFOp: _clamp,
        ttg.Fp4ToFpOp: _four_bits,
        arith.MaxUIOp: _extreme("maximum"),
        arith.MinUIOp: _extreme("minimum"),
        arith.UIToFPOp: _from_unsigned,
        arith.FPToUIOp: _to_unsigned,
        arith.RemFOp: _remainder,
        builtin.AssumeOp: statement(lambda body, op: f"gl.assume({body.of(op.operands[0])})"),
    }
)
