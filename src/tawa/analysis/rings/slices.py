"""Slices: what a partition needs of the whole function.

A slice starts from roots and takes in, backwards, what they are computed from, together with the control flow around
them: loops and branches with their bounds and conditions, and of what a loop carries only the values somebody needs.
This is aggressive dead-code elimination with the partition's roots as the only live operations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from tawa.dialects.scf import ForOp, IfOp, WhileOp
from tawa.ir import Block, Operation, Value


@dataclass(slots=True, eq=False)
class SliceInfo:
    """The live operations, and for each live loop or branch the indices of the results it keeps.

    inits: for each live `while` the indices of what it begins with and goes on with; its results are another list.
    """

    ops: set[Operation] = field(default_factory=set[Operation])
    kept: dict[Operation, set[int]] = field(default_factory=dict[Operation, set[int]])
    inits: dict[Operation, set[int]] = field(default_factory=dict[Operation, set[int]])

    def __contains__(self, op: Operation) -> bool:
        return op in self.ops

    def kept_indices(self, op: Operation) -> list[int]:
        """Which carried values or results of `op` the slice keeps, in order."""
        return sorted(self.kept.get(op, ()))

    def kept_inits(self, op: Operation) -> list[int]:
        """Which initial values of a `while` the slice keeps, in order."""
        return sorted(self.inits.get(op, ()))


def slice_from(
    roots: Iterable[Operation],
    function: Operation,
    guards: Collection[Operation] = (),
    values: Iterable[Value] = (),
) -> SliceInfo:
    """The slice of `function` that `roots` and `values` need. Operations nested in a root belong to it.

    guards: branches around roots that are not to be in the slice, nor what they are decided by.
    """
    walker = _Walker(function, guards)
    for root in roots:
        walker.op(root)
    walker.work += values
    walker.drain()
    return walker.slice


class _Walker:
    def __init__(self, function: Operation, guards: Collection[Operation]) -> None:
        self.around = {function, *guards}
        self.function = function
        self.slice = SliceInfo()
        self.work: list[Value] = []
        self.done: set[Value] = set()

    def drain(self) -> None:
        while self.work:
            value = self.work.pop()
            if value not in self.done:
                self.done.add(value)
                self.value(value)

    def value(self, value: Value) -> None:
        owner = value.owner
        if isinstance(owner, Block):
            parent = owner.parent_op
            if parent is None or parent is self.function:
                return
            loop, repeat = ForOp.of(parent), WhileOp.of(parent)
            if loop and value.index > 0:
                self.carried(loop, value.index - 1)
            elif repeat and owner is repeat.before:
                self.begun(repeat, value.index)
            elif repeat:
                self.handed(repeat, value.index)
            else:
                self.op(parent)
            return
        loop, branch, repeat = ForOp.of(owner), IfOp.of(owner), WhileOp.of(owner)
        if loop:
            self.carried(loop, value.index)
        elif branch:
            self.keep(owner, value.index)
            self.work += [block.terminator.operands[value.index] for block in branch.branches]
        elif repeat:
            self.handed(repeat, value.index)
        else:
            self.op(owner)

    def carried(self, loop: ForOp, index: int) -> None:
        if self.keep(loop.op, index):
            self.work += [loop.inits[index], loop.yielded[index]]

    def handed(self, repeat: WhileOp, index: int) -> None:
        """What the deciding half of a `while` hands to the working half, and at last to what is behind."""
        if self.keep(repeat.op, index):
            self.work.append(repeat.before.terminator.operands[1 + index])

    def begun(self, repeat: WhileOp, index: int) -> None:
        """What the deciding half is given, at first and then by the working half."""
        self.op(repeat.op)
        inits = self.slice.inits.setdefault(repeat.op, set())
        if index not in inits:
            inits.add(index)
            self.work += [repeat.op.operands[index], repeat.after.terminator.operands[index]]

    def keep(self, op: Operation, index: int) -> bool:
        self.op(op)
        kept = self.slice.kept.setdefault(op, set())
        if index in kept:
            return False
        kept.add(index)
        return True

    def op(self, op: Operation) -> None:
        if op in self.around or op in self.slice.ops:
            return
        self.slice.ops.add(op)
        for outer in op.ancestors():
            if outer is self.function:
                break
            self.op(outer)
        loop, branch, repeat = ForOp.of(op), IfOp.of(op), WhileOp.of(op)
        if loop:
            self.work += loop.bounds
        elif branch:
            self.work.append(branch.condition)
        elif repeat:
            self.work.append(repeat.before.terminator.operands[0])
        else:
            self.work += op.operands
            for region in op.regions:
                for block in region.blocks:
                    for nested in block.ops:
                        self.op(nested)
