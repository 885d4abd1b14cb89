"""Prefetchable loads: loads of a loop that can be executed one iteration before their results are used.

They load scalars and rows. Their addresses are computed from the induction variable, from other loop-carried counters
and pointers, and from loop-invariant values; and no store in the loop may alias them.
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
    """The prefetchable loads of one loop."""

    loop: ForOp
    _needed: dict[Value, bool] = field(default_factory=dict[Value, bool])

    def loads(self) -> list[LoadOp]:
        """The prefetchable loads, in program order; none if an operation in the loop orders memory accesses."""
        if any(gives_order(op) and not _orders_shared_only(op) for op in self.loop.op.walk()):
            return []
        return [LoadOp(op) for op in self.loop.body.ops if self._is_prefetchable(op)]

    def _is_prefetchable(self, op: Operation) -> bool:
        """Whether an operation is a prefetchable load. Tiles of several rows would take too many registers."""
        if not is_plain_load(op) or not op.result.uses:
            return False
        row = not isinstance(parse_type(op.result.type), TensorType) or not has_rows(op.result)
        return row and all(map(self.is_known, op.operands)) and not self.is_written(op)

    def is_known(self, value: Value) -> bool:
        """Whether the value of the next iteration can be computed in this iteration."""
        if value not in self._needed:
            self._needed[value] = False  # a cycle that is not a counter does not qualify
            self._needed[value] = self._is_computable(value)
        return self._needed[value]

    def _is_computable(self, value: Value) -> bool:
        if value.owner is self.loop.body:
            return value.index == 0 or self._is_counted(value)
        op = value.defining_op
        if op is None or op.parent is not self.loop.body:
            return op is None or not self.loop.op.is_ancestor_of(op)
        if not is_pure(op) or op.regions or op.name in DOTS or _may_divide_by_zero(op):
            return False
        return all(map(self.is_known, op.operands))

    def _is_counted(self, value: Value) -> bool:
        """Whether a loop-carried value is advanced by computable steps, as pointers are; accumulators are not."""
        end = self.loop.yielded[value.index - 1]
        self._needed[value] = True  # the yielded value may depend on the loop-carried value
        known = end is value or self.is_known(end)
        if not known:
            self._needed = {other: fact for other, fact in self._needed.items() if not fact}
        return known

    def is_written(self, load: Operation) -> bool:
        """Whether a store in the loop may alias `load`."""
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
    """Bytes that a thread carries for a prefetched load; for a row, as if no element were duplicated across threads."""
    tile = load.tile
    return 4 if tile is None else max(4, tile.bytes // (num_warps * WARP))


def _orders_shared_only(op: Operation) -> bool:
    """Whether an operation orders accesses to shared memory only."""
    return op.name.startswith(("aref.", "ttg.", "ttng.")) and not op.name.endswith("barrier")


def _may_divide_by_zero(op: Operation) -> bool:
    """Whether an operation may be undefined if it is executed speculatively."""
    if op.name not in _DIVISIONS:
        return False
    return not arith.ConstantOp.matches(op.operands[arith.DivSIOp.rhs.index].defining_op)


__all__ = ["AheadLoads", "bytes_ahead"]
