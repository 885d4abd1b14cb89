"""Serve groups: whatever the producer computes from the number of a group, it computes for every group.

    g = group                                     m0 = row + 0; m1 = row + 64
    p = addptr(%a, row + g · 64)                  p0 = addptr(%a, m0); p1 = addptr(%a, m1)
    for … iter p { put q[i] { load p } }    →     for … iter p0, p1 { put q0[i] { load p0 }; put q1[i] { load p1 }
      yield addptr(p, 64)                           yield addptr(p0, 64), addptr(p1, 64) }

The first group takes the places that were there; each further one adds to what loops carry and branches give.
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.dialects.aref import LandedOp, PutOp
from tawa.dialects.scf import ForOp, IfOp
from tawa.dialects.tt import GroupIndexOp
from tawa.ir import Block, Builder, Operation, Value, ValueMap, clone_op


def dependent_values(block: Block) -> set[Value]:
    """The values outside of puts that are computed from the number of the group, also over the trips of a loop."""
    ops = [op for op in _walk(block) if not any(PutOp.of(outer) for outer in (op, *op.ancestors()))]
    found: set[Value] = set()
    before = -1
    while len(found) != before:
        before = len(found)
        for op in ops:
            found.update(_made_dependent(op, found))
    return found


def obstacle(block: Block, dependent: set[Value]) -> Operation | None:
    """The control flow that depends on the number of the group and so cannot be the same for all of them."""
    for op in _walk(block):
        loop, branch = ForOp.of(op), IfOp.of(op)
        decisive = loop.bounds if loop else [branch.condition] if branch else []
        if op.name in ("scf.while", "scf.condition"):
            decisive = [*op.operands, *op.results]
        if any(value in dependent for value in decisive):
            return op
    return None


class GroupServer:
    """One walk through the producer. rings: those that become one for each group."""

    def __init__(self, dependent: set[Value], rings: dict[Value, list[Value]], groups: int) -> None:
        self.dependent = dependent
        self.rings = rings
        self.maps: list[ValueMap] = [{ring: own[number] for ring, own in rings.items()} for number in range(groups)]
        self.dead: list[Operation] = []

    def run(self, block: Block) -> None:
        """Rewrites everything in `block`."""
        self._block(block)
        for op in reversed(self.dead):
            if not any(result.uses for result in op.results):
                op.erase()

    def _block(self, block: Block) -> None:
        for op in list(block.ops):
            loop, branch = ForOp.of(op), IfOp.of(op)
            if GroupIndexOp.of(op):
                builder = Builder.before(op)
                for number, values in enumerate(self.maps):
                    values[op.result] = builder.constant(number)
                self.dead.append(op)
            elif access := PutOp.of(op) or LandedOp.of(op):
                if access.ring in self.rings:
                    self._copies(op)
                    op.erase()
            elif loop:
                self._loop(loop)
            elif branch:
                self._branch(branch)
            elif op.regions:
                for region in op.regions:
                    for nested in region.blocks:
                        self._block(nested)
            elif any(result in self.dependent for result in op.results):
                self._copies(op)
                self.dead.append(op)

    def _copies(self, op: Operation) -> None:
        """The operation once for each group."""
        builder = Builder.before(op)
        builder.loc = op.loc
        for values in self.maps:
            builder.insert(clone_op(op, values))

    def _loop(self, loop: ForOp) -> None:
        """Each group carries its own; the first one where the value was."""
        carried = [index for index, arg in enumerate(loop.iter_args) if arg in self.dependent]
        for index in carried:
            init, arg, result = loop.inits[index], loop.iter_args[index], loop.op.results[index]
            for number, values in enumerate(self.maps):
                own = values.get(init, init)
                if number == 0:
                    loop.op.set_operand(3 + index, own)
                    values[arg], values[result] = arg, result
                else:
                    values[arg], values[result] = loop.carry(own, arg.hint), loop.op.results[-1]
        self._block(loop.body)
        self._hand_over(loop.body.terminator, carried)

    def _branch(self, branch: IfOp) -> None:
        given = [index for index, result in enumerate(branch.op.results) if result in self.dependent]
        for index in given:
            result = branch.op.results[index]
            self.maps[0][result] = result
            for values in self.maps[1:]:
                again = Value(result.type, branch.op, len(branch.op.results), result.hint)
                branch.op.results.append(again)
                values[result] = again
        for block in branch.branches:
            self._block(block)
            self._hand_over(block.terminator, given)

    def _hand_over(self, terminator: Operation, indices: Sequence[int]) -> None:
        for index in indices:
            value = terminator.operands[index]
            terminator.set_operand(index, self.maps[0].get(value, value))
            for values in self.maps[1:]:
                terminator.add_operand(values.get(value, value))


def _walk(block: Block) -> list[Operation]:
    return [nested for op in block.ops for nested in op.walk()]


def _made_dependent(op: Operation, known: set[Value]) -> list[Value]:
    """What becomes dependent because of an operation."""
    loop, branch = ForOp.of(op), IfOp.of(op)
    if loop:
        made: list[Value] = []
        for arg, result, init, yielded in zip(loop.iter_args, op.results, loop.inits, loop.yielded, strict=True):
            if init in known or yielded in known or arg in known:
                made += [arg, result]
        return made
    if branch:
        ends = [block.terminator.operands for block in branch.branches]
        return [result for index, result in enumerate(op.results) if any(end[index] in known for end in ends)]
    if GroupIndexOp.of(op) or any(operand in known for operand in op.operands):
        return list(op.results)
    return []
