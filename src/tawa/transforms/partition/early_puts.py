"""Early puts: moves the first E puts in front of the start of the partitions.

    create r                              create r
    group producer {                      for k in range(lower, split) { put }        split = lower + E·step, or upper
      for k in range(lower, upper) {  →   group producer {
        put } }                             for k in range(split, upper) { put } }
    group consumer { … }                  group consumer { … }

Starting the partitions requires a handshake between all warps. A kernel with one tile per program pays for it before
its first load. If E loads are in flight already, their latency hides the handshake. The first D slots are empty, so
these puts do not wait (`fresh`).

Requires: `partition`.
Ensures: every ring sees the same puts in the same order.
Leaves a kernel as it is if its first loop with puts is nested in other control flow (a persistent kernel pays for the
handshake once), if that loop is unsigned, if its step is not constant, if the producer makes descriptors (making them
twice takes longer than the handshake), or if producer warps fill slots themselves or compute on tiles (before the start
of the partitions other warps would do that).
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.rings.exchanges import COMMON
from tawa.dialects.aref import PutOp
from tawa.dialects.arith import AddIOp, AndIOp, CmpIOp, Predicate, SelectOp, SubIOp, constant_int
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import MakeTensorDescOp
from tawa.dialects.warp import GroupOp, find_groups
from tawa.ir import Builder, Module, Operation, TensorType, ValueMap, clone_op, parse_type
from tawa.ir.attributes import bool_attr
from tawa.plan import Plan
from tawa.transforms.result import PassResult

_MAKE_DESCRIPTOR = MakeTensorDescOp.NAME
_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class EarlyPuts:
    """Options: the Plan, whose `early_puts` is E."""

    plan: Plan

    def run(self, module: Module) -> PassResult:
        """Splits the first loop of the producer."""
        rings = [ring for ring in self.plan.rings if ring.is_loaded]
        count = min(self.plan.early_puts or 0, *(ring.slots for ring in rings))
        groups = find_groups(module)
        producers = [group for group in groups if group.role == "producer"]
        by_tma = all(ring.fill in ("tma", "stores") for ring in rings)  # stores: of a converter
        if count == 0 or len(producers) != 1 or not by_tma:
            return PassResult(changed=False)
        loop = _first_loop(producers[0])
        step = constant_int(loop.bounds[2]) if loop else None
        if loop is None or loop.unsigned or step is None or not 0 < step * count <= _LARGEST:
            return PassResult(changed=False)
        before = _before(producers[0], loop)
        inside = [op for op in loop.op.walk() if PutOp.of(op) is None and not any(map(PutOp.of, op.ancestors()))]
        if any(op.name == _MAKE_DESCRIPTOR for op in before) or not all(map(_is_scalar, (*before, *inside))):
            return PassResult(changed=False)
        _split(groups[0].op, producers[0], loop, step * count)
        _load_behind(groups[0].op)
        return PassResult(changed=True)


def _first_loop(group: GroupOp) -> ForOp | None:
    """The first operation of the group that contains puts, if it is a loop with all of them directly in its body."""
    for op in group.body.ops:
        puts = [nested for nested in op.walk() if PutOp.of(nested)]
        if puts:
            loop = ForOp.of(op)
            return loop if loop and all(put.parent is loop.body for put in puts) else None
    return None


def _is_scalar(op: Operation) -> bool:
    return not any(isinstance(parse_type(value.type), TensorType) for value in (*op.operands, *op.results))


def _before(group: GroupOp, loop: ForOp) -> list[Operation]:
    return group.body.ops[: group.body.index_of(loop.op)]


def _load_behind(first: Operation) -> None:
    """Moves the loads of tiles that all groups read behind the puts: they wait for their data."""
    assert first.parent is not None
    for alloc in [op for op in first.parent.ops if COMMON in op.attributes]:
        load = alloc.operands[0].defining_op
        for op in (load, alloc):
            if op is not None:
                Builder.before(first).insert(op.detach())


def _split(first: Operation, group: GroupOp, loop: ForOp, distance: int) -> None:
    """Clones the code before the loop, and the loop with its upper bound reduced, to before the `first` group."""
    builder = Builder.before(first)
    mapping: ValueMap = {}
    for op in _before(group, loop):
        builder.insert(clone_op(op, mapping))
    lower, upper = (mapping.get(value, value) for value in loop.bounds[:2])
    builder.loc = loop.op.loc
    some = CmpIOp.create(builder, Predicate.SLT, lower, upper)  # if so, the difference fits an unsigned number
    length = SubIOp.create(builder, upper, lower)
    ahead = builder.constant(distance, lower.type)
    longer = CmpIOp.create(builder, Predicate.UGT, length, ahead)
    end = AddIOp.create(builder, lower, ahead)
    both = AndIOp.create(builder, some, longer)
    split = SelectOp.create(builder, both, end, upper, "split")
    early = builder.insert(clone_op(loop.op, mapping))
    early.set_operand(1, split)
    for op in early.walk():
        if PutOp.of(op):
            op.properties["fresh"] = bool_attr(True)
    loop.op.set_operand(0, split)
    for index, result in enumerate(early.results):
        loop.op.set_operand(3 + index, result)
