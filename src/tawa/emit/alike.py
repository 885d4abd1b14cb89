"""Partitions that are equal up to integer constants: consumer groups, each with its own rows.

    consumer0:  rows = first + arange(0, 64)              def consumer(…, offset: gl.constexpr):
    consumer1:  rows = first + (arange(0, 64) + 64)           rows = first + (arange(0, 64) + offset)

Operations with effects are compared in order, and what they use as expressions. `x` counts as `x + 0`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tawa.dialects import arith, ttg
from tawa.dialects.declare.declaration import op_names
from tawa.emit.rings.recognised import advances_of, opposite
from tawa.emit.values.expressions import UNSIGNED
from tawa.emit.values.pure import PURE
from tawa.ir import Block, Operation, Value

_ENDS = op_names(ttg.WarpYieldOp, ttg.WarpReturnOp)


@dataclass
class Alike:
    """How a partition differs from the one that is written.

    values: of this partition, by those of the written one. numbers: constants in place of those of the written one, by
    operation and number of the operand.
    """

    values: dict[Value, Value] = field(default_factory=dict[Value, Value])
    numbers: dict[tuple[Operation, int], str] = field(default_factory=dict[tuple[Operation, int], str])


def compare(written: Block, other: Block) -> Alike | None:
    """How `other` differs from `written`; None if by more than integer constants and captured values."""
    found = _Comparison(written, other)
    return found.found if found.blocks(written, other) else None


class _Comparison:
    def __init__(self, written: Block, other: Block) -> None:
        self.written, self.other = written, other
        self.found = Alike()

    def blocks(self, written: Block, other: Block) -> bool:
        """Whether two blocks have the same effects."""
        one, two = ([it for it in block.ops if it.name not in PURE] for block in (written, other))
        return len(one) == len(two) and all(self.operations(*it) for it in zip(one, two, strict=True))

    def operations(self, one: Operation, two: Operation) -> bool:
        """Whether two operations with effects are the same."""
        if one.name in _ENDS:
            return two.name in _ENDS
        if not _same_kind(one, two) or not self.operands(one, two):
            return False
        for region, mine in zip(one.regions, two.regions, strict=True):
            for block, counterpart in zip(region.blocks, mine.blocks, strict=True):
                self.found.values.update(zip(block.args, counterpart.args, strict=True))
                if not self.blocks(block, counterpart):
                    return False
        self.found.values.update(zip(one.results, two.results, strict=True))
        return True

    def operands(self, one: Operation, two: Operation) -> bool:
        """Whether the operands of two operations are the same, up to constants."""
        if len(one.operands) != len(two.operands):
            return False
        for index, (first, second) in enumerate(zip(one.operands, two.operands, strict=True)):
            number = _constant(first), _constant(second)
            if first not in self.found.values and number[0] and number[1] and first.type == second.type:
                if number[0] != number[1]:
                    if not _whole(first) or _unsigned(one) or _recognised(one):
                        return False
                    self.found.numbers[one, index] = number[1]
            elif not self.same(first, second):
                return False
        return True

    def same(self, first: Value, second: Value) -> bool:
        """Whether two values are computed by the same expression, up to constants."""
        if first in self.found.values:
            return self.found.values[first] is second
        one, two = first.defining_op, second.defining_op
        if first.type != second.type:
            return False
        if not _in(first, self.written) or one is None:
            return self.given(first, second)
        before = Alike(dict(self.found.values), dict(self.found.numbers))
        same_kind = two is not None and one.name in PURE and _same_kind(one, two)
        if two is not None and same_kind and _same_regions(one, two) and self.operands(one, two):
            self.found.values[first] = second
            return True
        self.found = before
        if not arith.AddIOp.matches(one) or not _constant(one.operands[1]) or not self.same(one.operands[0], second):
            return False
        self.found.numbers[one, 1] = _zero(one.operands[1])
        self.found.values[first] = second
        return True

    def given(self, first: Value, second: Value) -> bool:
        """Whether both are values that the partitions capture from the kernel."""
        if first.defining_op is None and _in(first, self.written) and first.owner is not self.written:
            return False
        outside = second.owner is self.other or not _in(second, self.other)
        if outside:
            self.found.values[first] = second
        return outside


def _same_kind(one: Operation, two: Operation) -> bool:
    return (
        one.name == two.name
        and one.properties == two.properties
        and one.attributes == two.attributes
        and [it.type for it in one.results] == [it.type for it in two.results]
        and [len(it.blocks) for it in one.regions] == [len(it.blocks) for it in two.regions]
    )


def _same_regions(one: Operation, two: Operation) -> bool:
    """Whether the combine functions of two reductions are the same."""
    said = [
        [(it.name, it.properties) for region in op.regions for block in region.blocks for it in block.ops]
        for op in (one, two)
    ]
    return said[0] == said[1]


def _constant(value: Value) -> str:
    op = value.defining_op
    return op.properties["value"] if op is not None and arith.ConstantOp.matches(op) else ""


def _whole(value: Value) -> bool:
    """Whether a constant is an integer, or a tile of one."""
    element = value.type.removeprefix("tensor<").partition(",")[0].rpartition("x")[2]
    return element.startswith("i") and element not in ("i1",)


def _unsigned(op: Operation) -> bool:
    return op.name in UNSIGNED or (arith.CmpIOp.matches(op) and arith.CmpIOp(op).predicate.is_unsigned)


def _recognised(op: Operation) -> bool:
    """Whether constants of an operation decide what it becomes: the other parity, or the step to the next place."""
    steps = advances_of(op.parent) if op.parent is not None else ()
    return (len(op.results) == 1 and opposite(op.result) is not None) or any(op in step.ops for step in steps)


def _zero(value: Value) -> str:
    text = _constant(value)
    return f"dense<0>{text.partition('>')[2]}" if text.startswith("dense<") else f"0 :{text.partition(':')[2]}"


def _in(value: Value, block: Block) -> bool:
    """Whether a value belongs to a block or to one in it."""
    owner = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while owner is not None and owner is not block:
        owner = owner.parent_op.parent if owner.parent_op is not None else None
    return owner is block


def parameters_of(written: Block, alike: Sequence[Alike]) -> Mapping[tuple[str, ...], list[tuple[Operation, int]]]:
    """The operands that are parameters, by their constants: in the written partition, then in each other one."""
    places = {place for it in alike for place in it.numbers}
    found: dict[tuple[str, ...], list[tuple[Operation, int]]] = {}
    for op in (inner for outer in written.ops for inner in outer.walk()):
        for index, operand in enumerate(op.operands):
            if (op, index) in places:
                own = _constant(operand)
                values = (own, *(it.numbers.get((op, index), own) for it in alike))
                found.setdefault(tuple(map(_number, values)), []).append((op, index))
    return found


def _number(text: str) -> str:
    """The number of a constant."""
    return text.removeprefix("dense<").split(" :")[0].split(">")[0].strip()
