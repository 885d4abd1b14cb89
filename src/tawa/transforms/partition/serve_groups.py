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
from tawa.dialects.control_flow import carry_all_through, deciding, incoming, loop_carried
from tawa.dialects.scf import ConditionOp, ForOp, IfOp, WhileOp
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
        decisive = [use.value for use in deciding(op)]
        if WhileOp.of(op) or ConditionOp.matches(op):
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
            if GroupIndexOp.of(op):
                builder = Builder.before(op)
                for number, values in enumerate(self.maps):
                    values[op.result] = builder.constant(number)
                self.dead.append(op)
            elif access := PutOp.of(op) or LandedOp.of(op):
                if access.ring in self.rings:
                    self._copies(op)
                    op.erase()
            elif (ForOp.of(op) or IfOp.of(op)) and any(result in self.dependent for result in op.results):
                self._control(op)
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

    def _control(self, op: Operation) -> None:
        """Carries what depends on the group once for each group, the value of the first one in its old place."""
        found = [(result, loop_carried(result)) for result in op.results if result in self.dependent]
        added: list[Value] = []
        hints: list[str] = []
        for result, carried in found:
            self.maps[0][result] = result
            start = carried.init if carried else result
            added += [values.get(start, start) for values in self.maps[1:]]
            hints += [carried.argument.hint if carried else result.hint] * len(self.maps[1:])
            if carried:
                self.maps[0][carried.argument] = carried.argument
                op.set_operand(3 + carried.index, self.maps[0].get(start, start))

        def step(block: Block, inside: Sequence[Value]) -> list[Value]:
            self._note([carried.argument for _, carried in found if carried], inside)
            self._block(block)
            return self._hand_over(block.terminator, [result.index for result, _ in found])

        self._note([result for result, _ in found], carry_all_through(op, added, step, hints))

    def _note(self, values: Sequence[Value], others: Sequence[Value]) -> None:
        """What stands for each of `values` in every group but the first, group by group."""
        if values:
            places = [(value, own) for value in values for own in self.maps[1:]]
            for (value, own), other in zip(places, others, strict=True):
                own[value] = other

    def _hand_over(self, terminator: Operation, indices: Sequence[int]) -> list[Value]:
        """Lets a terminator hand on the values of the first group; returns those of the others."""
        others: list[Value] = []
        for index in indices:
            value = terminator.operands[index]
            terminator.set_operand(index, self.maps[0].get(value, value))
            others += [values.get(value, value) for values in self.maps[1:]]
        return others


def _walk(block: Block) -> list[Operation]:
    return [nested for op in block.ops for nested in op.walk()]


def _made_dependent(op: Operation, known: set[Value]) -> list[Value]:
    """What becomes dependent because of an operation."""
    if ForOp.of(op) or IfOp.of(op):
        results = [result for result in op.results if any(use.value in known for use in incoming(result))]
        return [*results, *(carried.argument for result in results if (carried := loop_carried(result)))]
    if GroupIndexOp.of(op) or any(operand in known for operand in op.operands):
        return list(op.results)
    return []
