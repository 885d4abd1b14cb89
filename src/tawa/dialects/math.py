"""`math`: functions on scalars and tiles. All operations are pure."""

from __future__ import annotations

from tawa.dialects.declare.declaration import OpView
from tawa.dialects.declare.families import BinaryOp, UnaryOp
from tawa.dialects.declare.fields import operand


# fmt: off
class AbsFOp(UnaryOp): NAME = "math.absf"
class AbsIOp(UnaryOp): NAME = "math.absi"
class AcosOp(UnaryOp): NAME = "math.acos"
class AcoshOp(UnaryOp): NAME = "math.acosh"
class AsinOp(UnaryOp): NAME = "math.asin"
class AsinhOp(UnaryOp): NAME = "math.asinh"
class AtanOp(UnaryOp): NAME = "math.atan"
class Atan2Op(BinaryOp): NAME = "math.atan2"
class AtanhOp(UnaryOp): NAME = "math.atanh"
class CbrtOp(UnaryOp): NAME = "math.cbrt"
class CeilOp(UnaryOp): NAME = "math.ceil"
class CopySignOp(BinaryOp): NAME = "math.copysign"
class CosOp(UnaryOp): NAME = "math.cos"
class CoshOp(UnaryOp): NAME = "math.cosh"
class CountLeadingZerosOp(UnaryOp): NAME = "math.ctlz"
class CtPopOp(UnaryOp): NAME = "math.ctpop"
class CountTrailingZerosOp(UnaryOp): NAME = "math.cttz"
class ErfOp(UnaryOp): NAME = "math.erf"
class ErfcOp(UnaryOp): NAME = "math.erfc"
class ExpOp(UnaryOp): NAME = "math.exp"
class Exp2Op(UnaryOp): NAME = "math.exp2"
class ExpM1Op(UnaryOp): NAME = "math.expm1"
class FloorOp(UnaryOp): NAME = "math.floor"
class FPowIOp(BinaryOp): NAME = "math.fpowi"
class IPowIOp(BinaryOp): NAME = "math.ipowi"
class LogOp(UnaryOp): NAME = "math.log"
class Log10Op(UnaryOp): NAME = "math.log10"
class Log1pOp(UnaryOp): NAME = "math.log1p"
class Log2Op(UnaryOp): NAME = "math.log2"
class PowFOp(BinaryOp): NAME = "math.powf"
class RoundOp(UnaryOp): NAME = "math.round"
class RoundEvenOp(UnaryOp): NAME = "math.roundeven"
class RsqrtOp(UnaryOp): NAME = "math.rsqrt"
class SinOp(UnaryOp): NAME = "math.sin"
class SinhOp(UnaryOp): NAME = "math.sinh"
class SqrtOp(UnaryOp): NAME = "math.sqrt"
class TanOp(UnaryOp): NAME = "math.tan"
class TanhOp(UnaryOp): NAME = "math.tanh"
class TruncOp(UnaryOp): NAME = "math.trunc"
class IsFiniteOp(UnaryOp): NAME = "math.isfinite"
class IsInfOp(UnaryOp): NAME = "math.isinf"
class IsNaNOp(UnaryOp): NAME = "math.isnan"
class IsNormalOp(UnaryOp): NAME = "math.isnormal"
# fmt: on


class FmaOp(OpView):
    """``math.fma``: a · b + c, rounded once."""

    NAME = "math.fma"
    a, b, c = operand(0), operand(1), operand(2)
