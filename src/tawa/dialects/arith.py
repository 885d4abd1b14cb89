"""`arith`, `math`, `ub`: numbers. Everything here is pure; tiles and scalars alike."""

from __future__ import annotations

import re

from tawa.dialects.registry import Effect, OpSpec, declare, declare_pure
from tawa.dialects.view import OpView
from tawa.ir import Value
from tawa.ir.attributes import read_int

declare_pure(
    "arith",
    "addf addi andi bitcast ceildivsi ceildivui cmpf cmpi constant divf divsi divui extf extsi extui floordivsi fptosi "
    "fptoui index_cast index_castui maximumf maxnumf maxsi maxui minimumf minnumf minsi minui mulf muli mulsi_extended "
    "mului_extended addui_extended negf ori remf remsi remui select shli shrsi shrui sitofp subf subi truncf trunci "
    "uitofp xori",
)
declare_pure(
    "math",
    "absf absi acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh ctlz ctpop cttz erf erfc exp "
    "exp2 expm1 floor fma fpowi ipowi log log10 log1p log2 powf round roundeven rsqrt sin sinh sqrt tan tanh "
    "trunc isfinite isinf isnan isnormal",
)
declare_pure("ub", "poison")
ASSUME = "llvm.intr.assume"
"""Changes nothing, but is only as good as the place it stands at: it stays where its operand is."""
declare(OpSpec(ASSUME, (Effect("order"),)))


class ConstantOp(OpView):
    """``arith.constant``: a number or a dense tile. Pure. Every partition makes its own."""

    NAME = "arith.constant"
    __slots__ = ()

    @property
    def text(self) -> str:
        """The value as MLIR spells it."""
        return self.op.properties["value"]


def constant_int(value: Value) -> int | None:
    """The integer behind `value` where it is a constant; None otherwise."""
    view = ConstantOp.of(value.defining_op)
    if view is None:
        return None
    try:
        return read_int(view.text)
    except ValueError:
        return None


_ZERO = re.compile(r"(?:dense<)?(?:0|0x0+|0\.0+(?:e\+00)?|false)>?(?:\s*:.*)?", re.DOTALL | re.IGNORECASE)


_KEEPS_ZERO = frozenset(
    {"tt.splat", "tt.broadcast", "ttg.convert_layout", "arith.extf", "arith.sitofp", "arith.truncf"}
)


def is_zero(value: Value) -> bool:
    """Whether `value` is a number or a tile of which every bit is surely 0."""
    op = value.defining_op
    while op is not None and op.name in _KEEPS_ZERO:
        op = op.operands[0].defining_op
    view = ConstantOp.of(op)
    return view is not None and _ZERO.fullmatch(view.text.strip()) is not None
