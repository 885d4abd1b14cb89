"""Scale behind max: moves a multiplication by a positive constant from the operand of a max reduction to its result.

    %s = mulf %x, dense<1.44>                      %s = mulf %x, dense<1.44>
    %m = reduce(%s, max)                     →     %n = reduce(%x, max)
                                                   %m = mulf %n, dense<1.44>
    %d = subf %s, broadcast %m                     %d = subf %s, broadcast %m

Rounding and multiplication by a positive factor are monotonic, so the maximum is bitwise the same, infinities and NaN
included. The remaining use of %s is a difference, which the back end fuses with the product into one instruction. A
softmax then multiplies a row instead of a tile. If the product has other uses, the rewrite gains nothing and is not
done.

The back end fuses the difference of stock Triton's kernel, too, with one exception: a select whose only use is the
product. LLVM moves the product into the arms of such a select (InstCombine, `FoldOpIntoSelect`) and then has no product
to fuse: it rounds twice. The rewrite would give the select a second use, and the fused difference other bits. It is
not done there.

Requires: nothing. Ensures: the same values.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tawa.dialects.arith import (
    AddFOp,
    ConstantOp,
    MaximumFOp,
    MaxNumFOp,
    MinimumFOp,
    MinNumFOp,
    MulFOp,
    SelectOp,
    SubFOp,
)
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.tt import BroadcastOp, ExpandDimsOp, ReduceOp, ReshapeOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Builder, Module, Operation, Value
from tawa.transforms.result import PassResult

_KEEPS_ORDER = op_names(MaxNumFOp, MaximumFOp, MinNumFOp, MinimumFOp)
_FUSES = op_names(SubFOp, AddFOp)
_SAME_NUMBERS = op_names(BroadcastOp, ConvertLayoutOp, ExpandDimsOp, ReshapeOp)
"""These rename the registers of a tile, so that the back end sees the operation behind them."""
_SPLAT = re.compile(r"dense<([-+0-9.eE]+)> : (tensor<.*>)")


@dataclass(frozen=True, slots=True)
class ScaleBehindMax:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Rewrites every reduction for which this saves the multiplication of a tile."""
        changed = False
        for op in list(module.walk()):
            if op.name == ReduceOp.NAME and _keeps_order(op):
                while (factor := _saved_factor(op)) is not None:
                    _reduce_first(op, factor)
                    changed = True
        return PassResult(changed)


def _keeps_order(reduce: Operation) -> bool:
    """Whether `reduce` computes the maximum or minimum of one f32 tile."""
    inside = [op.name for op in reduce.regions[0].block.ops]
    one = len(reduce.operands) == 1 and len(inside) == 2
    return (
        one
        and inside[0] in _KEEPS_ORDER
        and "xf32, " in ReduceOp(reduce).sources[0].type
        and reduce.result.type[:6] == "tensor"
    )


def _saved_factor(reduce: Operation) -> int | None:
    """The index of the positive factor of the reduced product; None if the product has uses that keep it alive."""
    product = ReduceOp(reduce).sources[0].defining_op
    if product is None or not MulFOp.matches(product):
        return None
    others = [use.op for use in product.result.uses if use.op is not reduce]
    if any(op.name not in _FUSES for op in others):
        return None
    factor = next((number for number in (1, 0) if _positive(product.operands[number])), None)
    return None if factor is None or _is_merged(product.operands[1 - factor]) else factor


def _is_merged(tile: Value) -> bool:
    """Whether the back end moves the only user of `tile` into the operation that computes it: a select."""
    while len(tile.uses) == 1 and tile.defining_op is not None:
        if tile.defining_op.name in _SAME_NUMBERS:
            tile = tile.defining_op.operands[0]
        else:
            return SelectOp.matches(tile.defining_op)
    return False


def _positive(value: Value) -> bool:
    """Whether `value` is a splat of a positive and finite constant."""
    splat = _splat(value)
    return splat is not None and 0 < float(splat) < math.inf


def _splat(value: Value) -> str | None:
    """The text of the number in a splat constant."""
    view = ConstantOp.of(value.defining_op)
    match = _SPLAT.fullmatch(view.text) if view else None
    return match[1] if match else None


def _reduce_first(reduce: Operation, factor: int) -> None:
    """Reduces the unscaled operand, and scales the result."""
    product = ReduceOp(reduce).sources[0].defining_op
    assert product is not None
    type, number = reduce.result.type, _splat(product.operands[factor])
    builder = Builder.after(reduce)
    row = builder.create(ConstantOp.NAME, (), (type,), properties={"value": f"dense<{number}> : {type}"})
    users = list(reduce.result.uses)
    scaled = builder.create(MulFOp.NAME, (reduce.result, row.result), (type,), properties=dict(product.properties))
    for use in users:
        use.op.set_operand(use.index, scaled.result)
    reduce.set_operand(0, product.operands[1 - factor])
    if not product.result.uses:
        product.erase()
