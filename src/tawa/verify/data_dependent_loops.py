"""Data-dependent loops: a `while` whose condition depends on a value that every iteration loads.

    while block >= 0:            the check chooses its trip count: 0, 1, 2, …
        …                        (choosing each loaded value would not terminate, and most choices give the same run)
        block = load(list + i)

    end = load(ends + group)     likewise, if the caller asks for it: a value loaded outside the loop ends it
    while tile < end: …

    while tile < tiles:          likewise: the result of an atomic, or a number that comes out of a ring, ends it
        …
        tile = atomic_add(counter, 1)

All partitions read the same memory. Therefore loops with equal conditions have equal trip counts in all partitions.
Conditions are equal if the same operations compute them from the same arguments. The result of an atomic is the same
only where one partition sends it to another (`tawa.verify.crossed_numbers`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from tawa.dialects.control_flow import deciding, holder_of, incoming
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.inline.markers import SameNumberOp
from tawa.dialects.scf import CONTROL, WhileOp
from tawa.dialects.tt import INLINE, AddPtrOp, FuncOp, GetNumProgramsOp, GetProgramIdOp, LoadOp
from tawa.ir import Operation, Value
from tawa.verify.crossed_numbers import NONE_CROSSED, CrossedNumbers
from tawa.verify.given_numbers import function_of

PREFIX = "trips of while "
"""Prefix of the names of these trip counts."""
BY_ATOMICS = "ended by atomics "
"""Prefix of the keys of loops whose conditions load nothing from memory."""
_SCALAR = op_names(LoadOp, AddPtrOp, GetProgramIdOp, GetNumProgramsOp)


def loops_ended_by_memory(
    ops: Iterable[Operation], anywhere: bool = False, crossed: CrossedNumbers = NONE_CROSSED
) -> dict[Operation, str]:
    """The data-dependent loops, each with a key of its condition: loops with the same key have equal trip counts.

    anywhere: also accept loads outside the loop. crossed: the numbers that cross in rings.
    """
    found: dict[Operation, str] = {}
    for op in ops:
        if WhileOp.of(op):
            condition = _Condition(anywhere, crossed)
            text = condition.text(op)
            if text is not None:
                kind = "" if condition.loads else BY_ATOMICS
                found[op] = f"{kind}{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return found


def decided_by(value: Value, crossed: CrossedNumbers = NONE_CROSSED) -> str | None:
    """The computation of a scalar as text. Equal texts, at corresponding points of equal loops, are equal scalars.

    crossed: the numbers that cross in rings. None if an operand of the computation is not modelled.
    """
    condition = _Condition(True, crossed)
    number = condition.add(value)
    return f"{number} of {' '.join(condition.words)}" if condition.known else None


class _Condition:
    """One walk from the condition of a loop to its operands. Each distinct expression gets a number, in walking order.

    Expressions of the same operands are one, whichever partition computes them; values that a loop or branch carries
    are distinct.
    """

    def __init__(self, anywhere: bool, crossed: CrossedNumbers) -> None:
        self.anywhere = anywhere
        self.crossed = crossed
        self.carried: dict[Value, int] = {}
        self.numbers: dict[str, int] = {}
        self.words: list[str] = []
        self.reads = self.loads = False
        self.known = True

    def text(self, loop: Operation) -> str | None:
        """The condition of `loop` as text; None if it loads nothing, or if an operand is not modelled."""
        self.add(deciding(loop)[0].value, loop)
        return " ".join(self.words) if self.known and self.reads else None

    def add(self, value: Value, loop: Operation | None = None) -> int:
        """Serialises a value; returns its number. loop: loads count only inside it, unless `anywhere` is set."""
        while (holder := holder_of(value)) is None or holder.name not in CONTROL:
            sources = incoming(value)
            if len(sources) != 1:
                break
            value = sources[0].value  # a capture of a partition
        if value in self.crossed.sources:
            op = value.defining_op
            self.reads |= self.anywhere or (loop is not None and op is not None and loop.is_ancestor_of(op))
            return self.add(self.crossed.sources[value], loop)
        if holder is not None and holder.name in CONTROL:
            return self._carried_value(value, holder, loop)
        if value.defining_op is not None:
            return self._computed(value, value.defining_op, loop)
        self.known &= holder is not None and holder.name == FuncOp.NAME
        return self._number(f"argument {value.index}")

    def _number(self, expression: str) -> int:
        if expression not in self.numbers:
            self.numbers[expression] = len(self.words)
            self.words.append(expression)
        return self.numbers[expression]

    def _carried_value(self, value: Value, holder: Operation, loop: Operation | None) -> int:
        """Serialises a block argument or result of a loop or branch: what controls it, and the possible sources."""
        if value in self.carried:
            return self.carried[value]
        sources = incoming(value)
        role = "result" if value.defining_op is not None else "argument" if sources else "induction"
        number = self.carried[value] = len(self.words)
        self.words.append("")
        operands = [self.add(use.value, loop) for use in (*deciding(holder), *sources)]
        self.words[number] = f"({holder.name} {role} {operands})"
        return number

    def _computed(self, value: Value, op: Operation, loop: Operation | None) -> int:
        if op in self.crossed.atomics:
            self.reads |= self.anywhere or (loop is not None and loop.is_ancestor_of(op))
            return self._number(f"(atomic {self.crossed.atomics[op]})")
        scalar = op.name.startswith("arith.") or op.name in _SCALAR or SameNumberOp.matches(op) or _is_inline(op)
        self.known &= scalar and not op.regions and not any("tensor<" in it.type for it in (*op.operands, *op.results))
        self.loads |= op.name == LoadOp.NAME
        self.reads |= op.name == LoadOp.NAME and (self.anywhere or (loop is not None and loop.is_ancestor_of(op)))
        properties = "" if op.name == LoadOp.NAME else str(sorted(op.properties.items()))
        operands = [self.add(operand, loop) for operand in op.operands] if self.known else []
        return self._number(f"({op.name} {properties} {operands} {value.index})")


def _is_inline(op: Operation) -> bool:
    return op.name in INLINE and function_of(op) is not None
