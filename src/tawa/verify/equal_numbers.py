"""Equal numbers: scalars that two partitions compute alike, although loops or branches carry what they compute with.

    while block >= 0:            →  the condition is the same number in each partition that loads the same blocks
        …
        block = load(list + i)

All partitions read the same memory. Therefore numbers are equal, at corresponding points of equal loops, if the same
operations compute them from the same arguments; comparisons count as the same if they are in `comparisons.one_form`.
The result of an atomic, or a number that a mask leaves undefined, is the same only where one partition sends it to
another (`tawa.verify.crossed_numbers`).
"""

from __future__ import annotations

from tawa.dialects.arith import CmpIOp, ConstantOp
from tawa.dialects.control_flow import deciding, holder_of, incoming
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.inline.markers import SameNumberOp
from tawa.dialects.scalars import scalar_of
from tawa.dialects.scf import CONTROL, LOOPS, ForOp, WhileOp
from tawa.dialects.tt import AddPtrOp, FuncOp, GetNumProgramsOp, GetProgramIdOp, LoadOp
from tawa.ir import Block, Operation, Value
from tawa.verify.comparisons import one_form
from tawa.verify.crossed_numbers import NONE_CROSSED, CrossedNumbers
from tawa.verify.given_numbers import function_of

_SCALAR = op_names(LoadOp, AddPtrOp, GetProgramIdOp, GetNumProgramsOp)


def decided_by(value: Value, crossed: CrossedNumbers = NONE_CROSSED) -> str | None:
    """The computation of a scalar as text. Equal texts, at corresponding points of equal loops, are equal scalars.

    crossed: the numbers that cross in rings. None if an operand of the computation is not modelled.
    """
    text = _Text(crossed)
    number = text.add(value)
    return f"{number} of {' '.join(text.words)}" if text.known else None


class _Text:
    """One walk from a scalar to its operands. Each distinct expression gets a number, in walking order.

    Expressions of the same operands are one, whichever partition computes them; values that a loop or branch carries
    are distinct.
    """

    def __init__(self, crossed: CrossedNumbers) -> None:
        self.crossed = crossed
        self.added: dict[Value, int] = {}
        self.numbers: dict[str, int] = {}
        self.words: list[str] = []
        self.known = True

    def add(self, value: Value) -> int:
        """Serialises a value; returns its number."""
        while (holder := holder_of(value)) is None or holder.name not in CONTROL:
            sources = incoming(value)
            if len(sources) != 1:
                break
            value = sources[0].value  # a capture of a partition
        if value not in self.added:
            self.added[value] = self._added(value, holder)
        return self.added[value]

    def _added(self, value: Value, holder: Operation | None) -> int:
        if value in self.crossed.sources:
            return self.add(self.crossed.sources[value])
        if holder is not None and holder.name in CONTROL:
            return self._carried_value(value, holder, [])
        if value.defining_op is not None:
            chain = _chain_of_condition(value)
            if chain is not None:
                carried, loop, ops = chain
                return self._carried_value(carried, loop, ops)
            return self._computed(value.defining_op, value.index)
        self.known &= holder is not None and holder.name == FuncOp.NAME and not incoming(value)
        return self._number(f"argument {value.index}")

    def _number(self, expression: str) -> int:
        if expression not in self.numbers:
            self.numbers[expression] = len(self.words)
            self.words.append(expression)
        return self.numbers[expression]

    def _carried_value(self, value: Value, holder: Operation, ops: list[Operation]) -> int:
        """Serialises what operations make of a block argument or result of a loop or branch.

        That is: what controls the loop or branch, and what they make of each source. A loop is told apart from others
        with the same bounds by the number of loops around it.
        """
        of = ops[-1].result if ops else value
        sources = incoming(value)
        role = "result" if value.defining_op is not None else "argument" if sources else "induction"
        number = self.added[of] = len(self.words)
        self.words.append("")
        operands = [self.add(use.value) for use in deciding(holder)]
        for use in sources:
            made = self.add(use.value)
            before = value
            for op in ops:
                made = self._computed(op, 0, {before: made})
                before = op.result
            operands.append(made)
        kind = holder.name
        if kind in LOOPS:
            unsigned = " unsigned" if ForOp.matches(holder) and ForOp(holder).unsigned else ""
            kind += f"{unsigned} {sum(outer.name in LOOPS for outer in holder.ancestors())}"
        self.words[number] = f"({kind} {role} {operands})"
        return number

    def _computed(self, op: Operation, index: int, made: dict[Value, int] | None = None) -> int:
        """Serialises an operation. made: the numbers of operands."""
        if op in self.crossed.atomics:
            return self._number(f"(atomic {self.crossed.atomics[op]})")
        if (function := function_of(op, self.crossed.atomics)) is not None:
            inputs = [self._operand(it, made or {}) for it in function.inputs]
            return self._number(f"({function.name} {inputs})")
        scalar = op.name.startswith("arith.") or op.name in _SCALAR or SameNumberOp.matches(op)
        self.known &= scalar and not op.regions and not any("tensor<" in it.type for it in (*op.operands, *op.results))
        undefined = f"undefined {self.crossed.undefined[op]}" if op in self.crossed.undefined else ""
        properties = undefined if op.name == LoadOp.NAME else str(sorted(op.properties.items()))
        operands: list[object] = list(op.operands) if self.known else []
        if CmpIOp.matches(op) and self.known and op.operands[0].type != "i1":
            constants = [_constant_of(it) for it in op.operands]
            known = [it if constant is None else constant for it, constant in zip(operands, constants, strict=True)]
            predicate, *operands = one_form(CmpIOp(op).predicate, *known)
            properties = str(predicate)
        texts = [self._operand(it, made or {}) for it in operands]
        return self._number(f"({op.name} {properties} {texts} {index} {op.results[index].type})")

    def _operand(self, operand: object, made: dict[Value, int]) -> str:
        """The number of an operand, or a constant."""
        if not isinstance(operand, Value):
            return f"constant {operand}"
        return str(made[operand] if operand in made else self.add(operand))


def _constant_of(value: Value) -> int | None:
    op = value.defining_op
    function = scalar_of(op) if op is not None and ConstantOp.matches(op) else None
    return None if function is None else function()


def _chain_of_condition(value: Value) -> tuple[Value, Operation, list[Operation]] | None:
    """For the condition of a while, the carried value that operations with constants compute it from; else None.

    So a loop that carries a flag is one that carries the number which the flag is computed from.
    """
    op = value.defining_op
    loop = op.parent.parent_op if op is not None and op.parent is not None else None
    if loop is None or not WhileOp.matches(loop) or deciding(loop)[0].value is not value:
        return None
    ops: list[Operation] = []
    while (op := value.defining_op) is not None and op.name.startswith("arith.") and len(op.results) == 1:
        varying = [it for it in op.operands if _constant_of(it) is None]
        if len(varying) != 1:
            return None
        ops.insert(0, op)
        value = varying[0]
    is_carried = ops and isinstance(value.owner, Block) and value.owner.parent_op is loop
    return (value, loop, ops) if is_carried else None
