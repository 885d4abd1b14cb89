"""Products that LLVM may round together with a sum: those that reach it through operations that round nothing.

Where iterations become straight code, LLVM knows more: the number of an iteration, masks, what the last one computed.

    %p = mulf %x, (select %mask, %t, 1.0)       where %mask is false, %p is %x, which may be a product itself
    %d = subf %p, (select %mask, %t, 0.0)       …, %d is %p
    %n = addf %s, %d
    %e = exp2 (sitofp %j)                       a number, which ptxas computes
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tawa.dialects import arith, tt
from tawa.dialects.arith import (
    AddFOp,
    AndIOp,
    CmpFOp,
    CmpIOp,
    ConstantOp,
    DivFOp,
    ExtFOp,
    MaxSIOp,
    MaxUIOp,
    MinSIOp,
    MinUIOp,
    MulFOp,
    MulIOp,
    NegFOp,
    OrIOp,
    SelectOp,
    SubFOp,
    TruncFOp,
    is_zero,
)
from tawa.dialects.builtin import PoisonOp
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.math import (
    AbsFOp,
    CeilOp,
    CopySignOp,
    FloorOp,
    FmaOp,
    IsFiniteOp,
    IsInfOp,
    IsNaNOp,
    IsNormalOp,
    RoundEvenOp,
    RoundOp,
    TruncOp,
)
from tawa.dialects.scf import ForOp
from tawa.ir import Block, Operation, Value

UNROUNDED = op_names(
    SelectOp, NegFOp, arith.BitcastOp, tt.BitcastOp, tt.BroadcastOp, tt.ExpandDimsOp, tt.ReshapeOp, tt.SplatOp,
    tt.TransOp,
)  # fmt: skip
"""Operations that round nothing. LLVM may fold a selection."""
RESIZED = op_names(ExtFOp, TruncFOp, tt.FpToFpOp)
_SUMS = op_names(AddFOp, SubFOp, FmaOp)
_KNOWN = op_names(ConstantOp, PoisonOp, tt.MakeRangeOp, CmpIOp, CmpFOp)
_ONE_DECIDES = op_names(SelectOp, AndIOp, MulIOp, OrIOp, MaxSIOp, MaxUIOp, MinSIOp, MinUIOp)
_ZERO_OF_ZEROS = (UNROUNDED | _ONE_DECIDES | op_names(AddFOp)) - op_names(NegFOp)
_EXACT = op_names(
    AbsFOp, CeilOp, CopySignOp, FloorOp, FmaOp, IsFiniteOp, IsInfOp, IsNaNOp, IsNormalOp, RoundEvenOp, RoundOp, TruncOp
)  # fmt: skip
_QUOTIENTS = op_names(DivFOp, tt.ApproxDivFOp)
_INFINITE = re.compile(r"(dense<)?0x[7F](F800000|C00|F80|FF0{13})>?( :.*)?", re.IGNORECASE | re.DOTALL)
_ELEMENTWISE = ("arith.", "math.")
_NO, _ZERO, _OTHER = 0, 1, 2


def rounds_alike(loop: ForOp, straight: Block | None = None) -> bool:
    """Whether the sums of a loop round the same products in straight code, and the GPU approximates the same.

    straight: this code, if its products have to be as they are in the loop. Its condition fixes the bound of the loop.
    """
    if straight is not None:
        return _Known({loop.upper: _OTHER}).rounds_alike(straight)
    carried = list(zip(loop.iter_args, loop.inits, loop.yielded, strict=True))
    before = _Known()
    numbers = {loop.induction: _OTHER, loop.upper: _OTHER, **{arg: before.of(init) for arg, init, _ in carried}}
    while True:  # what is known in the first iteration may be known in the next ones
        known = _Known(dict(numbers))
        numbers |= {arg: numbers[arg] | known.behind(loop.body, end) for arg, _, end in carried if numbers[arg]}
        if all(known.numbers[it] == number for it, number in numbers.items()):
            break
    crossing = (*loop.inits, *loop.yielded)
    return not any(map(known.may_be_product, crossing)) and known.rounds_alike(loop.body)


@dataclass(slots=True)
class _Known:
    """What LLVM may know. numbers: for each value, whether it may be known to be 0 or infinite, or another number."""

    numbers: dict[Value, int] = field(default_factory=dict[Value, int])
    products: dict[Value, bool] = field(default_factory=dict[Value, bool])

    def behind(self, block: Block, value: Value) -> int:
        """Whether a value may be known behind a block."""
        self._visit(block)
        return self.of(value)

    def _visit(self, block: Block) -> None:
        """Visits the operations in their order, so that none depends on many that are new."""
        for op in block.ops:
            for result in op.results:
                self.of(result)
                self.may_be_product(result)

    def of(self, value: Value) -> int:
        """Whether a value may be known."""
        if value not in self.numbers:
            self.numbers[value] = self._of(value, value.defining_op)
        return self.numbers[value]

    def _of(self, value: Value, op: Operation | None) -> int:
        if op is None or op.regions:
            return _NO
        if op.name in _KNOWN:
            return _ZERO if is_zero(value) or _is_infinite(op) else _OTHER
        if not op.operands or not (op.name in UNROUNDED or op.name.startswith(_ELEMENTWISE)):
            return _NO
        operands = list(map(self.of, op.operands[1:] if SelectOp.matches(op) else op.operands))
        if not (any if op.name in _ONE_DECIDES else all)(operands):
            return _NO
        zeros = op.name in _ZERO_OF_ZEROS and any(it & _ZERO for it in operands)
        others = op.name not in _ZERO_OF_ZEROS or any(it & _OTHER for it in operands)
        return zeros * _ZERO | others * _OTHER

    def may_be_product(self, value: Value) -> bool:
        """Whether a value may be a product, once LLVM has folded what it knows."""
        if value not in self.products:
            op = value.defining_op
            self.products[value] = op is not None and not op.regions and self._may_be(op)
        return self.products[value]

    def _may_be(self, op: Operation) -> bool:
        if MulFOp.matches(op) or (FmaOp.matches(op) and any(map(self.of, op.operands))):
            return True
        folded = op.name in UNROUNDED | RESIZED or (op.name.startswith(_ELEMENTWISE) and self._may_fold(op))
        return folded and any(map(self.may_be_product, op.operands))

    def _may_fold(self, op: Operation) -> bool:
        """Whether one operand may decide that the result is the other one."""
        numbers = list(map(self.of, op.operands))
        if AddFOp.matches(op):
            return any(it & _OTHER for it in numbers)  # x + 0 is not x: it is never -0
        if SubFOp.matches(op):
            return bool(numbers[0] & _OTHER or numbers[1])
        return len(numbers) > 1 and any(numbers)

    def rounds_alike(self, block: Block) -> bool:
        """Whether each sum of a block has no product, or one of its own that nothing known can change.

        And whether all approximations are left to the GPU.
        """
        self._visit(block)
        for op in block.ops:
            held = [it for it in op.operands if self.may_be_product(it)] if op.name in _SUMS else []
            if self._is_computed_ahead(op):
                return False
            if held and (len(held) > 1 or FmaOp.matches(op) or not self._is_fixed(held[0], block)):
                return False
        return True

    def _is_computed_ahead(self, op: Operation) -> bool:
        """Whether ptxas may compute what the GPU approximates. PTX says what it makes of 0 and infinity."""
        if op.name in _QUOTIENTS:
            return self.of(op.operands[1]) != _NO
        approximate = op.name.startswith("math.") and op.name not in _EXACT
        return approximate and bool(self.of(op.operands[-1]) & _OTHER)

    def _is_fixed(self, product: Value, block: Block) -> bool:
        """Whether a product of a block remains one. What is multiplied by 0 does, since it may be no number."""
        op = product.defining_op
        return (
            op is not None
            and MulFOp.matches(op)
            and op.parent is block
            and len(product.uses) == 1
            and not any(self.of(it) & _OTHER for it in op.operands)
        )


def _is_infinite(op: Operation) -> bool:
    constant = ConstantOp.of(op)
    return constant is not None and _INFINITE.fullmatch(constant.text) is not None
