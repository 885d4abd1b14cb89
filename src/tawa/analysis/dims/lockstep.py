"""Twins: which values are the same in two partitions that are copies of one program.

    consumer0: %g = 0; %n = load %p; for k in range(0, %n) { if %k < %m … }       the loop and the branch: alike
    consumer1: %g = 1; %n = load %p; for k in range(0, %n) { if %k < %m … }       what is computed from %g: not

Two values are the same when the same operation makes them from the same values; what a loop carries is, when it begins
the same and goes on the same. Reads of memory count as the same: the producer, too, reads bounds for itself.
What an operation with any other effect returns, an atomic's result for one, is not.
"""

from __future__ import annotations

from tawa.dialects.control_flow import deciding, holder_of, incoming
from tawa.dialects.effects import effects_of
from tawa.dialects.scf import CONTROL
from tawa.ir import Block, Operation, Use, Value


class TwinInfo:
    """Two programs of one text; `pair` first. Cycles through loops are the same until something in them is not."""

    def __init__(self) -> None:
        self.twins: dict[Value, Value] = {}
        self.other: dict[Operation, Operation] = {}
        self.known: dict[Value, bool] = {}

    def pair(self, one: Block, other: Block) -> bool:
        """Finds the twin of every value; False where the texts are not of one shape."""
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
        """Whether a loop makes as many trips, or a branch goes the same way, in both groups."""
        uses = deciding(op)
        return bool(uses) and self._all_same(uses)

    def _all_same(self, uses: list[Use]) -> bool:
        return all(self._same(use.op, use.index) for use in uses)

    def _same(self, op: Operation, index: int) -> bool:
        """Whether an operand is the same in both groups."""
        value, twin = op.operands[index], self.other[op].operands[index]
        if value is twin:
            return True
        if self.twins.get(value) is not twin:
            return False
        if value not in self.known:
            self.known[value] = True
            before = dict(self.known)
            if not self._made_alike(value):
                self.known = before  # what was found while this one was taken to be the same is not known
                self.known[value] = False
        return self.known[value]

    def _made_alike(self, value: Value) -> bool:
        owner, holder = value.owner, holder_of(value)
        if holder is None or holder.name not in CONTROL:
            # An argument of another region, such as a reduction's, stands for many values.
            return isinstance(owner, Operation) and self._computed_alike(owner)
        if isinstance(owner, Operation):
            return self.decides_alike(owner) and self._all_same(incoming(value))
        uses = incoming(value) or [holder.use(0), holder.use(2)]  # an induction variable: the lower bound and the step
        return self._all_same(uses)

    def _computed_alike(self, op: Operation) -> bool:
        """The same operation on the same operands, which gives the same whoever executes it."""
        other = self.other[op]
        if any(effect.kind != "read" for effect in effects_of(op)):
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
        """Whether an operand comes from outside `holder`: what is inside was compared operation by operation."""
        inside = holder_of(op.operands[index])
        return inside is None or not (inside is holder or holder.is_ancestor_of(inside))


__all__ = ["TwinInfo"]
