"""Partition: splits the sequential program with arefs into one program slice per partition.

    tt.func { create; loop { put; get; dot; consumed }; store }
    →
    tt.func { create
      warp.group producer { loop { put } }
      warp.group consumer { loop { get; dot; consumed }; store } }

The roots of the producer are the puts and the waits for its own copies (`landed`). The roots of the consumer are all
other operations with side effects, gets and releases. The roots of a converter are the gets and releases of the rings
that it reads, and the puts into the rings that it fills; if its control flow depends on a number that comes out of a
ring, also the releases of that ring. The roots of a storer are the gets and releases of rings of staged tiles, and the
stores from their slots. Each slice is the backward slice of its roots, enclosing control flow included. Pure operations
that several slices need are duplicated.

The wait for earlier grids stays in front of the groups (`hoist_grid_waits`). Guards (`tawa.analysis.rings.guards`) stay
around the groups, together with their conditions and their other branches:

    %x = load; scf.if (cmp %x) {                  %x = load; scf.if (cmp %x) {
      create; loop { put; get; dot; … %x } }   →    create; warp.group … { %x = load; … }; warp.group … }

Given numbers (`tawa.analysis.rings.given_numbers`) are computed in front of the groups, which all use them; buffers of
tiles that all groups read (`tawa.analysis.rings.exchanges`) are filled there. Where the
program uses a number that came out of a ring (`tawa.analysis.rings.sent_numbers`), the producer uses the number that it
put into the ring. The atomic that makes it, and all accesses to the same memory, are the producer's alone.

Requires: `insert_arefs`; a structured function; the producer's slice is scalar (`analysis.legality.check_producer`).
Ensures: the block of the rings consists of the ring creations, the given numbers, one group per partition and its
terminator, and only guards enclose it. Groups share nothing but rings, arguments and given numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tawa.analysis.layout.producer_layouts import rename
from tawa.analysis.rings.exchanges import COMMON
from tawa.analysis.rings.given_numbers import given_numbers
from tawa.analysis.rings.guards import GuardInfo, guards_around
from tawa.analysis.rings.sent_numbers import NOTHING_SENT, SentInfo, find_sent, number_layout, received
from tawa.analysis.rings.slices import SliceInfo, slice_from
from tawa.dialects.aref import AccessOp, AcquireOp, ConsumedOp, CreateOp, GetOp, LandedOp, PublishOp, PutOp
from tawa.dialects.control_flow import clone_narrowed
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.effects import has_side_effect, waits_for_grids
from tawa.dialects.scf import CONTROL, ENDS
from tawa.dialects.tcgen05 import CORRECTED, ISSUED_BY_ONE_THREAD
from tawa.dialects.tt import FuncOp, ReturnOp
from tawa.dialects.ttg import LocalLoadOp
from tawa.dialects.ttng import AsyncTMACopyLocalToGlobalOp, AsyncTMAReduceOp, AsyncTMAStoreWaitOp
from tawa.dialects.warp import EndOp, GroupOp, Role
from tawa.ir import Block, Builder, Module, Operation, Region, Value, ValueMap, clone_op
from tawa.ir.attributes import int_attr, string_attr
from tawa.plan import PartitionPlan, Plan
from tawa.transforms.drop_dead import keep_only
from tawa.transforms.result import PassResult

_ENDS = ENDS | op_names(ReturnOp)
_STORED = op_names(AsyncTMACopyLocalToGlobalOp, AsyncTMAReduceOp, AsyncTMAStoreWaitOp)
_OURS = op_names(CreateOp, GroupOp)
_BESIDE: tuple[Role, ...] = ("producer", "converter", "mma", "storer", "correction")


@dataclass(frozen=True, slots=True)
class Partition:
    """Options: the Plan, which lists the partitions."""

    plan: Plan

    def run(self, module: Module) -> PassResult:
        """Splits the kernel into its partitions."""
        function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
        work = next((op.parent for op in function.op.walk() if CreateOp.of(op) and op.parent), function.body)
        found = guards_around(function, work)
        same = received(list(function.op.walk()))
        puts = [op for role in _BESIDE for op in _roots(found, role)]
        given, sent = given_numbers(found, puts, same), find_sent(found, puts, same)
        given = (*given, *(op.result for block in found.way for op in block.ops if COMMON in op.attributes))
        builder = Builder.before(work.terminator)
        builder.loc = function.op.loc
        blocks: list[Block] = []
        for part in self.plan.partitions:
            block = Block()
            roots = _roots(found, part.role, sent)
            mine = same if part.role == "producer" else {}
            slice = slice_from(roots, function.op, found.guards, given=given, same=mine)
            released = _released(function, slice, part.role)
            if released:
                slice = slice_from([*roots, *released], function.op, found.guards, given=given, same=mine)
            mapping: ValueMap = {}
            for source in found.way:
                _clone_block(source, block, slice, mapping)
            if part.role == "converter":
                _lay_out_numbers(block, {number_layout(it.num_warps) for it in self.plan.partitions}, part.num_warps)
            block.append(Operation(EndOp.NAME, loc=builder.loc))
            blocks.append(block)
        for part, block in zip(self.plan.partitions, blocks, strict=True):
            builder.create(GroupOp.NAME, properties=_properties(part), regions=[Region([block])])
        _clear_around(found, given)
        return PassResult(changed=True)


def _released(function: FuncOp, part: SliceInfo, role: Role) -> list[Operation]:
    """The releases of the rings of numbers that a converter reads because its control flow depends on them."""
    if role != "converter":
        return []
    read = {get.ring for op in function.op.walk() if op in part and (get := GetOp.of(op))}
    releases = [consumed for op in function.op.walk() if (consumed := ConsumedOp.of(op)) and consumed.ring in read]
    return [it.op for it in releases if _ring_of(it).fill == "number"]


def _lay_out_numbers(block: Block, layouts: Collection[str], num_warps: int) -> None:
    """Lets all threads of so many warps hold each number that comes out of a ring."""
    names = dict.fromkeys(layouts, number_layout(num_warps))
    for load in (view for op in block.ops for nested in op.walk() if (view := LocalLoadOp.of(nested))):
        load.op.result.type = rename(load.op.result.type, names)


def _clear_around(found: GuardInfo, given: tuple[Value, ...]) -> None:
    """Erases everything around the groups but rings, guards, given numbers and the dependences of these."""
    beside = [op for block in found.way for op in block.ops[:-1] if op not in found.guards and not _OURS & {op.name}]
    nested = [nested for op in beside for nested in op.walk()]
    keep_only([*nested, *found.instead], found.stays(given))


def _properties(part: PartitionPlan) -> dict[str, str]:
    properties = {
        "partition": string_attr(part.name),
        "role": string_attr(part.role),
        "num_warps": int_attr(part.num_warps),
    }
    if part.registers:
        properties["registers"] = int_attr(part.registers)
    return properties


def _roots(found: GuardInfo, role: Role, sent: SentInfo = NOTHING_SENT) -> list[Operation]:
    """The root operations of a partition, in textual order."""
    roots: list[Operation] = []
    instead, moved, beside = set(found.instead), set(sent.moved), set(sent.beside)

    def visit(block: Block) -> None:
        for op in block.ops:
            if op in instead:
                continue
            if op.name in CONTROL:
                for region in op.regions:
                    for nested in region.blocks:
                        visit(nested)
            elif op in beside:
                if role == "producer":
                    roots.append(op)
            elif op in moved:
                continue  # the producer executes it, since it puts the result
            elif op.name not in _ENDS and _role_of(op) == role:
                roots.append(op)

    visit(found.function.body)
    return roots


def _role_of(op: Operation) -> Role | None:
    """The partition that an operation is a root of, if any."""
    if op.name in ISSUED_BY_ONE_THREAD:
        return "mma"
    if op.name in _STORED:
        return "storer"
    if filling := PutOp.of(op) or LandedOp.of(op) or AcquireOp.of(op) or PublishOp.of(op):
        return _ring_of(filling).writer
    if reading := GetOp.of(op) or ConsumedOp.of(op):
        return _ring_of(reading).reader
    if not has_side_effect(op) or waits_for_grids(op):
        return None
    return "correction" if CORRECTED in op.attributes else "consumer"


def _ring_of(access: AccessOp) -> CreateOp:
    create = CreateOp.of(access.ring.defining_op)
    assert create is not None, "rings are created in front of the partitions"
    return create


def _clone_block(source: Block, target: Block, part: SliceInfo, mapping: ValueMap) -> None:
    """Clones the operations of a block that are in a slice, without the terminator."""
    for op in source.ops[:-1]:
        if op in part and CreateOp.of(op) is None:
            target.append(_clone(op, part, mapping))
            for value in part.taken_from(op):
                mapping[value] = mapping[part.same[value]]


def _clone(op: Operation, part: SliceInfo, mapping: ValueMap) -> Operation:
    if op.name not in CONTROL:
        return clone_op(op, mapping)

    def copy_block(source: Block, target: Block) -> None:
        _clone_block(source, target, part, mapping)

    return clone_narrowed(op, mapping, copy_block, part.kept_indices(op), part.kept_inits(op))
