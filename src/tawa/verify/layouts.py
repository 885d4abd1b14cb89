"""Whether a program computes what another one does, and only threads that hold elements differ.

    before                                   after
    %c = convert %t : #blocked to #mma       %n = addf %s, %t : #blocked        the same sums
    %n = addf %s, %c : #mma

A conversion changes where elements are, not what they are. So two programs compute the same if they are equal without
their conversions, and without the layouts of tiles whose elements are computed, loaded or stored each on its own.
Reductions, dots and accesses to shared memory keep their layouts: these decide the order of sums, and who reads what. A
sum keeps its product: LLVM rounds both together unless a conversion is between them. Tiles that are made of attributes
and numbers may be made again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from tawa.dialects import tt
from tawa.dialects.arith import AddFOp, ConstantOp, MulFOp, NegFOp, SelectOp, SubFOp
from tawa.dialects.builtin import PoisonOp
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.inline.markers import RoundedProductOp
from tawa.dialects.scf import CONTROL, ENDS
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Block, Module, Operation, TensorType, Value, parse_type

_SOURCES = op_names(ConstantOp, tt.MakeRangeOp, tt.SplatOp, PoisonOp)
_EACH = CONTROL | ENDS | op_names(
    tt.AddPtrOp, tt.BitcastOp, tt.ClampFOp, tt.FpToFpOp, tt.IntToPtrOp, tt.PtrToIntOp, tt.LoadOp, tt.PreciseDivFOp,
    tt.StoreOp,
)  # fmt: skip
_SUMS = op_names(AddFOp, SubFOp)
_UNROUNDED = op_names(SelectOp, NegFOp, tt.BroadcastOp, tt.ExpandDimsOp, tt.ReshapeOp, tt.TransOp)
_TENSOR = re.compile(r"tensor<([\dx]+)(!tt\.ptr<\w+>|\w+), .*>")


def difference(before: Module, after: Module) -> str:
    """What one program computes otherwise than another, in words; empty if they differ in layouts only."""
    return _Comparison().of_blocks(before.body, after.body)


@dataclass(slots=True)
class _Comparison:
    """numbers: of the values that were found to be equal."""

    numbers: dict[Value, int] = field(default_factory=dict[Value, int])

    def of_blocks(self, one: Block, other: Block) -> str:
        """The first difference of two blocks."""
        if found := self._bound(one.args, other.args, layouts=False):
            return found
        for first, second in zip_longest(_kept(one), _kept(other)):
            if first is None or second is None:
                return "it has more or fewer operations"
            if found := self._of_ops(first, second):
                return f"{first.name}: {found}"
        return ""

    def _of_ops(self, one: Operation, other: Operation) -> str:
        each = one.name in _EACH or one.name.startswith(("arith.", "math."))
        rounded = MulFOp.matches(one) and RoundedProductOp.matches(other)
        if one.name != other.name and not rounded:
            return f"{other.name} stands in its place"
        if not rounded and (one.properties, one.attributes) != (other.properties, other.attributes):
            return "it has other properties"
        if len(one.operands) != len(other.operands):
            return "it has more or fewer operands"
        for index, (mine, its) in enumerate(zip(one.operands, other.operands, strict=True)):
            if self._key(mine) != self._key(its):
                return f"operand {index} is another value"
            if not each and mine.type != its.type:
                return f"operand {index} has another layout"
            if one.name in _SUMS and _holds_product(mine) != _holds_product(its):
                return f"operand {index} is rounded before it is added in one program only"
        if list(map(_place, one.successors)) != list(map(_place, other.successors)):
            return "it jumps elsewhere"
        if [len(it.blocks) for it in one.regions] != [len(it.blocks) for it in other.regions]:
            return "it has other regions"
        for mine, its in zip(one.regions, other.regions, strict=True):
            for first, second in zip(mine.blocks, its.blocks, strict=True):
                if found := self.of_blocks(first, second):
                    return found
        return self._bound(one.results, other.results, layouts=not each)

    def _bound(self, ones: Sequence[Value], others: Sequence[Value], layouts: bool) -> str:
        """Takes values as equal from now on."""
        if len(ones) != len(others):
            return "it has more or fewer results"
        for one, other in zip(ones, others, strict=True):
            if (one.type != other.type) if layouts else (_shape(one) != _shape(other)):
                return "a result has another type"
            self.numbers[one] = self.numbers[other] = len(self.numbers)
        return ""

    def _key(self, value: Value) -> object:
        """What a value is, apart from its layout."""
        op = value.defining_op
        if convert := ConvertLayoutOp.of(op):
            return self._key(convert.source)
        if op is None or op.name not in _SOURCES:
            return self.numbers.get(value, value)
        properties = tuple((name, _TENSOR.sub(r"\1\2", text)) for name, text in sorted(op.properties.items()))
        return op.name, properties, _shape(value), tuple(map(self._key, op.operands))


def _kept(block: Block) -> list[Operation]:
    return [op for op in block.ops if op.name not in _SOURCES and not ConvertLayoutOp.matches(op)]


def _place(block: Block) -> int:
    """The number of a block in its region."""
    return block.parent.blocks.index(block) if block.parent is not None else 0


def _shape(value: Value) -> object:
    type = parse_type(value.type)
    return (type.shape, type.element) if isinstance(type, TensorType) else value.type


def _holds_product(value: Value) -> bool:
    """Whether a value is a product, or one that operations only choose, negate or repeat, without a conversion."""
    op = value.defining_op
    return MulFOp.matches(op) or (op is not None and op.name in _UNROUNDED and any(map(_holds_product, op.operands)))
