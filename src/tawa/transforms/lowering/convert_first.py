"""Convert first: an operand gets its layout before its elements become narrow, if that only renames registers.

    %n = fp_to_fp %p : 64x128xf32 → f8, #linear        %w = convert_layout %p : 64x128xf32, #linear → #operand
    %o = convert_layout %n : #linear → #operand    →   %o = fp_to_fp %w : f32 → f8, #operand

A register holds several narrow elements. The instruction that makes them narrow packs those with neighbouring register
numbers. If these are not neighbours in the operand, each element is taken out and put together again: 128 byte
permutations for 64 × 128 elements of 8 bits. Elements of 32 bits each have a register of their own, so renaming these
is free.

It runs on the final TTGIR: Triton's own pass over layouts would move the conversion back.

Requires: TTGIR. Ensures: the same values in the same layouts.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.arith import TruncFOp
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.tt import FpToFpOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Builder, Module, Operation, ScalarType, TensorType, clone_op, parse_type
from tawa.machine.distribution import distribution_at
from tawa.transforms.result import PassResult

_NARROWING = op_names(FpToFpOp, TruncFOp)
_REGISTER_BITS = 32


@dataclass(frozen=True, slots=True)
class ConvertFirst:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Moves every such conversion."""
        found = [op for op in module.walk() if ConvertLayoutOp.matches(op) and _packs_others(op)]
        for convert in found:
            _swap(convert)
        return PassResult(bool(found))


def _packs_others(convert: Operation) -> bool:
    """Whether the source of a conversion packs other elements than its result, which it could have from registers."""
    narrow = ConvertLayoutOp(convert).source.defining_op
    if narrow is None or narrow.name not in _NARROWING or len(narrow.result.uses) != 1:
        return False
    wide, result = parse_type(narrow.operands[0].type), parse_type(convert.result.type)
    if not isinstance(wide, TensorType) or not isinstance(result, TensorType):
        return False
    packed = _REGISTER_BITS // _bits(result)
    if _bits(wide) != _REGISTER_BITS or packed < 2:
        return False
    source, target = distribution_at(narrow, narrow.result.type), distribution_at(convert, convert.result.type)
    if source is None or target is None or not source.holds(target):
        return False
    neighbours = packed.bit_length() - 1
    return source.registers[:neighbours] != target.registers[:neighbours]


def _bits(tile: TensorType) -> int:
    element = parse_type(tile.element)
    return element.bits if isinstance(element, ScalarType) else _REGISTER_BITS


def _swap(convert: Operation) -> None:
    narrow = ConvertLayoutOp(convert).source.defining_op
    assert narrow is not None
    wide, result = parse_type(narrow.operands[0].type), parse_type(convert.result.type)
    assert isinstance(wide, TensorType) and isinstance(result, TensorType)
    type = str(TensorType(wide.shape, wide.element, result.encoding))
    builder = Builder.before(convert)
    moved = builder.create(ConvertLayoutOp.NAME, (narrow.operands[0],), (type,), hints=(convert.result.hint,))
    made = builder.insert(clone_op(narrow, {}))
    made.set_operand(0, moved.result)
    made.result.type = convert.result.type
    convert.result.replace_all_uses_with(made.result)
    convert.erase()
    narrow.erase()
