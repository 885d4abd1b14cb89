"""Lockstep: which values, trip counts and branches are equal in two partitions that are copies of one program.

    consumer0: %g = 0; %n = load %p; for k in range(0, %n) { if %k < %m … }       the loop and the branch: equal
    consumer1: %g = 1; %n = load %p; for k in range(0, %n) { if %k < %m … }       what is computed from %g: not

Two values are equal if the same operation computes them from equal operands. A loop-carried value is equal if its
initial values and its yielded values are equal. Reads of memory count as equal: the producer reads bounds for itself
as well. So does a slot of one ring at equal indices: whoever gets it reads what the producer wrote. The results of
operations with other effects, such as atomics, are not equal.
"""

from __future__ import annotations

from tawa.dialects.aref import GetOp
from tawa.dialects.control_flow import deciding, holder_of, incoming
from tawa.dialects.effects import effects_of
from tawa.dialects.scf import CONTROL
from tawa.ir import Block, Operation, Use, Value


class TwinInfo:
    """Two copies of one program. Call `pair` first.

    Loop-carried cycles are optimistically assumed to be equal until an operand that differs is found.
    """

    def __init__(self) -> None:
        self.twins: dict[Value, Value] = {}
        self.other: dict[Operation, Operation] = {}
        self.known: dict[Value, bool] = {}

    def pair(self, one: Block, other: Block) -> bool:
        """Matches every value with its counterpart; False if the two programs differ in structure."""
        if len(one.ops) != len(other.ops) or len(one.args) != len(other.args):
            return False
        self.twins.update(zip(one.args, other.args, strict=True))
        return all(self._pair(left, right) for left, right in zip(one.ops, other.ops, strict=True))

    def _pair(self, one: Operation, other: Operation) -> bool:
        shapes = [(op.name, len(op.operands), len(op.results), len(op.regions)) for op in (one, other)]
        if shapes[0] != shapes[1]:
            return False
        self.other[one] = other
        self.twins.update(zip(one.results, other.results, strict=True))
        for left, right in zip(one.regions, other.regions, strict=True):
            if len(left.blocks) != len(right.blocks):
                return False
            if not all(self.pair(*blocks) for blocks in zip(left.blocks, right.blocks, strict=True)):
                return False
        return True

    def decides_alike(self, op: Operation) -> bool:
        """Whether a loop has the same trip count, or a branch takes the same side, in both copies."""
        uses = deciding(op)
        return bool(uses) and self._all_same(uses)

    def _all_same(self, uses: list[Use]) -> bool:
        return all(self._same(use.op, use.index) for use in uses)

    def _same(self, op: Operation, index: int) -> bool:
        """Whether an operand is equal in both copies."""
        value, twin = op.operands[index], self.other[op].operands[index]
        if value is twin:
            return True
        if self.twins.get(value) is not twin:
            return False
        if value not in self.known:
            self.known[value] = True
            before = dict(self.known)
            if not self._equal_at_definition(value):
                self.known = before  # drops the results that rested on the assumption that this value is equal
                self.known[value] = False
        return self.known[value]

    def _equal_at_definition(self, value: Value) -> bool:
        owner, holder = value.owner, holder_of(value)
        if holder is None or holder.name not in CONTROL:
            # A block argument of another region, such as a reduction's, stands for many values.
            return isinstance(owner, Operation) and self._computes_equal(owner)
        if isinstance(owner, Operation):
            return self.decides_alike(owner) and self._all_same(incoming(value))
        uses = incoming(value) or [holder.use(0), holder.use(2)]  # an induction variable: the lower bound and the step
        return self._all_same(uses)

    def _computes_equal(self, op: Operation) -> bool:
        """Whether the counterpart of `op` is the same operation on equal operands, and deterministic."""
        other = self.other[op]
        if op.name != GetOp.NAME and any(effect.kind != "read" for effect in effects_of(op)):
            return False
        for left, right in zip(op.walk(), other.walk(), strict=True):
            if left.properties != right.properties or left.attributes != right.attributes:
                return False
            captured = [index for index in range(len(left.operands)) if self._outside(left, index, op)]
            if not all(self._same(left, index) for index in captured):
                return False
        return True

    @staticmethod
    def _outside(op: Operation, index: int, holder: Operation) -> bool:
        """Whether an operand is defined outside of `holder`; nested operations are compared one by one."""
        inside = holder_of(op.operands[index])
        return inside is None or not (inside is holder or holder.is_ancestor_of(inside))
