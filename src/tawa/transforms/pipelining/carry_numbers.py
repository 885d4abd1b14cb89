"""Carry numbers: a loop of a consumer carries the number by which a tile of indices grows, and not the tile.

    %rows = addi splat(%start), range               for %n = %start:
    for %r = %rows:                           →       %r = addi splat(%n), range
      mask: cmpi %r, …                                mask: cmpi %r, …
      yield addi %r, splat(%step)                     yield addi %n, %step

A kernel that walks a list of blocks adds the distance to the next block to a tile of indices, from which it computes
masks. In the layout of an accumulator of 64 columns the tile takes 16 registers, also while the dots run. A range is
computed again where it is used. Sums of integers wrap around, so their order does not matter.

Requires: `partition`, or a kernel without partitions, which is one consumer.
Ensures: the same values.
Declines: tiles that begin with anything but a number and ranges.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.loops.costs import is_of_numbers
from tawa.dialects.arith import AddIOp
from tawa.dialects.control_flow import narrow
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import BroadcastOp, ExpandDimsOp, SplatOp
from tawa.dialects.warp import find_consumers
from tawa.ir import Builder, Module, Value, clone_op, shape_of
from tawa.transforms.result import PassResult

_VIEWS = op_names(BroadcastOp, ExpandDimsOp)


@dataclass(frozen=True, slots=True)
class CarryNumbers:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Changes every `scf.for` of a consumer."""
        changed = False
        for scope, _ in find_consumers(module):
            for op in list(scope.walk()):
                loop = ForOp.of(op)
                for at in reversed(range(len(loop.iter_args))) if loop else ():
                    changed |= _carry(loop, at) if loop else False
        return PassResult(changed)


def _carry(loop: ForOp, at: int) -> bool:
    """Carries a number in place of one tile; returns whether it does."""
    arg, following = loop.iter_args[at], loop.yielded[at]
    maker = following.defining_op
    step, start = _splat_beside(following, arg), _start_of(loop.inits[at])
    if step is None or start is None or maker is None or not loop.op.is_ancestor_of(maker):
        return False
    first, ranges = start
    number = loop.carry(first, arg.hint)
    end = loop.body.terminator
    end.add_operand(AddIOp.create(Builder.before(end), number, step, arg.hint))
    places = (Builder.at_start(loop.body, loop.op.loc), number, arg), (
        Builder.after(loop.op), loop.op.results[-1], loop.op.results[at]
    )  # fmt: skip
    for place, counted, tile in places:
        if tile.uses:
            splat = place.create(SplatOp.NAME, (counted,), (tile.type,)).result
            tile.replace_all_uses_with(AddIOp.create(place, splat, ranges, tile.hint))
    narrow(loop.op, [index for index in range(len(loop.op.results)) if index != at])
    if not following.uses:
        maker.erase()
    return True


def _start_of(tile: Value) -> tuple[Value, Value] | None:
    """The number and the ranges that a tile of integers is the sum of."""
    view = tile.defining_op
    if view is not None and view.name in _VIEWS and (start := _start_of(view.operands[0])) is not None:
        return start[0], Builder.before(view).insert(clone_op(view, {view.operands[0]: start[1]})).result
    add = AddIOp.of(view)
    for ranges in (add.lhs, add.rhs) if add is not None and shape_of(tile) else ():
        number = _splat_beside(tile, ranges)
        if number is not None and is_of_numbers(ranges, {}):
            return number, ranges
    return None


def _splat_beside(total: Value, other: Value) -> Value | None:
    """The number of which every element of a sum is the sum with the element of `other`."""
    add = AddIOp.of(total.defining_op)
    if add is None or other not in (add.lhs, add.rhs):
        return None
    splat = SplatOp.of((add.rhs if add.lhs is other else add.lhs).defining_op)
    return splat.op.operands[0] if splat is not None else None
