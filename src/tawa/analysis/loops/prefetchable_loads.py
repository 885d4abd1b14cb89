"""Loads of a loop that can be done an iteration before their results are used.

Only loads of numbers and rows, whose address is computed from the loop's variable, from what the loop counts, and from
what it does not change, and that nothing written in the loop may lie in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.analysis.memory.provenance import memory_roots
from tawa.dialects import arith
from tawa.dialects.declare.declaration import address_of, op_names
from tawa.dialects.effects import effects_of, gives_order, is_plain_load, is_pure
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import DOTS, LoadOp
from tawa.ir import Operation, TensorType, Value, parse_type
from tawa.machine.hopper import WARP
from tawa.symbolic.dim_relations import has_rows

_DIVISIONS = op_names(
    *(arith.DivFOp, arith.DivSIOp, arith.DivUIOp, arith.RemFOp, arith.RemSIOp, arith.RemUIOp),
    *(arith.CeilDivSIOp, arith.CeilDivUIOp, arith.FloorDivSIOp),
)


@dataclass(slots=True)
class AheadLoads:
    """What can be loaded ahead in one loop."""

    loop: ForOp
    _needed: dict[Value, bool] = field(default_factory=dict[Value, bool])

    def loads(self) -> list[LoadOp]:
        """The loads that can be done ahead, in program order; none where the loop gives accesses an order."""
        if any(gives_order(op) and not _is_of_rings(op) for op in self.loop.op.walk()):
            return []
        return [LoadOp(op) for op in self.loop.body.ops if self._may_go(op)]

    def _may_go(self, op: Operation) -> bool:
        """Whether an operation is such a load. A tile with rows takes more registers than anybody has left."""
        if not is_plain_load(op) or not op.result.uses:
            return False
        row = not isinstance(parse_type(op.result.type), TensorType) or not has_rows(op.result)
        return row and all(map(self.is_known, op.operands)) and not self.is_written(op)

    def is_known(self, value: Value) -> bool:
        """Whether a value can be computed for the next iteration as well as for this one."""
        if value not in self._needed:
            self._needed[value] = False  # while it is being worked out: what depends on itself
            self._needed[value] = self._work_out(value)
        return self._needed[value]

    def _work_out(self, value: Value) -> bool:
        if value.owner is self.loop.body:
            return value.index == 0 or self._is_counted(value)
        op = value.defining_op
        if op is None or op.parent is not self.loop.body:
            return op is None or not self.loop.op.is_ancestor_of(op)
        if not is_pure(op) or op.regions or op.name in DOTS or _may_divide_by_zero(op):
            return False
        return all(map(self.is_known, op.operands))

    def _is_counted(self, value: Value) -> bool:
        """Whether a carried value is the one before moved on, as pointers are: no tile of sums."""
        end = self.loop.yielded[value.index - 1]
        self._needed[value] = True  # what it becomes may depend on what it is
        known = end is value or self.is_known(end)
        if not known:
            self._needed = {other: fact for other, fact in self._needed.items() if not fact}
        return known

    def is_written(self, load: Operation) -> bool:
        """Whether something written in the loop may lie where `load` reads."""
        roots = memory_roots(LoadOp(load).pointers)
        for op in self.loop.op.walk():
            for effect in effects_of(op) if not op.regions else ():
                if effect.kind != "write" or effect.space != "global":
                    continue
                address = address_of(op, effect)
                written = memory_roots(address) if address is not None else None
                if roots is None or written is None or any(root in written for root in roots):
                    return True
        return False


def bytes_ahead(load: LoadOp, num_warps: int) -> int:
    """What a thread carries for a load; of a row, as much as there would be if no two threads held the same."""
    tile = load.tile
    return 4 if tile is None else max(4, tile.bytes // (num_warps * WARP))


def _is_of_rings(op: Operation) -> bool:
    """Whether what an operation orders is in shared memory."""
    return op.name.startswith(("aref.", "ttg.", "ttng.")) and not op.name.endswith("barrier")


def _may_divide_by_zero(op: Operation) -> bool:
    """Whether an operation may be undefined if it is done once too often."""
    if op.name not in _DIVISIONS:
        return False
    return not arith.ConstantOp.matches(op.operands[arith.DivSIOp.rhs.index].defining_op)


__all__ = ["AheadLoads", "bytes_ahead"]
