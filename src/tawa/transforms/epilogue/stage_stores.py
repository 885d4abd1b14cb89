"""Stage stores: the consumer's TMA stores go through a staging buffer, and the wait moves to the buffer's next use.

    c = convert_layout acc            stage = local_alloc                     (once, outside of all loops)
    descriptor_store C[m, n], c   →   async_tma_store_wait 0                  (TMA has read the previous store)
                                      local_store acc, stage
                                      fence_async_shared
                                      async_tma_copy_local_to_global C[m, n], stage
                                      …
                                      async_tma_store_wait 0                  (once, at the end)
                                      local_dealloc stage

Triton's own lowering waits right after each store. Here the store of a tile overlaps the next tile's main loop. The
layout conversion before the store is dropped because any layout can be written to the staging buffer. A buffer is
allocated as late as possible, so that it can reuse the memory of tiles that are dead by then, and lives until TMA has
read its last store. Stores after the join (`sink_epilogue`) do not change: there is no work left to overlap them with.
If a loop redefines the descriptor of a store, a wait for the stores through the previous descriptor precedes the new
definition.

Requires: `sink_epilogue`; stores that may be deferred (`analysis.memory.stores_must_not_wait`).
Ensures: neither a staging buffer nor a descriptor is written while TMA reads it; a proxy fence separates the write of
the buffer from the copy.
Source: PTX ISA, "cp.async.bulk.wait_group" (its `.read` ends the reads of the tensormap too) and "Async proxy".
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.memory.provenance import own_maker
from tawa.analysis.names import name_of
from tawa.analysis.rings.channels import ancestor_in
from tawa.dialects.tt import DescriptorStoreOp
from tawa.dialects.ttg import ConvertLayoutOp, LocalAllocOp, LocalDeallocOp, LocalStoreOp
from tawa.dialects.ttng import AsyncTMACopyLocalToGlobalOp, AsyncTMAStoreWaitOp, FenceAsyncSharedOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Builder, MemDescType, Module, TensorDescType, TensorType, Value, parse_type
from tawa.ir.attributes import bool_attr, int_attr
from tawa.plan import Plan
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class StageStores:
    """Options: the Plan, which may exclude a store (`staged=false`): it then waits right after the copy."""

    plan: Plan = Plan()

    def run(self, module: Module) -> PassResult:
        """Rewrites the TMA stores of every consumer; stores of one tile type share a buffer."""
        changed = False
        for op in list(module.walk()):
            group = GroupOp.of(op)
            if group is None or group.role != "consumer":
                continue
            found = [store for nested in op.walk() if (store := DescriptorStoreOp.of(nested))]
            stores = [store for store in found if self.plan.store(name_of(store.op)).staged is not False]
            buffers: dict[str, Value] = {}
            for maker in dict.fromkeys(own_maker(store.descriptor) for store in stores):
                if maker is not None:
                    _wait(Builder.before(maker))
            for store in stores:
                _stage(store, group, buffers)
            if stores:
                end = Builder.before(group.body.terminator)
                end.loc = stores[-1].op.loc
                _wait(end)
                for buffer in buffers.values():
                    end.create(LocalDeallocOp.NAME, (buffer,))
                changed = True
        return PassResult(changed)


def _buffer(type: str, store: DescriptorStoreOp, group: GroupOp, buffers: dict[str, Value]) -> Value:
    """The staging buffer for tiles of `type`, allocated before the group's operation that holds the first store."""
    if type not in buffers:
        builder = Builder.before(ancestor_in(group.body, store.op))
        builder.loc = store.op.loc
        buffers[type] = builder.create(LocalAllocOp.NAME, (), (type,), hints=("stage",)).result
    return buffers[type]


def _stage(store: DescriptorStoreOp, group: GroupOp, buffers: dict[str, Value]) -> None:
    tile, block = parse_type(store.source.type), parse_type(store.descriptor.type)
    assert isinstance(tile, TensorType) and isinstance(block, TensorDescType)
    type = MemDescType(block.block.shape, tile.element, block.block.encoding, mutable=True)
    buffer = _buffer(str(type), store, group, buffers)
    source, layout_change = store.source, _layout_change(store)
    if layout_change:
        source = layout_change.source
    builder = Builder.before(store.op)
    _wait(builder)
    builder.create(LocalStoreOp.NAME, (source, buffer))
    builder.create(FenceAsyncSharedOp.NAME, (), properties={"bCluster": bool_attr(False)})
    builder.create(AsyncTMACopyLocalToGlobalOp.NAME, (store.descriptor, *store.indices, buffer))
    store.op.erase()
    if layout_change and not layout_change.op.result.uses:
        layout_change.op.erase()


def _layout_change(store: DescriptorStoreOp) -> ConvertLayoutOp | None:
    return ConvertLayoutOp.of(store.source.defining_op)


def _wait(builder: Builder) -> None:
    builder.create(AsyncTMAStoreWaitOp.NAME, (), properties={"pendings": int_attr(0)})
