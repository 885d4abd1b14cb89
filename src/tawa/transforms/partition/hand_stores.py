"""Hand stores: a warp of its own issues TMA stores and reductions of tiles that the consumers stage in a ring.

    loop:                                    loop:
      descriptor_store C[m, n], %tile   →      aref.put %stage[%i] { ^(%slot): local_store %tile, %slot }
                                               %t = aref.get %stage[%i]
                                               async_tma_copy_local_to_global C[m, n], %t
                                               async_tma_store_wait 0            (TMA has read the slot)
                                               aref.consumed %stage[%i]

`partition` makes a partition of what follows the put. So the consumers wait only for a slot, not for TMA, and the
stores of an iteration leave while they compute. Stores of one tile type share a ring. A reduction (`descriptor_reduce`)
is handed over in the same way.

Requires: `insert_arefs`; the stores can be handed over (`analysis.rings.handed_stores`).
Ensures: the stores that the Plan gives to the store warp read slots of rings.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.layout.sliced_stores import unconverted
from tawa.analysis.names import name_of
from tawa.dialects.aref import ConsumedOp, CreateOp, FilledOp, FirstOp, GetOp, PutOp, RingType
from tawa.dialects.tt import DescriptorReduceOp, FuncOp, TMAStore, tma_store
from tawa.dialects.ttg import ConvertLayoutOp, LocalStoreOp
from tawa.dialects.ttng import AsyncTMACopyLocalToGlobalOp, AsyncTMAReduceOp, AsyncTMAStoreWaitOp
from tawa.ir import Block, Builder, MemDescType, Module, Operation, Region, TensorDescType, Value, parse_type
from tawa.ir.attributes import int_attr, string_attr
from tawa.plan import Plan
from tawa.transforms.partition.insert_arefs import thread_count
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class HandStores:
    """Options: the Plan, which says what the store warp stores, and through how many slots."""

    plan: Plan = Plan()

    def run(self, module: Module) -> PassResult:
        """Inserts one ring for the handed stores of each tile type."""
        function = next((view for op in module.body.ops if (view := FuncOp.of(op))), None)
        found = [view for op in (function.op.walk() if function else ()) if (view := tma_store(op))]
        handed = [it for it in found if self.plan.store(name_of(it.op)).store_warp]
        if function is None or not handed:
            return PassResult(changed=False)
        work = next((op.parent for op in function.op.walk() if CreateOp.matches(op) and op.parent), function.body)
        by_type: dict[str, list[TMAStore]] = {}
        for store in handed:
            by_type.setdefault(_slot_type(store), []).append(store)
        for number, (type, stores) in enumerate(by_type.items()):
            depth = max(self.plan.store(name_of(it.op)).of_slices[1] for it in stores)
            ring, first = _create(work, stores[0], f"stage{number}", RingType(depth, (type,)))
            thread_count(work, first, [_hand_over(it, ring, first, type) for it in stores])
        return PassResult(changed=True)


def _slot_type(store: TMAStore) -> str:
    block = parse_type(store.descriptor.type)
    assert isinstance(block, TensorDescType)
    return str(MemDescType(block.block.shape, block.block.element, block.block.encoding, mutable=True))


def _create(work: Block, store: TMAStore, name: str, type: RingType) -> tuple[Value, Value]:
    """Creates a ring of staged tiles at the start of the work; returns it and its count 0."""
    builder = Builder.at_start(work, store.op.loc)
    properties = {"name": string_attr(name), "fill": string_attr("threads"), "reader": string_attr("storer")}
    ring = builder.create(CreateOp.NAME, (), (str(type),), properties=properties, hints=(name,)).result
    return ring, builder.create(FirstOp.NAME, (ring,), (type.index_type,), hints=("count",)).result


def _hand_over(store: TMAStore, ring: Value, first: Value, type: str) -> tuple[Operation, Operation, Operation]:
    """Replaces a store; returns the put, the get and the release, whose counts are those of the ring's begin."""
    builder, body = Builder.before(store.op), Block([type], ["slot"])
    change = ConvertLayoutOp.of(store.source.defining_op)
    put = builder.create(PutOp.NAME, (ring, first), regions=[Region([body])])
    inside = Builder.at_end(body, put.loc)
    inside.create(LocalStoreOp.NAME, (unconverted(store), body.args[0]))
    inside.create(FilledOp.NAME)
    get = builder.create(GetOp.NAME, (ring, first), (type,), hints=("staged",))
    copy = AsyncTMAReduceOp.NAME if DescriptorReduceOp.matches(store.op) else AsyncTMACopyLocalToGlobalOp.NAME
    operands = (store.descriptor, *store.indices, get.results[0])
    builder.create(copy, operands, properties=dict(store.op.properties))
    builder.create(AsyncTMAStoreWaitOp.NAME, (), properties={"pendings": int_attr(0)})
    consumed = builder.create(ConsumedOp.NAME, (ring, first))
    store.op.erase()
    if change and not change.op.result.uses:
        change.op.erase()
    return put, get, consumed
