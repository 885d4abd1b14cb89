"""Insert exchanges: a tile that consumer groups exchange goes through a ring of each group, which all groups read.

    for k:                                            for k, i:
      %x = local_alloc %ds {tawa.exchanged}             aref.put %r0[%i] {own} { ^(%slot): local_store %ds, %slot }
      %dq = dot trans %x0[…], %k0, 0             →      %x0 = aref.get %r0[%i]; %x1 = aref.get %r1[%i]
      %dq = dot trans %x1[…], %k1, %dq                  %dq = dot trans %x0[…], %k0, 0
                                                        %dq = dot trans %x1[…], %k1, %dq
                                                        aref.consumed %r0[%i]; aref.consumed %r1[%i]

`own`: the ring of the group that executes it, once that is known (`resolve_groups`). Tiles of one type share the rings.
A tile that one group owns has one ring, which only that group fills (`owner`).
With two slots, a group that stores a tile has got those before it, which the others stored after they had left the ones
before that: no barriers for empty slots are needed (`implied_empty`), which the barrier check proves.

Requires: `insert_arefs`, `exchange_parts`. Ensures: no exchanged buffers are left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tawa.analysis.rings.channels import slot_readers
from tawa.analysis.rings.exchanges import EXCHANGED, OWNER, owners, shared_ring
from tawa.dialects.aref import ConsumedOp, CreateOp, FilledOp, FirstOp, GetOp, PutOp, RingType
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import LocalAllocOp, LocalStoreOp
from tawa.ir import Block, Builder, Module, Operation, Region, Value, memdesc_type
from tawa.ir.attributes import bool_attr, read_int, string_attr
from tawa.transforms.lowering.slots import make_mutable
from tawa.transforms.partition.insert_arefs import thread
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class InsertExchanges:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Rewrites every exchanged buffer."""
        function = next((view for op in module.body.ops if (view := FuncOp.of(op))), None)
        found = [view for op in (function.op.walk() if function else ()) if (view := LocalAllocOp.of(op))]
        alike: dict[str, list[LocalAllocOp]] = {}
        for alloc in found:
            if EXCHANGED in alloc.op.attributes:
                alike.setdefault(shared_ring(alloc.op), []).append(alloc)
        for number, allocs in enumerate(alike.values()):
            assert function is not None
            work = next((op.parent for op in function.op.walk() if CreateOp.matches(op) and op.parent), function.body)
            slots = read_int(allocs[0].op.attributes[EXCHANGED])
            slot = str(replace(memdesc_type(allocs[0].op.result.type), mutable=True))
            groups = 1 + max(max(owners(it.op.result)) for it in allocs)
            rings = [
                _create(work, allocs[0], f"exchange{number}_{group}", RingType(slots, (slot,)))
                for group in range(groups)
            ]
            builder = Builder.after(rings[0].defining_op) if rings[0].defining_op else Builder.at_start(work, "")
            index = RingType(slots, (slot,)).index_type
            first = builder.create(FirstOp.NAME, (rings[0],), (index,), hints=("count",)).result
            sites = [_exchange(it, rings, first, slot) for it in allocs]
            thread(work, first, {op for put, accesses in sites for op in (put, accesses[0])})
            for _, (get, *others) in sites:
                for access in others:
                    access.set_operand(GetOp.index.index, GetOp(get).index)
        return PassResult(bool(alike))


def _create(work: Block, alloc: LocalAllocOp, name: str, type: RingType) -> Value:
    builder = Builder.at_start(work, alloc.op.loc)
    properties = {"name": string_attr(name), "fill": string_attr("threads"), "implied_empty": bool_attr(True)}
    return builder.create(CreateOp.NAME, (), (str(type),), properties=properties, hints=(name,)).result


def _exchange(alloc: LocalAllocOp, rings: list[Value], first: Value, slot: str) -> tuple[Operation, list[Operation]]:
    """Replaces a buffer; returns the put, and the gets and releases, whose counts are those of the rings' begin."""
    assert alloc.source is not None
    block, body = alloc.op.parent, Block([slot], ["slot"])
    assert block is not None
    builder = Builder.before(alloc.op)
    owner = alloc.op.attributes.get(OWNER)
    by = {"own": bool_attr(True)} if owner is None else {"owner": owner}
    put = builder.create(PutOp.NAME, (rings[0], first), properties=by, regions=[Region([body])])
    inside = Builder.at_end(body, put.loc)
    inside.create(LocalStoreOp.NAME, (alloc.source, body.args[0]))
    inside.create(FilledOp.NAME)
    gets, last = list[Operation](), alloc.op
    for group, casts in sorted(owners(alloc.op.result).items()):
        get = builder.create(GetOp.NAME, (rings[group], first), (slot,), hints=(alloc.op.result.hint,))
        gets.append(get)
        for cast in casts:
            cast.result.replace_all_uses_with(get.results[0])
            cast.erase()
        make_mutable(get.results[0], builder)
        readers = [it for reader in slot_readers(get.results[0]) if (it := reader.within(block))]
        last = max((last, *readers), key=block.index_of)
    behind = Builder.after(last)
    releases = [behind.create(ConsumedOp.NAME, get.operands) for get in gets]
    alloc.op.erase()
    return put, [*gets, *releases]
