"""Outcomes that are impossible because of the dominating conditions: enclosing loops and branches taken.

    for i in range(pid, T):
        if pid < T:             always true: the loop has no trip otherwise
    if pid < 32:
        at = pid // 64          always 0

Each comparison is a difference constraint x − y <= c. The constraints that hold at the decision, together with the
outcome in question, are infeasible if they have a negative cycle: they add up to 0 <= c with a negative c.
"""

from __future__ import annotations

from collections.abc import Iterator

from tawa.dialects.arith import (
    AddIOp,
    CmpIOp,
    DivSIOp,
    DivUIOp,
    ExtSIOp,
    FloorDivSIOp,
    IndexCastOp,
    MaxSIOp,
    MinSIOp,
    RemSIOp,
    RemUIOp,
    ShRSIOp,
    ShRUIOp,
    SubIOp,
)
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.scf import ForOp, IfOp
from tawa.ir import Block, Operation, Value
from tawa.ir.attributes import read_int
from tawa.verify.barriers.program.kernel import NUMBER_OPS
from tawa.verify.barriers.program.origins import Origins
from tawa.verify.barriers.program.outcomes import CHOICES, NO, YES

Key = Value | int | None | tuple[object, ...]
"""The key of a number: its expression tree, its shape, or its value; None is 0."""
Difference = tuple[Key, Key, int]
"""x, y, c: x − y <= c."""
_BOUNDED = op_names(MinSIOp, MaxSIOp, AddIOp, SubIOp)
_DIVIDES = op_names(DivSIOp, DivUIOp, FloorDivSIOp, ShRSIOp, ShRUIOp, RemSIOp, RemUIOp)
"""Of a non-negative number, their outcome is YES if, and only if, the number is at least the divisor."""
_KEEPS_SIGN = op_names(ExtSIOp, IndexCastOp)
_UNSIGNED = 6
"""The first unsigned predicate of ``arith.cmpi``."""
_DEEP = 4
"""The nesting depth to which sums, minima and maxima are analysed."""


class Implied:
    """The impossible outcomes of one program."""

    def __init__(self, origins: Origins) -> None:
        self.origins = origins

    def asks_for_trips(self, op: Operation) -> bool:
        """Whether an unsigned comparison is about the distance of a loop's bounds: upper - lower > 128.

        It precedes a loop that is split in two, and tests the trip count, which is tried anyway.
        """
        if not CmpIOp.matches(op) or read_int(op.properties["predicate"]) < _UNSIGNED:
            return False
        apart = {self._number(loop.upper) + self._number(loop.lower) for loop in self._loops()}
        for value, other in (op.operands, op.operands[::-1]):
            made = self._same(value).defining_op
            if made is not None and SubIOp.matches(made) and self.origins.constant(other) is not None:
                upper, lower = made.operands
                if self._number(upper) + self._number(lower) in apart:
                    return True
        return False

    def _loops(self) -> list[ForOp]:
        return [loop for op in self.origins.program.decisions if (loop := ForOp.of(op))]

    def unreachable(self, op: Operation) -> bool:
        """Whether a branch around `op` is provably never taken. False is inconclusive."""
        inside = op
        for outer in op.ancestors():
            if IfOp.matches(outer) and outer not in self.origins.program.guards:
                condition = IfOp(outer).condition.defining_op
                taken = YES if inside.parent is outer.regions[0].block else NO
                if condition is not None and self.excludes(condition, taken, outer):
                    return True
            inside = outer
        return False

    def excludes(self, op: Operation, outcome: int, at: Operation | None = None) -> bool:
        """Whether `op` provably never has this outcome at the point `at` (default: itself). False is inconclusive."""
        at = op if at is None else at
        if outcome in (YES, NO) and self._is_settled(op, outcome, at):
            return True
        asked = list(self._outcome(op, outcome)) if outcome in (YES, NO) else []
        if not asked:
            return False
        known = [*asked, *self._around(at)]
        values = [*op.operands[:2]]
        for outer in at.ancestors():
            if loop := ForOp.of(outer):
                values += (loop.lower, loop.upper)
        for value in values:
            known += self._about(value, _DEEP)
        return _contradict(known)

    def _is_settled(self, op: Operation, outcome: int, at: Operation) -> bool:
        """Whether a branch around `at` tests the same equality and was taken with the opposite outcome."""
        asked = self._equality(op)
        inside = at
        for outer in at.ancestors() if asked is not None else ():
            if IfOp.matches(outer) and outer not in self.origins.program.guards:
                condition = IfOp(outer).condition.defining_op
                known = self._equality(condition) if condition is not None else None
                taken = YES if inside.parent is outer.regions[0].block else NO
                if asked is not None and known is not None and asked[0] == known[0]:
                    return (asked[1] == known[1]) != (outcome == taken)
            inside = outer
        return False

    def _equality(self, op: Operation) -> tuple[frozenset[Difference], bool] | None:
        """Of a test for equality: the difference, in both directions, and whether it is true for equal numbers."""
        if not CmpIOp.matches(op) or read_int(op.properties["predicate"]) > 1:
            return None
        (x, a), (y, b) = (self._number(operand) for operand in op.operands)
        return frozenset({(x, y, b - a), (y, x, a - b)}), read_int(op.properties["predicate"]) == 0

    def _number(self, value: Value) -> tuple[Key, int]:
        """A value as the sum of a key and a constant."""
        more = 0
        while True:
            value = self._same(value)
            fixed = self.origins.constant(value)
            if fixed is not None:
                return None, more + fixed
            op = value.defining_op
            if op is not None and (AddIOp.matches(op) or SubIOp.matches(op)):
                left, right = op.operands
                by = self.origins.constant(right)
                if by is not None:
                    value, more = left, more + (by if AddIOp.matches(op) else -by)
                    continue
                by = self.origins.constant(left) if AddIOp.matches(op) else None
                if by is not None:
                    value, more = right, more + by
                    continue
            tree = self.origins.program.tree(value)
            return (self._shape(value, _DEEP) if tree is None else tree), more

    def _shape(self, value: Value, deep: int) -> Key:
        """A structural key of a value, so that equal computations have equal keys."""
        value = self._same(value)
        fixed, op = self.origins.constant(value), value.defining_op
        if fixed is not None:
            return "constant", fixed
        if op is None or not deep or not op.operands or op.regions or self.origins.program.scalar(op) is None:
            return value
        made = op.name, op.result.type, str(sorted(op.properties.items()))
        return *made, *(self._shape(it, deep - 1) for it in op.operands)

    def _same(self, value: Value) -> Value:
        """The value behind captures of partitions and sign-preserving casts."""
        while True:
            op, sources = value.defining_op, self.origins.program.carried.get(value, ())
            if op is None and len(sources) == 1:
                value = sources[0]
            elif op is not None and op.name in _KEEPS_SIGN and op.operands[0].type != "i1":
                value = op.operands[0]
            else:
                return value

    def _at_most(self, left: Value, right: Value, more: int = 0) -> Difference:
        """The constraint left <= right + more."""
        (x, a), (y, b) = self._number(left), self._number(right)
        return x, y, b - a + more

    def _outcome(self, op: Operation, outcome: int) -> Iterator[Difference]:
        if loop := ForOp.of(op):
            yield self._at_most(loop.lower, loop.upper, -1 if outcome == YES else 0)
        elif op.name in CHOICES and op.name.endswith("si"):
            left, right = op.operands
            yield from self._compared(2, left, right, outcome == YES)
        elif comparison := CmpIOp.of(op):
            yield from self._compared(comparison.predicate, comparison.lhs, comparison.rhs, outcome == YES)
        elif outcome == YES and op.name in _DIVIDES and self._never_negative(op.operands[0]):
            by, (x, more) = self.origins.divisor(op), self._number(op.operands[0])
            if by is not None and by > 0:
                yield None, x, more - by

    def _compared(self, predicate: int, left: Value, right: Value, holds: bool) -> Iterator[Difference]:
        match predicate, holds:
            case (0, True) | (1, False):
                yield self._at_most(left, right)
                yield self._at_most(right, left)
            case (2, True) | (5, False):
                yield self._at_most(left, right, -1)
            case (3, True) | (4, False):
                yield self._at_most(left, right)
            case (4, True) | (3, False):
                yield self._at_most(right, left, -1)
            case (5, True) | (2, False):
                yield self._at_most(right, left)
            case _:  # inequality, or an unsigned comparison
                pass

    def _around(self, op: Operation) -> Iterator[Difference]:
        """The constraints that hold wherever the program reaches `op`."""
        inside = op
        for outer in op.ancestors():
            if loop := ForOp.of(outer):
                yield self._at_most(loop.lower, loop.upper, -1)
                yield self._at_most(loop.lower, loop.induction)
                yield self._at_most(loop.induction, loop.upper, -1)
            elif IfOp.matches(outer) and outer not in self.origins.program.guards:
                condition = IfOp(outer).condition.defining_op
                if condition is not None and CmpIOp.matches(condition):
                    yield from self._outcome(condition, YES if inside.parent is outer.regions[0].block else NO)
            inside = outer

    def _never_negative(self, value: Value) -> bool:
        """Whether a value is a program id, a non-negative constant, or an induction variable that starts at one."""
        value = self._same(value)
        fixed, op = self.origins.constant(value), value.defining_op
        if fixed is not None or op is not None:
            return fixed >= 0 if fixed is not None else op is not None and op.name in NUMBER_OPS
        loop = ForOp.of(value.owner.parent_op) if isinstance(value.owner, Block) and value.index == 0 else None
        return loop is not None and self._never_negative(loop.lower)

    def _about(self, value: Value, deep: int) -> Iterator[Difference]:
        """Constraints from definitions: min(x, y) <= x, max(x, y) >= x, and x + y >= x for a non-negative y."""
        op = self._same(value).defining_op
        if op is None or not deep:
            return
        if MinSIOp.matches(op) or MaxSIOp.matches(op):
            for operand in op.operands:
                yield self._at_most(*((value, operand) if MinSIOp.matches(op) else (operand, value)))
        if AddIOp.matches(op):
            for one, other in (op.operands, op.operands[::-1]):
                if self._never_negative(other):
                    yield self._at_most(one, value)
        if op.name in _BOUNDED:
            for operand in op.operands:
                yield from self._about(operand, deep - 1)


def _contradict(known: list[Difference]) -> bool:
    """Whether the constraints are infeasible: they have a negative cycle (Bellman–Ford)."""
    distances: dict[Key, int] = {}
    for _ in range(len(known) + 1):
        changed = False
        for x, y, most in known:
            reached = distances.get(y, 0) + most
            if reached < distances.get(x, 0):
                distances[x], changed = reached, True
        if not changed:
            return False
    return True
