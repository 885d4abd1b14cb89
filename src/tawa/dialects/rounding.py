"""Products that LLVM may round together with a sum: those that reach it through operations that round nothing.

Where iterations become straight code, LLVM knows more: the number of an iteration, masks, what the last one computed.

    %p = mulf %x, (select %mask, %t, 1.0)       where %mask is false, %p is %x, which may be a product itself
    %d = subf %p, (select %mask, %t, 0.0)       …, %d is %p
    %n = addf %s, %d
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.dialects import arith, tt
from tawa.dialects.arith import (
    AddFOp,
    AndIOp,
    ConstantOp,
    ExtFOp,
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
from tawa.dialects.math import FmaOp
from tawa.dialects.scf import ForOp
from tawa.ir import Block, Operation, Value

UNROUNDED = op_names(
    SelectOp, NegFOp, arith.BitcastOp, tt.BitcastOp, tt.BroadcastOp, tt.ExpandDimsOp, tt.ReshapeOp, tt.SplatOp,
    tt.TransOp,
)  # fmt: skip
"""Operations that round nothing. LLVM may fold a selection."""
_RESIZED = op_names(ExtFOp, TruncFOp, tt.FpToFpOp)
_SUMS = op_names(AddFOp, SubFOp, FmaOp)
_CONSTANT = op_names(ConstantOp, PoisonOp, tt.MakeRangeOp)
_ONE_DECIDES = op_names(SelectOp, AndIOp, MulIOp, OrIOp)
_ELEMENTWISE = ("arith.", "math.")
_NO, _ZERO, _OTHER = 0, 1, 2


def products_of(value: Value) -> list[Operation]:
    """The products that a sum with this value may be rounded together with."""
    found, work = list[Operation](), [value]
    while work:
        op = work.pop().defining_op
        if op is not None and MulFOp.matches(op):
            found.append(op)
        elif op is not None and op.name in UNROUNDED:
            work += op.operands
    return found


def rounds_alike(loop: ForOp) -> bool:
    """Whether the sums of a loop round the same products in straight code, where LLVM knows the masks."""
    known = _Known({loop.induction: _OTHER})
    args = list(zip(loop.iter_args, loop.inits, loop.yielded, strict=True))
    for arg, init, _ in args:
        known.numbers[arg] = known.of(init)
    while True:  # a number that is known in the first iteration may be known in the next ones
        grown = {arg: known.numbers[arg] | known.of_block(loop.body, its) for arg, _, its in args if known.numbers[arg]}
        if all(known.numbers[arg] == it for arg, it in grown.items()):
            break
        known = _Known({loop.induction: _OTHER, **{arg: known.numbers[arg] for arg, _, _ in args}, **grown})
    crossing = (*loop.inits, *loop.yielded)
    return not any(map(known.may_be_product, crossing)) and known.rounds_alike(loop.body)


def straight_rounds_alike(block: Block) -> bool:
    """The same of straight code."""
    return _Known().rounds_alike(block)


@dataclass(slots=True)
class _Known:
    """What LLVM may know. numbers: for each value, whether it may be known to be 0, or another number."""

    numbers: dict[Value, int] = field(default_factory=dict[Value, int])
    products: dict[Value, bool] = field(default_factory=dict[Value, bool])

    def of_block(self, block: Block, value: Value) -> int:
        """The same of a value that a block computes; its operations are visited in their order."""
        for op in block.ops:
            for result in op.results:
                self.of(result)
        return self.of(value)

    def of(self, value: Value) -> int:
        """Whether a value may be known."""
        if value not in self.numbers:
            self.numbers[value] = self._of(value, value.defining_op)
        return self.numbers[value]

    def _of(self, value: Value, op: Operation | None) -> int:
        if op is None or op.regions:
            return _NO
        if op.name in _CONSTANT:
            return _ZERO if is_zero(value) else _OTHER
        if not op.operands or not (op.name in UNROUNDED or op.name.startswith(_ELEMENTWISE)):
            return _NO
        operands = list(map(self.of, op.operands[1:] if SelectOp.matches(op) else op.operands))
        if op.name in _ONE_DECIDES:
            return (_ZERO if any(it & _ZERO for it in operands) else _NO) | max(it & _OTHER for it in operands)
        if not all(operands):
            return _NO
        return operands[0] if op.name in UNROUNDED and not NegFOp.matches(op) else _OTHER

    def may_be_product(self, value: Value) -> bool:
        """Whether a value may be a product, once LLVM has folded what it knows."""
        if value not in self.products:
            op = value.defining_op
            self.products[value] = op is not None and not op.regions and self._may_be(op)
        return self.products[value]

    def _may_be(self, op: Operation) -> bool:
        if MulFOp.matches(op) or (FmaOp.matches(op) and any(map(self.of, op.operands))):
            return True
        folded = op.name in UNROUNDED | _RESIZED or (op.name.startswith(_ELEMENTWISE) and self._may_fold(op))
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
        """Whether each sum of a block has no product, or one of its own that nothing known can change."""
        for op in block.ops:
            for result in op.results:
                self.of(result)
                self.may_be_product(result)
            held = [it for it in op.operands if self.may_be_product(it)] if op.name in _SUMS else []
            if held and (len(held) > 1 or FmaOp.matches(op) or not self._is_fixed(held[0], block)):
                return False
        return True

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
