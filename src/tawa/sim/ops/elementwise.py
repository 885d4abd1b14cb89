"""`arith`, `math` and the elementwise operations of `tt`, on scalars, on tiles and in the regions of reductions.

Float results are computed in float64 (transcendental functions) or float32 (all others) and rounded to the result type.
The GPU's approximate division, exponential and square root are modelled as correctly rounded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tawa.dialects import arith, tt
from tawa.dialects import math as math_ops
from tawa.dialects.builtin import AssumeOp, GpuBarrierOp
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.ttg import BarrierOp
from tawa.ir import Operation, PointerType, TensorType, parse_type
from tawa.ir.attributes import read_int
from tawa.sim.errors import FailedAssertion, UnsupportedOp
from tawa.sim.machine.values import Context, GlobalTensor, Handler, Pointer
from tawa.sim.numbers import (
    decode,
    encode,
    is_float,
    is_tile,
    memory_dtype,
    register_dtype,
    round_to,
    round_towards_zero,
    width,
    wrap,
)
from tawa.sim.ops import arithmetic
from tawa.sim.ops.constants import constant

Function = Callable[..., Any]


def element_of(type: str) -> str:
    """The element type of a tile type, or the scalar type itself."""
    parsed = parse_type(type)
    return parsed.element if isinstance(parsed, TensorType) else type


def as_integer(value: Any, element: str) -> Any:
    """An integer scalar wrapped to `element`, or a tile converted to it."""
    if is_tile(value):
        dtype = register_dtype(element)
        return value if value.dtype == dtype else value.astype(dtype)
    return wrap(int(value), element)


def as_unsigned(value: Any, element: str) -> Any:
    """The same bits as an unsigned integer."""
    bits = width(element)
    if is_tile(value):
        return value if bits == 1 else value.view(f"u{value.dtype.itemsize}")
    return int(value) & ((1 << bits) - 1)


def _integer(function: Function, unsigned: bool = False) -> Handler:
    def run(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
        element = element_of(op.result.type)
        if unsigned:
            args = [as_unsigned(arg, element_of(value.type)) for arg, value in zip(args, op.operands, strict=True)]
        with np.errstate(over="ignore", divide="ignore"):
            return [as_integer(function(*args), element)]

    return run


def _float(function: Function, wide: bool = False) -> Handler:
    def run(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
        element = element_of(op.result.type)
        with np.errstate(all="ignore"):
            if wide:
                args = [np.asarray(arg, np.float64) for arg in args]
            return [round_to(function(*args), element)]

    return run


def _cmpi(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    predicate = read_int(op.properties["predicate"])
    a, b = args
    if predicate >= 6:
        element = element_of(op.operands[0].type)
        a, b, predicate = as_unsigned(a, element), as_unsigned(b, element), predicate - 4
    compare: Function = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)[predicate]
    if isinstance(a, Pointer) or isinstance(b, Pointer):
        raise UnsupportedOp("a comparison of pointers")
    result = compare(a, b)
    return [result if is_tile(result) else int(result)]


def _cmpf(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    predicate = read_int(op.properties["predicate"])
    a, b = args
    unordered = np.isnan(a) | np.isnan(b)
    tests: list[Function] = [np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal]
    if predicate in (0, 15):
        result = np.full(np.shape(unordered), predicate == 15)[()]
    elif predicate in (7, 14):
        result = unordered if predicate == 14 else ~unordered
    elif predicate < 7:
        result = tests[predicate - 1](a, b) & ~unordered
    else:
        result = tests[predicate - 8](a, b) | unordered
    return [result if is_tile(result) else int(result)]


def _select(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    condition, yes, no = args
    if not is_tile(condition):
        return [yes if condition else no]
    if isinstance(yes, Pointer) or isinstance(no, Pointer):
        if not isinstance(yes, Pointer) or not isinstance(no, Pointer) or yes.tensor is not no.tensor:
            raise UnsupportedOp("a select between pointers into different tensors")
        return [Pointer(yes.tensor, np.where(condition, yes.offset, no.offset))]
    return [np.where(condition, yes, no)]


def _convert(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    """Conversions between floats and signed integers of any width."""
    return [_to(args[0], element_of(op.result.type))]


def _convert_unsigned(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    source, target = element_of(op.operands[0].type), element_of(op.result.type)
    value = args[0]
    if not is_float(source):
        value = as_unsigned(value, source)
    elif not is_float(target):
        value = np.trunc(value).astype(np.uint64) if is_tile(value) else int(value)
    return [_to(value, target)]


def _to(value: Any, target: str) -> Any:
    if is_float(target):
        return round_to(value, target)
    with np.errstate(invalid="ignore"):
        if is_tile(value):
            return (np.trunc(value) if value.dtype.kind == "f" else value).astype(register_dtype(target))
        return wrap(int(value), target)


def _sign_extend(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    value, target = args[0], element_of(op.result.type)
    if element_of(op.operands[0].type) == "i1":
        value = -value.astype(np.int8) if is_tile(value) else -int(value)
    return [as_integer(value, target)]


def _truncate(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    value, target = args[0], element_of(op.result.type)
    return [as_integer(value & 1 if target == "i1" else value, target)]


def _bitcast(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    source, target = element_of(op.operands[0].type), element_of(op.result.type)
    if isinstance(args[0], Pointer):
        kind = parse_type(target)
        tensor, offset = args[0].tensor, args[0].offset
        if isinstance(kind, PointerType) and kind.pointee == tensor.element:
            return [args[0]]
        if isinstance(kind, PointerType) and memory_dtype(kind.pointee) == tensor.bits.dtype:
            return [Pointer(GlobalTensor(tensor.name, tensor.bits, kind.pointee), offset)]
        raise UnsupportedOp(f"a bitcast of a pointer to {target}")
    if source == target:
        return [args[0]]
    result = decode(encode(args[0], source), target)
    return [result if is_tile(args[0]) else _scalar(result, target)]


def _scalar(value: Any, element: str) -> Any:
    return np.asarray(value)[()] if is_float(element) else wrap(int(value), element)


def _fp_to_fp(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    source, target = element_of(op.operands[0].type), element_of(op.result.type)
    towards_zero = op.properties.get("rounding", "").startswith("0") and width(target) < width(source)
    return [round_towards_zero(args[0], target) if towards_zero else round_to(args[0], target)]


def _clamp(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    value, low, high = args
    if read_int(op.properties.get("propagateNan", "0 : i32")):
        return [np.minimum(np.maximum(value, low), high)]
    return [np.fmin(np.fmax(value, low), high)]


def _high(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    """The upper half of a product, without sign."""
    element = element_of(op.result.type)
    bits = width(element)
    exact = [np.asarray(as_unsigned(a, element)).astype(object) for a in args]
    high = (exact[0] * exact[1]) >> bits
    if is_tile(args[0]):
        mask = (1 << bits) - 1
        return [np.asarray(high & mask).astype(f"u{bits // 8}").view(register_dtype(element))]
    return [wrap(int(high), element)]


def _assume(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    if not np.all(args[0]):
        what = "the assumption" if AssumeOp.matches(op) else f"tt.assert {op.properties.get('message', '')}"
        raise FailedAssertion(f"{what.strip()} is false")
    return []


def _nothing(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    return []


def _constant(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    return [constant(op.properties["value"], op.result.type)]


ELEMENTWISE: dict[str, Handler] = by_name(
    {
        arith.ConstantOp: _constant,
        arith.AddIOp: _integer(operator.add),
        arith.SubIOp: _integer(operator.sub),
        arith.MulIOp: _integer(operator.mul),
        arith.DivSIOp: _integer(arithmetic.divide),
        arith.RemSIOp: _integer(arithmetic.remainder),
        arith.DivUIOp: _integer(arithmetic.divide, unsigned=True),
        arith.RemUIOp: _integer(arithmetic.remainder, unsigned=True),
        arith.FloorDivSIOp: _integer(arithmetic.floor_divide),
        arith.CeilDivSIOp: _integer(arithmetic.ceil_divide),
        arith.CeilDivUIOp: _integer(arithmetic.ceil_divide_unsigned, unsigned=True),
        arith.MinSIOp: _integer(np.minimum),
        arith.MaxSIOp: _integer(np.maximum),
        arith.MinUIOp: _integer(np.minimum, unsigned=True),
        arith.MaxUIOp: _integer(np.maximum, unsigned=True),
        arith.AndIOp: _integer(arithmetic.bitwise_and),
        arith.OrIOp: _integer(arithmetic.bitwise_or),
        arith.XOrIOp: _integer(arithmetic.bitwise_xor),
        arith.ShLIOp: _integer(arithmetic.shift_left),
        arith.ShRSIOp: _integer(arithmetic.shift_right),
        arith.ShRUIOp: _integer(arithmetic.shift_right, unsigned=True),
        arith.AddFOp: _float(operator.add),
        arith.SubFOp: _float(operator.sub),
        arith.MulFOp: _float(operator.mul),
        arith.DivFOp: _float(np.divide),
        arith.RemFOp: _float(np.fmod),
        arith.NegFOp: _float(operator.neg),
        arith.MaximumFOp: _float(np.maximum),
        arith.MinimumFOp: _float(np.minimum),
        arith.MaxNumFOp: _float(np.fmax),
        arith.MinNumFOp: _float(np.fmin),
        arith.CmpIOp: _cmpi,
        arith.CmpFOp: _cmpf,
        arith.SelectOp: _select,
        arith.ExtFOp: _convert,
        arith.TruncFOp: _convert,
        arith.SIToFPOp: _convert,
        arith.FPToSIOp: _convert,
        arith.UIToFPOp: _convert_unsigned,
        arith.FPToUIOp: _convert_unsigned,
        arith.ExtUIOp: _convert_unsigned,
        arith.ExtSIOp: _sign_extend,
        arith.TruncIOp: _truncate,
        arith.IndexCastOp: _sign_extend,
        arith.IndexCastUIOp: _convert_unsigned,
        arith.BitcastOp: _bitcast,
        tt.BitcastOp: _bitcast,
        tt.FpToFpOp: _fp_to_fp,
        tt.ClampFOp: _clamp,
        tt.MulhiUIOp: _high,
        tt.PreciseDivFOp: _float(np.divide),
        tt.ApproxDivFOp: _float(np.divide),
        tt.PreciseSqrtOp: _float(np.sqrt),
        math_ops.AbsFOp: _float(np.abs),
        math_ops.AbsIOp: _integer(abs),
        math_ops.FmaOp: _float(arithmetic.multiply_add, wide=True),
        math_ops.ExpOp: _float(np.exp, wide=True),
        math_ops.Exp2Op: _float(np.exp2, wide=True),
        math_ops.ExpM1Op: _float(np.expm1, wide=True),
        math_ops.LogOp: _float(np.log, wide=True),
        math_ops.Log2Op: _float(np.log2, wide=True),
        math_ops.Log10Op: _float(np.log10, wide=True),
        math_ops.Log1pOp: _float(np.log1p, wide=True),
        math_ops.SqrtOp: _float(np.sqrt, wide=True),
        math_ops.RsqrtOp: _float(arithmetic.rsqrt, wide=True),
        math_ops.SinOp: _float(np.sin, wide=True),
        math_ops.CosOp: _float(np.cos, wide=True),
        math_ops.TanOp: _float(np.tan, wide=True),
        math_ops.TanhOp: _float(np.tanh, wide=True),
        math_ops.SinhOp: _float(np.sinh, wide=True),
        math_ops.CoshOp: _float(np.cosh, wide=True),
        math_ops.PowFOp: _float(np.power, wide=True),
        math_ops.ErfOp: _float(arithmetic.erf, wide=True),
        math_ops.FloorOp: _float(np.floor),
        math_ops.CeilOp: _float(np.ceil),
        math_ops.TruncOp: _float(np.trunc),
        math_ops.RoundEvenOp: _float(np.rint),
        math_ops.CopySignOp: _float(np.copysign),
        AssumeOp: _assume,
        tt.AssertOp: _assume,
        **dict.fromkeys((tt.PrintOp, tt.GridDependencyWaitOp, tt.GridDependencyLaunchDependentsOp), _nothing),
        GpuBarrierOp: _nothing,
        BarrierOp: _nothing,
    }
)
"""Handlers, by operation name."""
