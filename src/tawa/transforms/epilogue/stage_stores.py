"""Stage stores: the consumer's TMA stores go through a staging buffer, and the wait moves to the buffer's next use.

    c = convert_layout acc            stage = local_alloc                     (once, outside of all loops)
    descriptor_store C[m, n], c   →   async_tma_store_wait 0                  (TMA has read the previous store)
                                      local_store acc, stage
                                      fence_async_shared
                                      async_tma_copy_local_to_global C[m, n], stage
                                      …
                                      async_tma_store_wait 0                  (once, at the end)
                                      local_dealloc stage

A Plan may store a tile in slices of its columns (`slices` and `buffers` of a store). Each slice is written into the
next of a few smaller buffers, so that rings have more of the shared memory:

    slices = unrealized_conversion_cast C                   (a descriptor of blocks as wide as a slice)
    async_tma_store_wait 0                                  (the first slice)
    local_store acc[:, 0:64], stage_0;  fence;  async_tma_copy_local_to_global slices[m, n], stage_0
    local_store acc[:, 64:128], stage_1;  …  slices[m, n + 64], stage_1
    async_tma_store_wait 1                                  (TMA has read stage_0)
    local_store acc[:, 128:192], stage_0;  …  slices[m, n + 128], stage_0

A reduction (`descriptor_reduce`) is staged in the same way. Behind the loops of groups that exchange tiles, a group
stages what it stores in the memory of tiles that nothing reads any more, if there are such.

Triton's own lowering waits right after each store. Here the store of a tile overlaps the next tile's main loop. The
layout conversion before the store is dropped because any layout can be written to the staging buffer. A buffer is
allocated as late as possible, so that it can reuse the memory of tiles that are dead by then, and lives until TMA has
read its last store. Stores after the join (`sink_epilogue`) do not change: there is no work left to overlap them with.
If a loop redefines the descriptor of a store, a wait for the stores through the previous descriptor precedes the new
definition.

Requires: `sink_epilogue`; stores that may be deferred (`analysis.memory.stores_must_not_wait`).
Declines when a Plan asks for slices that are narrower than a box of TMA, or spread over threads.
Ensures: neither a staging buffer nor a descriptor is written while TMA reads it; a proxy fence separates the write of
the buffer from the copy.
Source: PTX ISA, "cp.async.bulk.wait_group" (its `.read` ends the reads of the tensormap too) and "Async proxy".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tawa.analysis.layout.sliced_stores import unconverted, why_no_slices
from tawa.analysis.memory.provenance import own_maker
from tawa.analysis.names import name_of
from tawa.analysis.rings.channels import ancestor_in
from tawa.analysis.rings.exchanges import COMMON, STAGED_IN
from tawa.analysis.rings.idle_tiles import matrix_of
from tawa.declines import SLICES
from tawa.dialects.arith import AddIOp
from tawa.dialects.builtin import CastOp
from tawa.dialects.tt import DescriptorReduceOp, TMAStore, tma_store
from tawa.dialects.ttg import ConvertLayoutOp, LocalAllocOp, LocalDeallocOp, LocalStoreOp
from tawa.dialects.ttng import AsyncTMACopyLocalToGlobalOp, AsyncTMAReduceOp, AsyncTMAStoreWaitOp, FenceAsyncSharedOp
from tawa.dialects.warp import GroupOp
from tawa.ir import (
    Builder,
    MemDescType,
    Module,
    TensorDescType,
    Value,
    memdesc_type,
    parse_type,
    shape_of,
    source_of,
)
from tawa.ir.attributes import bool_attr, int_attr, read_array, read_int
from tawa.plan import Plan, StorePlan
from tawa.transforms.epilogue.column_slices import column_slices
from tawa.transforms.partition.transpose_tile import box_of
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class StageStores:
    """Options: the Plan, which may exclude a store (`staged=false`): it then waits right after the copy."""

    plan: Plan = Plan()

    def run(self, module: Module) -> PassResult:
        """Rewrites the TMA stores of every consumer; stores of one tile type share their buffers."""
        consumers = [
            group for op in module.walk() if (group := GroupOp.of(op)) and group.role in ("consumer", "correction")
        ]
        staged = {group: self._staged(group) for group in consumers}
        common = {read_int(op.attributes[COMMON]): op.result for op in module.walk() if COMMON in op.attributes}
        for store in (it for stores in staged.values() for it in stores):
            reason = why_no_slices(store, self._entry(store).of_slices[0])
            if reason:
                return PassResult(False, (SLICES.remark(source_of(module, store.op), why=reason),))
        for group, stores in staged.items():
            buffers: dict[str, list[Value]] = {}
            used: set[tuple[int, ...]] = set()
            for maker in dict.fromkeys(own_maker(store.descriptor) for store in stores):
                if maker is not None:
                    _wait(Builder.before(maker))
            for store in stores:
                place = tuple(map(int, read_array(store.op.attributes.get(STAGED_IN, "array<i32>"))))
                if place:
                    _stage_in(store, common[place[0]], place[1], again=place in used)
                    used.add(place)
                else:
                    _stage(store, group, buffers, *self._entry(store).of_slices)
            if stores:
                end = Builder.before(group.body.terminator)
                end.loc = stores[-1].op.loc
                _wait(end)
                for buffer in (it for of_type in buffers.values() for it in of_type):
                    end.create(LocalDeallocOp.NAME, (buffer,))
        for tile in common.values():  # Triton's pass fences stores to immutable buffers only
            if memdesc_type(tile.type).mutable and tile.defining_op is not None:
                _fence(Builder.after(tile.defining_op))
        return PassResult(any(staged.values()))

    def _staged(self, group: GroupOp) -> list[TMAStore]:
        found = [store for nested in group.op.walk() if (store := tma_store(nested))]
        return [store for store in found if self._entry(store).staged is not False]

    def _entry(self, store: TMAStore) -> StorePlan:
        return self.plan.store(name_of(store.op))


def _stage_in(store: TMAStore, tile: Value, column: int, again: bool) -> None:
    """Stages a store in columns of a tile that nothing reads any more. again: another store was staged there."""
    source, builder = matrix_of(store.source), Builder.before(store.op)
    rows, columns = shape_of(source)
    view = box_of(builder, tile, (0, column), (rows, columns))
    if again:
        _wait(builder)
    _copy(store, builder, source, view, store.descriptor, store.indices)
    unused = store.source
    store.op.erase()
    while unused is not source and not unused.uses and (op := unused.defining_op) is not None:
        unused = op.operands[0]
        op.erase()


def _copy(
    store: TMAStore, builder: Builder, tile: Value, buffer: Value, descriptor: Value, indices: Sequence[Value]
) -> None:
    """Writes a tile into a buffer, and lets TMA copy it."""
    builder.create(LocalStoreOp.NAME, (tile, buffer))
    _fence(builder)
    copy = AsyncTMAReduceOp.NAME if DescriptorReduceOp.matches(store.op) else AsyncTMACopyLocalToGlobalOp.NAME
    builder.create(copy, (descriptor, *indices, buffer), properties=dict(store.op.properties))


def _buffers(type: str, count: int, store: TMAStore, group: GroupOp, buffers: dict[str, list[Value]]) -> list[Value]:
    """The staging buffers for tiles of `type`, allocated before the group's operation that holds the first store."""
    found = buffers.setdefault(type, [])
    builder = Builder.before(ancestor_in(group.body, store.op))
    builder.loc = store.op.loc
    while len(found) < count:
        found.append(builder.create(LocalAllocOp.NAME, (), (type,), hints=("stage",)).result)
    return found[:count]


def _stage(store: TMAStore, group: GroupOp, buffers: dict[str, list[Value]], slices: int, count: int) -> None:
    """Writes each slice into the next of `count` buffers, as soon as TMA has read what was in it."""
    block, source = parse_type(store.descriptor.type), unconverted(store)
    change = ConvertLayoutOp.of(store.source.defining_op)
    assert isinstance(block, TensorDescType)
    *rows_of_tile, columns = block.block.shape
    width = columns // slices
    type = str(MemDescType((*rows_of_tile, width), block.block.element, block.block.encoding, mutable=True))
    own = _buffers(type, count, store, group, buffers)
    builder = Builder.before(store.op)
    descriptor = store.descriptor
    if slices > 1:
        part = replace(block, block=replace(block.block, shape=(*rows_of_tile, width)))
        descriptor = builder.create(CastOp.NAME, (descriptor,), (str(part),), hints=("slices",)).result
    *rows, column = store.indices
    for number, part in enumerate(column_slices(source, slices, builder)):
        buffer = own[number % count]
        if number == 0 or number >= count:
            _wait(builder, count - 1 if number else 0)
        at = AddIOp.create(builder, column, builder.constant(number * width, column.type)) if number else column
        _copy(store, builder, part, buffer, descriptor, (*rows, at))
    store.op.erase()
    if change and not change.op.result.uses:
        change.op.erase()


def _fence(builder: Builder) -> None:
    builder.create(FenceAsyncSharedOp.NAME, (), properties={"bCluster": bool_attr(False)})


def _wait(builder: Builder, pendings: int = 0) -> None:
    builder.create(AsyncTMAStoreWaitOp.NAME, (), properties={"pendings": int_attr(pendings)})
