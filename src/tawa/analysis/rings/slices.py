"""Backward slices: the part of the function that a partition needs.

A slice contains its roots, the operations that they depend on, and the control flow around them: loops and branches
with their bounds and conditions, and those loop-carried values that are used. This is aggressive dead-code elimination
with the partition's roots as the only live operations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tawa.dialects.control_flow import deciding, holder_of, incoming, loop_carried
from tawa.dialects.scf import CONTROL, WhileOp
from tawa.ir import Block, Operation, Value


@dataclass(slots=True, eq=False)
class SliceInfo:
    """The live operations, and for each live loop or branch the indices of the results it keeps.

    inits: for each live `scf.while` the indices of its loop-carried values; its results are a separate list.
    same: values that the slice takes from another source.
    """

    ops: set[Operation] = field(default_factory=set[Operation])
    kept: dict[Operation, set[int]] = field(default_factory=dict[Operation, set[int]])
    inits: dict[Operation, set[int]] = field(default_factory=dict[Operation, set[int]])
    same: Mapping[Value, Value] = field(default_factory=dict[Value, Value])

    def __contains__(self, op: Operation) -> bool:
        return op in self.ops

    def kept_indices(self, op: Operation) -> list[int]:
        """The indices of the loop-carried values or results of `op` that the slice keeps, in order."""
        return sorted(self.kept.get(op, ()))

    def taken_from(self, op: Operation) -> list[Value]:
        """The values that the slice takes from a result of `op`."""
        return [value for value, source in self.same.items() if source.owner is op]

    def kept_inits(self, op: Operation) -> list[int]:
        """The indices of the initial values of an `scf.while` that the slice keeps, in order."""
        return sorted(self.inits.get(op, ()))


def slice_from(
    roots: Iterable[Operation],
    function: Operation,
    guards: Collection[Operation] = (),
    values: Iterable[Value] = (),
    given: Collection[Value] = (),
    same: Mapping[Value, Value] | None = None,
) -> SliceInfo:
    """The slice of `function` that `roots` and `values` need. Operations nested in a root belong to it.

    guards: branches around the roots that are left out of the slice together with their conditions.
    given: values that exist already; what they are computed from is left out.
    same: values that the slice takes from another source (`tawa.analysis.rings.sent_numbers.received`).
    """
    walker = _Walker(function, guards, given, same or {})
    for root in roots:
        walker.op(root)
    walker.work += values
    walker.drain()
    return walker.slice


class _Walker:
    def __init__(
        self,
        function: Operation,
        guards: Collection[Operation],
        given: Collection[Value],
        same: Mapping[Value, Value],
    ) -> None:
        self.around = {function, *guards}
        self.function = function
        self.slice = SliceInfo(same=same)
        self.work: list[Value] = []
        self.done: set[Value] = set(given)

    def drain(self) -> None:
        while self.work:
            value = self.work.pop()
            value = self.slice.same.get(value, value)
            if value not in self.done:
                self.done.add(value)
                self.value(value)

    def value(self, value: Value) -> None:
        owner, holder = value.owner, holder_of(value)
        if holder is None or (holder is self.function and isinstance(owner, Block)):
            return
        self.op(holder)
        sources = incoming(value) if holder.name in CONTROL else []
        if sources:
            repeat = WhileOp.of(holder)
            kept = self.slice.inits if repeat and owner is repeat.before else self.slice.kept
            carried = loop_carried(value)
            kept.setdefault(holder, set()).add(carried.index if carried else value.index)
            self.work += [use.value for use in sources]

    def op(self, op: Operation) -> None:
        if op in self.around or op in self.slice.ops:
            return
        self.slice.ops.add(op)
        for outer in op.ancestors():
            if outer is self.function:
                break
            self.op(outer)
        if op.name in CONTROL:
            self.work += [use.value for use in deciding(op)]
        else:
            self.work += op.operands
            for region in op.regions:
                for block in region.blocks:
                    for nested in block.ops:
                        self.op(nested)
