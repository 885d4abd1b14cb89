"""Stage stores: TMA stores of the consumer leave from a staging buffer whose wait is deferred to its next use.

    c = convert_layout acc            stage = local_alloc                     (once, at the top of the consumer)
    descriptor_store C[m, n], c   →   async_tma_store_wait 0                  (the buffer's last store has left)
                                      local_store acc, stage
                                      fence_async_shared
                                      async_tma_copy_local_to_global C[m, n], stage
                                      …
                                      async_tma_store_wait 0                  (once, at the end)

Triton's own lowering waits right behind each store. Here the store of a tile overlaps the next tile's main loop. The layout
change before the store is dropped: the staging buffer is written from any layout. Behind the last access of a ring
the buffer is the ring's own memory (`aref.reuse`): a kernel with one tile a program needs no room for staging.

Requires: `partition`; store sources have no reader but the store where a layout change is dropped.
Ensures: a staging buffer is never written while TMA reads it; the proxy fence stands between write and copy.
Source: PTX ISA, "cp.async.bulk.wait_group" and "Async proxy".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.analysis.channels import ancestor_in
from tawa.dialects.aref import CreateOp
from tawa.dialects.tt import DescriptorStoreOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Builder, MemDescType, Module, Operation, TensorDescType, TensorType, Value, parse_type
from tawa.ir.attributes import bool_attr, int_attr
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class StageStores:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Rewrites every TMA store of every consumer; stores of one tile type share a buffer."""
        rings = [view for op in module.walk() if (view := CreateOp.of(op))]
        changed = False
        for op in list(module.walk()):
            group = GroupOp.of(op)
            if group is None or group.role != "consumer":
                continue
            stores = [store for nested in op.walk() if (store := DescriptorStoreOp.of(nested))]
            room = _Room(group, _spare_entries(group, rings, stores))
            for store in stores:
                _stage(store, room)
            if stores:
                end = Builder.before(group.body.terminator)
                end.loc = stores[-1].op.loc
                _wait(end)
                changed = True
        return PassResult(changed)


@dataclass(slots=True)
class _Room:
    """Where staging buffers come from: spare payload entries of finished rings first, new memory otherwise."""

    group: GroupOp
    spare: list[tuple[CreateOp, int, int]]  # ring, entry, bytes
    buffers: dict[str, Value] = field(default_factory=dict[str, Value])

    def buffer(self, type: MemDescType, store: DescriptorStoreOp) -> Value:
        """The staging buffer for tiles of `type`."""
        text = str(type)
        if text not in self.buffers:
            fitting = [entry for entry in self.spare if entry[2] >= type.bytes]
            if fitting:
                ring, entry, _ = chosen = min(fitting, key=lambda candidate: candidate[2])
                self.spare.remove(chosen)
                before = Builder.before(ancestor_in(self.group.body, store.op))
                before.loc = store.op.loc
                made = before.create(
                    "aref.reuse", (ring.op.result,), (text,), properties={"entry": int_attr(entry)}, hints=("stage",)
                )
            else:
                top = Builder.at_start(self.group.body, store.op.loc)
                made = top.create("ttg.local_alloc", (), (text,), hints=("stage",))
            self.buffers[text] = made.result
        return self.buffers[text]


def _spare_entries(
    group: GroupOp, rings: list[CreateOp], stores: list[DescriptorStoreOp]
) -> list[tuple[CreateOp, int, int]]:
    """Payload entries of rings whose last access by this group stands before the first store."""
    if not stores:
        return []
    body = group.body
    first = min(body.index_of(ancestor_in(body, store.op)) for store in stores)
    spare: list[tuple[CreateOp, int, int]] = []
    for ring in rings:
        accesses = [user for user in ring.op.result.users if group.op.is_ancestor_of(user)]
        if all(body.index_of(ancestor_in(body, access)) < first for access in accesses):
            for entry, text in enumerate(ring.type.payload):
                buffer = parse_type(text)
                assert isinstance(buffer, MemDescType)
                spare.append((ring, entry, ring.type.depth * buffer.bytes))
    return spare


def _stage(store: DescriptorStoreOp, room: _Room) -> None:
    tile, block = parse_type(store.source.type), parse_type(store.descriptor.type)
    assert isinstance(tile, TensorType) and isinstance(block, TensorDescType)
    buffer = room.buffer(MemDescType(block.block.shape, tile.element, block.block.encoding, mutable=True), store)
    source, layout_change = store.source, _layout_change(store)
    if layout_change:
        source = layout_change.operands[0]
    builder = Builder.before(store.op)
    _wait(builder)
    builder.create("ttg.local_store", (source, buffer))
    builder.create("ttng.fence_async_shared", (), properties={"bCluster": bool_attr(False)})
    builder.create("ttng.async_tma_copy_local_to_global", (store.descriptor, *store.indices, buffer))
    store.op.erase()
    if layout_change and not layout_change.result.uses:
        layout_change.erase()


def _layout_change(store: DescriptorStoreOp) -> Operation | None:
    op = store.source.defining_op
    return op if op is not None and op.name == "ttg.convert_layout" else None


def _wait(builder: Builder) -> None:
    builder.create("ttng.async_tma_store_wait", (), properties={"pendings": int_attr(0)})
