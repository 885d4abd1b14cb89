"""Prefetchable loads: loads of a loop that can be executed one iteration before their results are used.

They load scalars and rows. The addresses of the next iteration are computed from the induction variable, from
loop-invariant values, and from loop-carried values that this iteration can compute at its start: counters, pointers,
and sums with numbers that are prefetched themselves, as offsets to the next block of a list are. No store in the loop
may alias them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tawa.analysis.memory.provenance import memory_roots
from tawa.dialects import arith
from tawa.dialects.declare.declaration import address_of, op_names
from tawa.dialects.effects import effects_of, gives_order, is_plain_load, is_pure
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import DOTS, LoadOp
from tawa.ir import Operation, TensorType, Value, parse_type
from tawa.machine.nvidia import WARP
from tawa.symbolic.dim_relations import has_rows

_DIVISIONS = op_names(
    *(arith.DivFOp, arith.DivSIOp, arith.DivUIOp, arith.RemFOp, arith.RemSIOp, arith.RemUIOp),
    *(arith.CeilDivSIOp, arith.CeilDivUIOp, arith.FloorDivSIOp),
)


@dataclass(slots=True)
class AheadLoads:
    """The prefetchable loads of one loop."""

    loop: ForOp
    _ahead: set[Value] = field(default_factory=set[Value])
    _following: dict[Value, bool] = field(default_factory=dict[Value, bool])
    _current: dict[Value, bool] = field(default_factory=dict[Value, bool])

    def movable(self) -> list[LoadOp]:
        """The loads of scalars and rows in the body that may be executed anywhere in their iteration.

        None if an operation in the loop orders memory accesses.
        """
        if any(gives_order(op) and not _orders_shared_only(op) for op in self.loop.op.walk()):
            return []
        return [LoadOp(op) for op in self.loop.body.ops if self._is_row(op)]

    def loads(self, wanted: Callable[[LoadOp], bool] = lambda _: True) -> list[LoadOp]:
        """The prefetchable loads that are `wanted`; those whose addresses depend on prefetched numbers come last."""
        left = self.movable()
        found: list[LoadOp] = []
        while ready := [load for load in left if all(map(self.is_known, load.op.operands))]:
            left = [load for load in left if load not in ready]
            taken = [load for load in ready if wanted(load)]
            found += taken
            self._ahead.update(load.op.result for load in taken)
            self._following.clear()
            self._current.clear()
        return found

    def _is_row(self, op: Operation) -> bool:
        """Whether an operation loads a scalar or a row; tiles of several rows would take too many registers."""
        if not is_plain_load(op) or not op.result.uses:
            return False
        row = not isinstance(parse_type(op.result.type), TensorType) or not has_rows(op.result)
        return row and not self.is_written(op)

    def is_known(self, value: Value) -> bool:
        """Whether the value of the next iteration can be computed at the start of this iteration."""
        if value not in self._following:
            self._following[value] = self._is_known(value)
        return self._following[value]

    def _is_known(self, value: Value) -> bool:
        if value.owner is self.loop.body:
            return value.index == 0 or self._is_current(self.loop.yielded[value.index - 1])
        op = value.defining_op
        if op is None or op.parent is not self.loop.body:
            return op is None or not self.loop.op.is_ancestor_of(op)
        return _is_repeatable(op) and not _may_divide_by_zero(op) and all(map(self.is_known, op.operands))

    def _is_current(self, value: Value) -> bool:
        """Whether a value of this iteration can be computed at its start; accumulators cannot."""
        op = value.defining_op
        if op is None or op.parent is not self.loop.body or value in self._ahead:
            return op is None or value in self._ahead or not self.loop.op.is_ancestor_of(op)
        if value not in self._current:
            self._current[value] = _is_repeatable(op) and all(map(self._is_current, op.operands))
        return self._current[value]

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


def _is_repeatable(op: Operation) -> bool:
    """Whether an operation may be repeated elsewhere in the iteration."""
    return is_pure(op) and not op.regions and op.name not in DOTS


def _orders_shared_only(op: Operation) -> bool:
    """Whether an operation orders accesses to shared memory only."""
    return op.name.startswith(("aref.", "ttg.", "ttng.")) and not op.name.endswith("barrier")


def _may_divide_by_zero(op: Operation) -> bool:
    """Whether an operation may be undefined if it is executed speculatively."""
    if op.name not in _DIVISIONS:
        return False
    return not arith.ConstantOp.matches(op.operands[arith.DivSIOp.rhs.index].defining_op)
