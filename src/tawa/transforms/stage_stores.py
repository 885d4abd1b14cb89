"""Stage stores: TMA stores of the consumer leave from a staging buffer whose wait is deferred to its next use.

    c = convert_layout acc            stage = local_alloc                     (once, at the top of the consumer)
    descriptor_store C[m, n], c   →   async_tma_store_wait 0                  (the buffer's last store has left)
                                      local_store acc, stage
                                      fence_async_shared
                                      async_tma_copy_local_to_global C[m, n], stage
                                      …
                                      async_tma_store_wait 0                  (once, at the end)

Triton's own lowering waits right behind each store. Here the store of a tile overlaps the next tile's main loop. The layout
change before the store is dropped: the staging buffer is written from any layout.

Requires: `partition`; store sources have no reader but the store where a layout change is dropped.
Ensures: a staging buffer is never written while TMA reads it; the proxy fence stands between write and copy.
Source: PTX ISA, "cp.async.bulk.wait_group" and "Async proxy".
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.tt import DescriptorStoreOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Builder, MemDescType, Module, TensorDescType, TensorType, Value, parse_type
from tawa.ir.attributes import bool_attr, int_attr
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class StageStores:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Rewrites every TMA store of every consumer; stores of one tile type share a buffer."""
        changed = False
        for op in list(module.walk()):
            group = GroupOp.of(op)
            if group is None or group.role != "consumer":
                continue
            buffers: dict[str, Value] = {}
            for nested in list(op.walk()):
                store = DescriptorStoreOp.of(nested)
                if store:
                    _stage(module, group, store, buffers)
            if buffers:
                end = Builder.before(group.body.terminator)
                end.loc = next(iter(buffers.values())).defining_op.loc  # type: ignore[union-attr]
                _wait(end)
                changed = True
        return PassResult(changed)


def _stage(module: Module, group: GroupOp, store: DescriptorStoreOp, buffers: dict[str, Value]) -> None:
    tile, block = parse_type(store.source.type), parse_type(store.descriptor.type)
    assert isinstance(tile, TensorType) and isinstance(block, TensorDescType)
    encoding = block.block.encoding
    buffer_type = str(MemDescType(block.block.shape, tile.element, encoding, mutable=True))
    if buffer_type not in buffers:
        top = Builder.at_start(group.body, store.op.loc)
        buffers[buffer_type] = top.create("ttg.local_alloc", (), (buffer_type,), hints=("stage",)).result
    buffer = buffers[buffer_type]
    source, layout_change = store.source, store.source.defining_op
    dropped = layout_change is not None and layout_change.name == "ttg.convert_layout"
    if layout_change is not None and dropped:
        source = layout_change.operands[0]
    builder = Builder.before(store.op)
    _wait(builder)
    builder.create("ttg.local_store", (source, buffer))
    builder.create("ttng.fence_async_shared", (), properties={"bCluster": bool_attr(False)})
    builder.create("ttng.async_tma_copy_local_to_global", (store.descriptor, *store.indices, buffer))
    store.op.erase()
    if layout_change is not None and dropped and not layout_change.result.uses:
        layout_change.erase()


def _wait(builder: Builder) -> None:
    builder.create("ttng.async_tma_store_wait", (), properties={"pendings": int_attr(0)})
