"""Corrections: accumulators that a partition of its own may rewrite, because it needs only vectors from other threads.

    for k, acc:
      %s = dot %q, %k                           a dot of other results: scores
      %f = … %s                                 a vector: the factor of each row
      %acc' = mulf %acc, (broadcast %f)         the rewrite
      %acc = dot %p, %v, %acc'                  the accumulator
    store divf %acc, (broadcast %l)

What is computed from an accumulator must feed no dot but those that add to it, no loop bound and no condition. All else
that enters the computation must follow from vectors, or from numbers that every partition can compute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from tawa.analysis.dims.dependents import dependent_values
from tawa.dialects.aref import GetOp
from tawa.dialects.control_flow import incoming
from tawa.dialects.effects import is_pure
from tawa.dialects.scf import ForOp, IfOp, YieldOp
from tawa.dialects.tcgen05 import ACCUMULATOR
from tawa.dialects.tt import FuncOp, ReduceOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Block, MemDescType, Module, Operation, TensorType, Value, parse_type
from tawa.machine.classes import DOTS

FEEDS_A_DOT = "a dot reads what is computed from the accumulator"
DECIDES = "a loop, a branch or a value in a loop follows from the accumulator"
NEEDS_A_TILE = "the accumulator is rewritten with more than vectors of other results"
NOT_REWRITTEN = "no accumulator is rewritten in a loop with vectors of other results"
VECTOR_SLOT = "#vector"
"""The alias of the layout of a vector in a slot."""


@dataclass(slots=True)
class CorrectionInfo:
    """Accumulators that one partition may rewrite. dots: those that add to them. ops: what is computed from them.

    values: the tiles of both. other: the values that follow from other dots, or from slots of rings.
    """

    dots: list[Operation] = field(default_factory=list[Operation])
    ops: list[Operation] = field(default_factory=list[Operation])
    values: set[Value] = field(default_factory=set[Value])
    other: set[Value] = field(default_factory=set[Value])

    def vectors(self, value: Value) -> list[Value] | None:
        """The vectors of other results that an operand of these operations follows from; None if it needs more."""
        if value in self.values or value not in self.other:
            return []
        type, op = parse_type(value.type), value.defining_op
        if isinstance(type, TensorType) and len(type.shape) == 1:
            return [value]
        if op is None or op.regions or not is_pure(op) or op.name in DOTS:
            return None
        if not any(it in self.other for it in op.operands):
            return None  # where the other results come from
        found = [self.vectors(operand) for operand in op.operands]
        return None if None in found else [it for each in found for it in each or ()]

    def sent(self) -> dict[tuple[Block, Value], tuple[MemDescType, int]]:
        """The vectors that each block needs of other results; of each the type of a slot, and its place among these.

        Vectors of one type and place, of different blocks, go through one ring.
        """
        found: dict[tuple[Block, Value], tuple[MemDescType, int]] = {}
        places: Counter[tuple[Block, MemDescType]] = Counter()
        for op in self.ops:
            block = op.parent
            for vector in dict.fromkeys(it for operand in op.operands for it in self.vectors(operand) or ()):
                kind = parse_type(vector.type)
                assert block is not None and isinstance(kind, TensorType)
                slot = MemDescType(kind.shape, kind.element, VECTOR_SLOT, mutable=True)
                if (block, vector) not in found:
                    found[block, vector] = slot, places[block, slot]
                    places[block, slot] += 1
        return found

    def slots(self) -> list[MemDescType]:
        """The type of a slot of each ring of vectors."""
        return [slot for slot, _ in dict.fromkeys(self.sent().values())]


def find_correction(module: Module, moved: Collection[Operation] = ()) -> CorrectionInfo | str:
    """The accumulators that a correction partition can rescale, or the reason why it can rescale none.

    moved: the loads that the producer makes.
    """
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    dots = [op for op in function.op.walk() if WarpGroupDotOp.matches(op) and ACCUMULATOR in op.attributes]
    rewritten = [dot for dot in dots if _is_rewritten(dot)]
    found = CorrectionInfo()
    if not rewritten:
        return NOT_REWRITTEN
    reason = _follow(found, rewritten)
    while not reason:  # a dot whose result is rewritten later belongs to them
        before = [dot for dot in dots if dot not in found.dots and _adds_to(found, dot)]
        if not before:
            break
        reason = _follow(found, before)
    if reason:
        return reason
    found.other = dependent_values(
        function.body, lambda op: (op.name in DOTS and op not in found.dots) or op in moved or GetOp.matches(op)
    )
    order = {op: place for place, op in enumerate(function.op.walk())}
    found.ops.sort(key=order.__getitem__)
    taken = [found.vectors(operand) for op in found.ops for operand in op.operands]
    starts = [use.value for it in found.values for use in incoming(it)] + [
        WarpGroupDotOp(dot).accumulator for dot in found.dots
    ]
    if None in taken or any(it in found.other and it not in found.values for it in starts):
        return NEEDS_A_TILE
    return found if any(taken) else NOT_REWRITTEN


def _is_rewritten(dot: Operation) -> bool:
    """Whether the accumulator of a dot in a loop is computed there, by no dot."""
    made = WarpGroupDotOp(dot).accumulator.defining_op
    loop = ForOp.of(dot.parent.parent_op) if dot.parent else None
    return made is not None and made.name not in DOTS and loop is not None and made.parent is dot.parent


def _adds_to(found: CorrectionInfo, dot: Operation) -> bool:
    """Whether the result of a dot becomes one of the tiles, and feeds no other dot."""
    one = CorrectionInfo()
    return not _follow(one, [dot]) and bool(one.values & found.values)


def _follow(found: CorrectionInfo, dots: list[Operation]) -> str:
    """Adds dots, with all that follows from their results; returns the reason if that is impossible, else ""."""
    work: list[Value] = []

    def reach(*values: Value) -> None:
        for value in values:
            if value not in found.values:
                found.values.add(value)
                work.append(value)

    found.dots += dots
    reach(*(dot.result for dot in dots))
    while work:
        for use in work.pop().uses:
            op = use.op
            if WarpGroupDotOp.matches(op):
                if use.index != WarpGroupDotOp.accumulator.index:
                    return FEEDS_A_DOT
                if op not in found.dots:
                    found.dots.append(op)
                reach(op.result)
            elif YieldOp.matches(op) and (outer := op.parent.parent_op if op.parent else None) is not None:
                loop = ForOp.of(outer)
                if loop is None and not IfOp.matches(outer):
                    return DECIDES
                reach(outer.results[use.index], *([loop.iter_args[use.index]] if loop else []))
            elif (loop := ForOp.of(op)) and use.index >= len(loop.bounds):
                reach(loop.iter_args[use.index - len(loop.bounds)], op.results[use.index - len(loop.bounds)])
            elif op.regions and not ReduceOp.matches(op):
                return DECIDES
            elif op not in found.ops:
                found.ops.append(op)
                reach(*op.results)
    return ""
