"""Pure operations of TTGIR as expressions of Gluon."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tawa.dialects import arith, math, tt
from tawa.dialects.declare.declaration import by_name, op_names
from tawa.emit.errors import cannot_say
from tawa.emit.python.text import bare, within
from tawa.ir import Operation
from tawa.ir.types import PointerType, ScalarType, TensorType, parse_type

INFIX = by_name({
    arith.AddIOp: "+", arith.SubIOp: "-", arith.MulIOp: "*", arith.DivSIOp: "//", arith.RemSIOp: "%",
    arith.AddFOp: "+", arith.SubFOp: "-", arith.MulFOp: "*", arith.DivFOp: "/",
    arith.AndIOp: "&", arith.OrIOp: "|", arith.XOrIOp: "^", arith.ShLIOp: "<<", arith.ShRSIOp: ">>",
    tt.AddPtrOp: "+",
})  # fmt: skip
UNSIGNED = by_name({arith.DivUIOp: "//", arith.RemUIOp: "%", arith.ShRUIOp: ">>"})
CALLS = by_name({
    arith.MaxNumFOp: "gl.maximum", arith.MinNumFOp: "gl.minimum", arith.MaxSIOp: "gl.maximum",
    arith.MinSIOp: "gl.minimum", arith.SelectOp: "gl.where",
    math.Exp2Op: "gl.exp2", math.ExpOp: "gl.exp", math.Log2Op: "gl.log2", math.LogOp: "gl.log", math.SqrtOp: "gl.sqrt",
    math.RsqrtOp: "gl.rsqrt", math.AbsFOp: "gl.abs", math.AbsIOp: "gl.abs", math.FmaOp: "gl.fma", math.ErfOp: "gl.erf",
    math.FloorOp: "gl.floor", math.CeilOp: "gl.ceil", math.SinOp: "gl.sin", math.CosOp: "gl.cos",
    tt.PreciseSqrtOp: "gl.sqrt_rn", tt.PreciseDivFOp: "gl.div_rn", tt.MulhiUIOp: "gl.umulhi",
})  # fmt: skip
NAN = by_name({arith.MaximumFOp: "gl.maximum", arith.MinimumFOp: "gl.minimum"})
"""Those that hand on NaN."""
CASTS = op_names(
    arith.ExtUIOp, arith.ExtSIOp, arith.TruncIOp, arith.ExtFOp, arith.TruncFOp, arith.SIToFPOp, arith.FPToSIOp,
    arith.BitcastOp, tt.BitcastOp, tt.FpToFpOp,
)  # fmt: skip
COMPARE = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
"""By the number of the predicate of arith.cmpi; the last four are unsigned."""
FLOAT_COMPARE = {1: "==", 2: ">", 3: ">=", 4: "<", 5: "<=", 13: "!="}
"""By the number of the predicate of arith.cmpf."""
TYPES = {
    "f16": "gl.float16", "bf16": "gl.bfloat16", "f32": "gl.float32", "f64": "gl.float64", "i1": "gl.int1",
    "i8": "gl.int8", "i16": "gl.int16", "i32": "gl.int32", "i64": "gl.int64", "f8E4M3FN": "gl.float8e4nv",
    "f8E5M2": "gl.float8e5",
}  # fmt: skip
ELEMENTWISE = frozenset({*INFIX, *UNSIGNED, *CALLS, *NAN, *op_names(arith.CmpIOp, arith.CmpFOp)})
"""Operations whose Gluon form gives a scalar operand the shape of the other one."""


def type_source(element: str) -> str:
    """The element type in Gluon; raises EmitError for one that it does not have."""
    if element not in TYPES:
        raise cannot_say(f"the type {element}")
    return TYPES[element]


def element_of(text: str) -> str:
    """The element type of a number or a tile, in MLIR's spelling."""
    match parse_type(text):
        case ScalarType(name=name):
            return name
        case TensorType(element=element):
            return element
        case PointerType():
            return text
        case other:
            raise cannot_say(f"a value of type {other}")


def elementwise(op: Operation, of: Callable[[int], str]) -> str:
    """The expression of an elementwise operation or a cast. of: the expression of an operand."""
    name = op.name
    if name in INFIX:
        sign = INFIX[name]
        return f"{within(of(0), sign, True)} {sign} {within(of(1), sign, False)}"
    if name in UNSIGNED:
        sides = [_unsigned(op, index, of) for index in (0, 1)]
        return f"({sides[0]} {UNSIGNED[name]} {sides[1]}).to({type_source(element_of(op.result.type))})"
    if name in CALLS:
        return f"{CALLS[name]}({', '.join(of(index) for index in range(len(op.operands)))})"
    if name in NAN:
        return f"{NAN[name]}({of(0)}, {of(1)}, propagate_nan=tl.PropagateNan.ALL)"
    if arith.CmpIOp.matches(op):
        number = int(op.properties["predicate"].split(":")[0])
        sides = [_unsigned(op, at, of) if number >= 6 else within(of(at), "==", not at) for at in (0, 1)]
        return f"{sides[0]} {COMPARE[number]} {sides[1]}"
    if arith.CmpFOp.matches(op):
        number = int(op.properties["predicate"].split(":")[0])
        if number not in FLOAT_COMPARE:
            raise cannot_say(f"the predicate {number} of arith.cmpf")
        return f"{within(of(0), '==', True)} {FLOAT_COMPARE[number]} {within(of(1), '==', False)}"
    return _cast(op, of)


def _cast(op: Operation, of: Callable[[int], str]) -> str:
    source, target = element_of(op.operands[0].type), element_of(op.result.type)
    value = within(of(0), ".", True)
    if arith.ExtUIOp.matches(op) and source != "i1":
        value = f"{value}.to(gl.uint{source[1:]})"
    if arith.ExtSIOp.matches(op) and source == "i1":
        raise cannot_say("a truth value as -1")
    more = ", bitcast=True" if op.name.endswith("bitcast") else ""
    if "roundingMode" in (rounding := {**op.properties, **op.attributes}) or "rounding" in rounding:
        mode = str(rounding.get("rounding", rounding.get("roundingMode", "")))
        more = ', fp_downcast_rounding="rtz"' if mode.startswith("0") else ""
    return f"{value}.to({type_source(target)}{more})"


def _unsigned(op: Operation, index: int, of: Callable[[int], str]) -> str:
    value, width = of(index), int(element_of(op.operands[index].type)[1:])
    number = bare(value)
    if number.removeprefix("-").isdecimal():
        return str(int(number) % (1 << width))
    return f"{within(value, '.', True)}.to(gl.uint{width})"


def integers(text: str) -> Sequence[int]:
    """The numbers of `array<i32: 1, 0>` or of `3 : i32`."""
    inner = text.removeprefix("array<").removesuffix(">")
    if inner.startswith("i"):
        inner = inner.partition(":")[2]
    return [int(part) for part in inner.partition(" : ")[0].split(",") if part.strip()]
