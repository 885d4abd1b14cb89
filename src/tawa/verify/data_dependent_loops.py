"""Data-dependent loops: a `while` whose condition depends on a value that every iteration loads.

    while block >= 0:            the check chooses its trip count: 0, 1, 2, …
        …                        (choosing each loaded value would not terminate, and most choices give the same run)
        block = load(list + i)

    end = load(ends + group)     likewise, if the caller asks for it: a value loaded outside the loop ends it
    while tile < end: …

All partitions read the same memory. Therefore loops with equal conditions have equal trip counts in all partitions.
Conditions are equal if the same operations compute them from the same arguments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from tawa.dialects.control_flow import deciding, holder_of, incoming
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.scf import CONTROL, WhileOp
from tawa.dialects.tt import INLINE, AddPtrOp, FuncOp, GetNumProgramsOp, GetProgramIdOp, LoadOp, SameNumberOp
from tawa.ir import Operation, Value
from tawa.verify.given_numbers import function_of

PREFIX = "trips of while "
"""Prefix of the names of these trip counts."""
_SCALAR = op_names(LoadOp, AddPtrOp, GetProgramIdOp, GetNumProgramsOp)


def loops_ended_by_memory(ops: Iterable[Operation], anywhere: bool = False) -> dict[Operation, str]:
    """The data-dependent loops, each with a key of its condition: loops with the same key have equal trip counts.

    anywhere: also accept loads outside the loop.
    """
    found: dict[Operation, str] = {}
    for op in ops:
        if WhileOp.of(op):
            text = _Condition(anywhere).text(op)
            if text is not None:
                found[op] = hashlib.sha256(text.encode()).hexdigest()[:8]
    return found


def decided_by(value: Value) -> str | None:
    """The computation of a scalar as text. Equal texts, at corresponding points of equal loops, are equal scalars.

    None if an operand of the computation is not modelled.
    """
    condition = _Condition(anywhere=True)
    condition.add(value)
    return " ".join(condition.words) if condition.known else None


class _Condition:
    """One walk from the condition of a loop to its operands, serialised in the order of the walk."""

    def __init__(self, anywhere: bool) -> None:
        self.anywhere = anywhere
        self.places: dict[Value, int] = {}
        self.words: list[str] = []
        self.reads = False
        self.known = True

    def text(self, loop: Operation) -> str | None:
        """The condition of `loop` as text; None if it loads nothing, or if an operand is not modelled."""
        self.add(deciding(loop)[0].value, loop)
        return " ".join(self.words) if self.known and self.reads else None

    def add(self, value: Value, loop: Operation | None = None) -> None:
        """Serialises a value. loop: loads count only inside it, unless `anywhere` is set."""
        while (holder := holder_of(value)) is None or holder.name not in CONTROL:
            sources = incoming(value)
            if len(sources) != 1:
                break
            value = sources[0].value  # a capture of a partition
        if value in self.places:
            self.words.append(f"#{self.places[value]}")
            return
        self.places[value] = len(self.places)
        if holder is not None and holder.name in CONTROL:
            self._carried_value(value, holder, loop)
        elif value.defining_op is not None:
            self._computed(value.defining_op, loop)
        else:
            self.words.append(f"argument {value.index}")
            self.known &= holder is not None and holder.name == FuncOp.NAME

    def _carried_value(self, value: Value, holder: Operation, loop: Operation | None) -> None:
        """Serialises a block argument or result of a loop or branch: what controls it, and the possible sources."""
        sources = incoming(value)
        role = "result" if value.defining_op is not None else "argument" if sources else "induction"
        self.words.append(f"({holder.name} {role}")
        for use in (*deciding(holder), *sources):
            self.add(use.value, loop)
        self.words.append(")")

    def _computed(self, op: Operation, loop: Operation | None) -> None:
        scalar = op.name.startswith("arith.") or op.name in _SCALAR or SameNumberOp.matches(op) or _is_inline(op)
        self.known &= scalar and not op.regions and not any("tensor<" in it.type for it in (*op.operands, *op.results))
        self.reads |= op.name == LoadOp.NAME and (self.anywhere or (loop is not None and loop.is_ancestor_of(op)))
        properties = "" if op.name == LoadOp.NAME else str(sorted(op.properties.items()))
        self.words.append(f"({op.name} {properties}")
        for operand in op.operands if self.known else ():
            self.add(operand, loop)
        self.words.append(")")


def _is_inline(op: Operation) -> bool:
    return op.name in INLINE and function_of(op) is not None
