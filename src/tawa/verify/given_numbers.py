"""Numbers that no check can compute, but that are the same wherever the program uses them.

    %c = popc(%bits)              a function of integers: inline code on registers, or a tile that is folded
    %n = tt.reduce(load %p)       equal in all partitions that compute it from the same numbers and addresses

    %n = tt.reduce(%floats)       given: any other number that is computed once, outside of the partitions
    warp_specialize(%n) { … }     equal in all partitions, because they get the same value

The checks choose such numbers, like numbers that are loaded from memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable
from dataclasses import dataclass

from tawa.dialects.arith import (
    ConstantOp,
    ExtFOp,
    MaximumFOp,
    MaxNumFOp,
    MinimumFOp,
    MinNumFOp,
    NegFOp,
    SelectOp,
)  # fmt: skip
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.effects import is_plain_load, is_pure
from tawa.dialects.inline.assembly import only_registers, reads_thread
from tawa.dialects.inline.code import INLINE
from tawa.dialects.inline.markers import GroupIndexOp, SameNumberOp
from tawa.dialects.scalars import width_of
from tawa.dialects.scf import CONTROL, LOOPS
from tawa.dialects.tt import LoadOp, ReduceOp, ScanOp
from tawa.dialects.ttg import ConvertLayoutOp, WarpSpecializeOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Operation, Value

_FLOATS = ("f", "bf", "tf", "tensor<")
_EXACT = op_names(
    MaxNumFOp, MaximumFOp, MinNumFOp, MinimumFOp, SelectOp, ConstantOp, NegFOp, ExtFOp, ReduceOp, ScanOp
)  # fmt: skip
"""Operations on floats that do not round, and the folds themselves."""
_REPEATED = LOOPS | op_names(WarpSpecializeOp, GroupOp)
"""What runs an operation more than once: in each iteration, or in each partition."""


def given_numbers(ops: Iterable[Operation]) -> dict[Operation, str]:
    """The operations that compute given numbers, in textual order, each with a name."""
    found = [op for op in ops if _gives_number(op)]
    return {op: f"given {at}" for at, op in enumerate(found)}


@dataclass(frozen=True, slots=True)
class Function:
    """A function of integers and pointers: equal names on equal inputs give equal results.

    The name of one that reads memory starts with ``tt.load``.
    """

    name: str
    inputs: tuple[Value, ...]


def function_of(op: Operation, changing: Container[Operation] = ()) -> Function | None:
    """The function that `op` computes, by inline code or from tiles; None if it is not the same wherever it runs.

    changing: the loads of memory that may change (`changing_loads`).
    """
    if len(op.results) != 1 or op.result.type == "i1" or width_of(op.result.type) is None or not is_pure(op):
        return None
    if op.name not in INLINE and not any(_is_tile(operand) for operand in op.operands):
        return None
    found = _Expression(changing)
    found.operation(op)
    if not found.known:
        return None
    name = hashlib.sha256(" ".join(found.words).encode()).hexdigest()[:8]
    return Function(f"{LoadOp.NAME} {name}" if found.reads else name, tuple(found.inputs))


class _Expression:
    """The expression tree of a number, as text without layouts, down to integers and pointers."""

    def __init__(self, changing: Container[Operation]) -> None:
        self.changing = changing
        self.words: list[str] = []
        self.inputs: dict[Value, int] = {}
        self.places: dict[Value, int] = {}
        self.known = True
        self.reads = False

    def value(self, value: Value) -> None:
        op = value.defining_op
        if value in self.places:
            self.words.append(f"#{self.places[value]}")
        elif width_of(value.type) is not None or value.type.startswith("!tt.ptr"):
            self.words.append(f"${self.inputs.setdefault(value, len(self.inputs))}")
        elif op is None or op.name in CONTROL:
            self.known = False  # a tile that a loop carries
        elif convert := ConvertLayoutOp.of(op):
            self.value(convert.source)
        else:
            self.places[value] = len(self.places)
            self.operation(op)

    def operation(self, op: Operation) -> None:
        load = LoadOp.of(op)
        self.known &= is_pure(op) or (is_plain_load(op) and op not in self.changing)
        self.known &= load is None or not load.partial
        self.reads |= load is not None
        self.known &= not any(_rounds(inner) for inner in op.walk()) if op.regions else True
        if op.name in INLINE:
            self.known &= not (GroupIndexOp.matches(op) or SameNumberOp.matches(op) or reads_thread(op))
            self.known &= only_registers(op)
        types = [result.type.partition(", #")[0] for result in op.results]
        self.words.append(f"({op.name} {_without_layouts(op)} {types} {self._region_text(op)}")
        for operand in op.operands if self.known else ():
            self.value(operand)
        self.words.append(")")

    def _region_text(self, op: Operation) -> str:
        """The operations inside of a reduction, with their operands by number; of what is outside, constants only."""
        numbers: dict[Value, object] = {}
        words: list[str] = []
        for region in op.regions:
            for block in region.blocks:
                numbers.update((arg, len(numbers)) for arg in block.args)
                for inner in block.ops:
                    for operand in inner.operands:
                        outer = operand.defining_op
                        if operand not in numbers:
                            self.known &= outer is not None and ConstantOp.matches(outer)
                            numbers[operand] = str(outer.properties) if outer is not None else ""
                    inputs = [numbers[operand] for operand in inner.operands]
                    types = [result.type for result in inner.results]
                    words.append(f"{inner.name}{inputs}{sorted(inner.properties.items())}{types}")
                    numbers.update((result, len(numbers)) for result in inner.results)
        return " ".join(words)


def _rounds(op: Operation) -> bool:
    """Whether a fold with `op` inside depends on the order of its elements, which differs between layouts."""
    return any(it.type.startswith(_FLOATS) for it in op.results) and op.name not in _EXACT


def _without_layouts(op: Operation) -> list[tuple[str, str]]:
    return [(name, text.partition(" : tensor<")[0]) for name, text in sorted(op.properties.items())]


def _is_tile(value: Value) -> bool:
    return value.type.startswith("tensor<")


def _gives_number(op: Operation) -> bool:
    """Whether `op` defines an integer, equal in all threads, that depends on more than integers; flags are left out."""
    if op.name in CONTROL or op.name in INLINE or len(op.results) != 1 or op.result.type == "i1":
        return False
    if width_of(op.result.type) is None or not is_pure(op):
        return False
    unread = any(width_of(operand.type) is None for operand in op.operands)
    return unread and function_of(op) is None and not any(outer.name in _REPEATED for outer in op.ancestors())
