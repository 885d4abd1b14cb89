"""Loops that memory ends: a `while` whose condition depends on a number that each trip reads anew.

    while block >= 0:            how often it goes round: chosen as a whole, 0, 1, 2, … trips
        …                        (number by number there would be no end, and most choices would be one run)
        block = load(list + i)

    end = load(ends + group)     the same, where that is asked for: a number that is read around the loop decides it
    while tile < end: …

All partitions read the same memory, so that a loop which is decided in the same way makes as many trips in each. Loops
are decided in the same way where their conditions are computed by the same operations from the same arguments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from tawa.dialects.control_flow import deciding, holder_of, incoming
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.scf import CONTROL, WhileOp
from tawa.dialects.tt import AddPtrOp, FuncOp, GetNumProgramsOp, GetProgramIdOp, LoadOp, SameNumberOp
from tawa.ir import Operation, Value

PREFIX = "trips of while "
"""What the names of such numbers of trips begin with."""
_SCALAR = op_names(LoadOp, AddPtrOp, GetProgramIdOp, GetNumProgramsOp)


def loops_ended_by_memory(ops: Iterable[Operation], anywhere: bool = False) -> dict[Operation, str]:
    """Those loops, each with a name for what decides it: the same for loops that make as many trips.

    anywhere: whether numbers count that are read outside of the loop that they decide.
    """
    found: dict[Operation, str] = {}
    for op in ops:
        if WhileOp.of(op):
            text = _Decision(anywhere).text(op)
            if text is not None:
                found[op] = hashlib.sha256(text.encode()).hexdigest()[:8]
    return found


def decided_by(value: Value) -> str | None:
    """What a number is computed from, as text: equal texts at equal places in equal loops are equal numbers.

    None where something unknown takes part.
    """
    decision = _Decision(anywhere=True)
    decision.add(value)
    return " ".join(decision.words) if decision.known else None


class _Decision:
    """One walk from the condition of a loop to what it is computed from, written down in the order of the walk."""

    def __init__(self, anywhere: bool) -> None:
        self.anywhere = anywhere
        self.places: dict[Value, int] = {}
        self.words: list[str] = []
        self.reads = False
        self.known = True

    def text(self, loop: Operation) -> str | None:
        """What decides `loop`; None where nothing is read for that, or something unknown takes part."""
        self.add(deciding(loop)[0].value, loop)
        return " ".join(self.words) if self.known and self.reads else None

    def add(self, value: Value, loop: Operation | None = None) -> None:
        """Writes down what a value is. loop: the one in which loads count as such, unless they do anywhere."""
        while (holder := holder_of(value)) is None or holder.name not in CONTROL:
            sources = incoming(value)
            if len(sources) != 1:
                break
            value = sources[0].value  # which a partition is given
        if value in self.places:
            self.words.append(f"#{self.places[value]}")
            return
        self.places[value] = len(self.places)
        if holder is not None and holder.name in CONTROL:
            self._handed_on(value, holder, loop)
        elif value.defining_op is not None:
            self._computed(value.defining_op, loop)
        else:
            self.words.append(f"argument {value.index}")
            self.known &= holder is not None and holder.name == FuncOp.NAME

    def _handed_on(self, value: Value, holder: Operation, loop: Operation | None) -> None:
        """What a loop or a branch hands on: one of several values, by what decides the loop or the branch."""
        sources = incoming(value)
        role = "result" if value.defining_op is not None else "argument" if sources else "induction"
        self.words.append(f"({holder.name} {role}")
        for use in (*deciding(holder), *sources):
            self.add(use.value, loop)
        self.words.append(")")

    def _computed(self, op: Operation, loop: Operation | None) -> None:
        scalar = op.name.startswith("arith.") or op.name in _SCALAR or SameNumberOp.matches(op)
        self.known &= scalar and not op.regions and not any("tensor<" in it.type for it in (*op.operands, *op.results))
        self.reads |= op.name == LoadOp.NAME and (self.anywhere or (loop is not None and loop.is_ancestor_of(op)))
        properties = "" if op.name == LoadOp.NAME else str(sorted(op.properties.items()))
        self.words.append(f"({op.name} {properties}")
        for operand in op.operands if self.known else ():
            self.add(operand, loop)
        self.words.append(")")
