"""Constant facts about the numbers of a program: values, distances, increments per iteration, bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tawa.dialects import arith
from tawa.dialects.declare.declaration import by_name, op_names
from tawa.dialects.inline.markers import SameNumberOp
from tawa.dialects.scf import ForOp
from tawa.ir import Block, Operation, Value
from tawa.verify.barriers.program.kernel import BarrierProgram

_SAME = op_names(arith.ExtSIOp, arith.ExtUIOp, arith.IndexCastOp, arith.IndexCastUIOp, arith.BitcastOp)


_EXACT: Mapping[str, Callable[[int, int], int]] = by_name(
    {
        arith.AddIOp: lambda one, other: one + other,
        arith.SubIOp: lambda one, other: one - other,
        arith.MulIOp: lambda one, other: one * other,
    }
)
_NO_WRAP = 1 << 31
"""Magnitudes below this do not overflow in 32 bits."""


class Origins:
    """Constant facts about one program."""

    def __init__(self, program: BarrierProgram) -> None:
        self.program = program

    def source(self, value: Value) -> Value:
        """The value behind casts, captures of partitions and rings of numbers."""
        while True:
            value = self.program.crossed.sources.get(value, value)
            op = value.defining_op
            if op is None:
                sources = self.program.carried.get(value, ())
                if len(sources) != 1:
                    return value
                value = sources[0]
            elif op.name in _SAME or SameNumberOp.matches(op):
                value = op.operands[0]
            else:
                return value

    def constant(self, value: Value) -> int | None:
        """The value as a constant, if it folds to one."""
        value = self.source(value)
        if value in self.program.constants:
            return self.program.constants[value]
        op = value.defining_op
        compute = self.program.scalar(op) if op is not None else None
        if op is None or compute is None or not op.operands:
            return compute() if compute is not None else None
        inputs = [self.constant(operand) for operand in op.operands] if op.name.startswith("arith.") else [None]
        return None if None in inputs else compute(*inputs)

    def divisor(self, op: Operation) -> int | None:
        """The constant divisor of a quotient or remainder; of a shift to the right, the power of two."""
        by = self.constant(op.operands[1])
        return 1 << by if by is not None and (arith.ShRSIOp.matches(op) or arith.ShRUIOp.matches(op)) else by

    def distance(self, lower: Value, upper: Value) -> int | None:
        """A constant upper bound of `upper` − `lower`, as for upper = min(…, lower + 128); else None."""
        lower, upper = self.source(lower), self.source(upper)
        if lower is upper or (
            self.program.tree(lower) is not None and self.program.tree(lower) == self.program.tree(upper)
        ):
            return 0
        op = upper.defining_op
        if op is None:
            return None
        if arith.AddIOp.matches(op):
            for value, more in (op.operands, op.operands[::-1]):
                fixed = self.constant(more)
                rest = None if fixed is None else self.distance(lower, value)
                if rest is not None and fixed is not None:
                    return rest + fixed
        if arith.MinSIOp.matches(op) or arith.MinUIOp.matches(op):
            known = [it for it in (self.distance(lower, operand) for operand in op.operands) if it is not None]
            return min(known) if known else None
        return None

    def increment(self, following: Value, arg: Value) -> int | None:
        """The increment of a loop-carried value per iteration, ignoring a reset to another value; else None."""
        following = self.source(following)
        if following is arg:
            return 0
        op = following.defining_op
        if op is None:
            return None
        if arith.AddIOp.matches(op):
            for value, more in (op.operands, op.operands[::-1]):
                if self.source(value) is arg and (by := self.constant(more)) is not None:
                    return by
        if arith.SelectOp.matches(op):
            grows = {self.increment(operand, arg) for operand in op.operands[1:]} - {None, 0}
            return grows.pop() if len(grows) == 1 else None
        return None

    def limits(self, value: Value) -> tuple[int, int] | None:
        """The range of an induction variable whose bounds are constants, inclusive; else None."""
        value = self.source(value)
        loop = value.owner.parent_op if isinstance(value.owner, Block) and value.index == 0 else None
        if loop is None or not ForOp.matches(loop):
            return None
        lower, upper, step = (self.constant(it) for it in loop.operands[:3])
        if lower is None or upper is None or step is None or step < 1:
            return None
        return lower, upper - 1

    def meets(self, value: Value, low: int, high: int | None) -> bool:
        """Whether a number can be in [low, high] (None: unbounded above); conservative."""
        least, most = self.bounds(value)
        return (most is None or most >= low) and (least is None or high is None or least <= high)

    def bounds(self, value: Value, deep: int = 8) -> tuple[int | None, int | None]:
        """The least and the largest possible value of a number; None where unknown.

        min(max(x, 0), 1)  →  0, 1        min(x, 1) // 128  →  None, 0        x % 32  →  -31, 31
        """
        value = self.source(value)
        fixed, op = self.constant(value), value.defining_op
        if fixed is not None:
            return fixed, fixed
        if op is None or not deep or len(op.operands) != 2 or value.type not in ("i32", "i64"):
            return None, None
        (a, b), (c, d) = (self.bounds(operand, deep - 1) for operand in op.operands)
        if arith.MinSIOp.matches(op):
            return _least(a, c), min((it for it in (b, d) if it is not None), default=None)
        if arith.MaxSIOp.matches(op):
            return max((it for it in (a, c) if it is not None), default=None), _most(b, d)
        if arith.DivSIOp.matches(op) and c == d and c is not None and c > 0:
            return (0 if a is not None and a >= 0 else None), (max(b, 0) // c if b is not None else None)
        if (arith.RemSIOp.matches(op) or arith.RemUIOp.matches(op)) and c == d and c is not None and c > 0:
            return (0 if arith.RemUIOp.matches(op) or (a is not None and a >= 0) else 1 - c), c - 1
        compute = _EXACT.get(op.name)
        if compute is None or a is None or b is None or c is None or d is None:
            return None, None
        made = [compute(one, other) for one in (a, b) for other in (c, d)]
        return (min(made), max(made)) if max(abs(it) for it in made) < _NO_WRAP else (None, None)


def _least(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else min(one, other)


def _most(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)
