"""Insert arefs: routes loads that feed dots through rings. The program stays sequential with the same semantics.

    for k:                                            i0 = aref.first(r)
      a = descriptor_load A[m, k]                     for k, i = i0:
      b = descriptor_load B[k, n]              →        aref.put(r, i) { descriptor_load A, B }
      x = local_alloc a; y = local_alloc b              x, y = aref.get(r, i)
      acc = dot(x, y, acc)                              n = aref.advance(i)
                                                        acc = dot(x, y, acc)
                                                        aref.consumed(r, i)

The running count is carried through every loop and branch around a site, so that it spans the whole kernel. The one
exception are guards (`tawa.analysis.rings.guards`): the rings are created inside of them.

A descriptor that a loop redefines has one location in global memory, which TMA reads at any time between the issue and
the completion of a copy. So a wait for all earlier copies (`landed`) precedes the definition, for each ring that the
descriptor feeds. It does not wait for the consumer: the slots may still be full, and the consumer keeps working.

    for g:                                            for g:
      d = make_tensor_descriptor                        aref.landed(r, i)
      for k:                                            d = make_tensor_descriptor
        a = descriptor_load d[m, k]            →        for k, i = …:
        …                                                 aref.put(r, i) { descriptor_load d } …

Channels that a converter fills are left to `transpose_operands`.

A number that only the producer may compute (`tawa.analysis.rings.sent_numbers`) crosses in a ring of its own, right
before its first use.

    while %tile … {                                   while %tile, i … {
      work                                              work
      %ticket = atomic_rmw add, %counter, 1             %ticket = atomic_rmw add, %counter, 1
      %next = addi %ticket, %programs          →        %next = addi %ticket, %programs
      yield %next }                                     aref.put(r, i) { splat %next }
                                                        %v = aref.get(r, i); %n = unsplat(local_load %v)
                                                        aref.consumed(r, i); yield %n, …

Requires: channels and sent numbers of this module; the Plan has the depth of each ring.
Ensures: each load of a channel is inside a put; each slot is released once, after its last reader. A sent number is
used only by the put; everything else uses what comes out of the ring.
Source: arXiv 2510.14719, section 4 (tuple payloads, loads that feed one dot share an aref).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tawa.analysis.memory.provenance import remade_for
from tawa.analysis.rings.channels import ChannelInfo, SiteInfo, ancestor_in, row_reads
from tawa.analysis.rings.guards import find_guards
from tawa.analysis.rings.sent_numbers import NOTHING_SENT, NUMBER_PAYLOAD, NUMBER_SLOT, SentInfo, number_layout
from tawa.dialects import aref
from tawa.dialects.aref import RingType
from tawa.dialects.control_flow import carry_through
from tawa.dialects.tt import DescriptorLoadOp, FuncOp, SplatOp, UnsplatOp
from tawa.dialects.ttg import LocalLoadOp
from tawa.ir import Block, Builder, Module, Operation, Region, Value
from tawa.ir.attributes import string_attr
from tawa.plan import Plan
from tawa.transforms.lowering.slots import make_mutable
from tawa.transforms.result import PassResult

_SHARED = "#smem"  # the alias that the payload types of channels use
_NUMBER_SLOT = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>"
_NUMBER_TILE = "#ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [{}], order = [0]}}>"


@dataclass(frozen=True, slots=True)
class InsertArefs:
    """Options: the channels and numbers found in the module, and the Plan that gives each ring its depth."""

    channels: tuple[ChannelInfo, ...]
    plan: Plan
    sent: SentInfo = NOTHING_SENT

    def run(self, module: Module) -> PassResult:
        """Rewrites every site of every channel."""
        depths = {ring.name: ring.slots for ring in self.plan.rings}
        if self.channels:  # not yet defined if all dots of the kernel read registers
            module.aliases.setdefault(_SHARED, "#ttg.shared_memory")
        function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
        loads = [info.load.op for channel in self.channels for site in channel.sites for info in site.loads]
        work = find_guards(function, loads).work
        for channel in self.channels:
            if not channel.converted:
                _insert_ring(work, function.op.loc, channel, depths[channel.name])
        if self.sent.numbers:
            layouts = _number_layouts(module, self.plan)
            for name, value in zip(self.sent.names, self.sent.values, strict=True):
                _insert_number(work, value, name, depths[name], layouts)
        return PassResult(changed=bool(self.channels))


def _insert_ring(work: Block, loc: str, channel: ChannelInfo, depth: int) -> None:
    ring, first = create_ring(work, loc, channel, depth)
    triples = [_rewrite_site(ring, first, site) for site in channel.sites]
    puts = {put for put, _, _ in triples}
    thread_count(work, first, triples, _wait_for_copies(work, ring, first, puts))


def create_ring(work: Block, loc: str, channel: ChannelInfo, depth: int) -> tuple[Value, Value]:
    """Creates the ring of a channel at the start of the work; returns it and its count 0."""
    builder = Builder.at_start(work, loc)
    type = RingType(depth, channel.payload)
    properties = {"name": string_attr(channel.name)}
    if channel.fill != "tma":
        properties["fill"] = string_attr(channel.fill)
    if channel.to_converter:
        properties["reader"] = string_attr("converter")
    ring = builder.create(aref.CreateOp.NAME, (), (str(type),), properties=properties, hints=(channel.name,)).result
    first = builder.create(aref.FirstOp.NAME, (ring,), (type.index_type,), hints=("count",)).result
    return ring, first


def thread_count(
    work: Block,
    first: Value,
    triples: Sequence[tuple[Operation, Operation, Operation]],
    waits: Iterable[Operation] = (),
) -> None:
    """Carries the running count of a ring to its puts, gets and releases, given as triples, and to `waits`."""
    thread(work, first, {*waits, *(op for put, get, _ in triples for op in (put, get))})
    for _, get, consumed in triples:
        consumed.set_operand(aref.ConsumedOp.index.index, aref.GetOp(get).index)


def _number_layouts(module: Module, plan: Plan) -> dict[str, str]:
    """The layouts of a tile of one number, by the role of the partition whose threads all hold it."""
    module.aliases.setdefault(NUMBER_SLOT, _NUMBER_SLOT)
    found: dict[str, str] = {}
    for part in plan.partitions:
        name = number_layout(part.num_warps)
        module.aliases.setdefault(name, _NUMBER_TILE.format(part.num_warps))
        found.setdefault(part.role, name)
    return found


def _insert_number(work: Block, value: Value, name: str, depth: int, layouts: dict[str, str]) -> None:
    """Sends a number through a ring, right before its first use."""
    number = value.defining_op
    assert number is not None and number.parent is not None
    block = number.parent
    builder = Builder.at_start(work, number.loc)
    type = RingType(depth, (NUMBER_PAYLOAD,))
    properties = {"name": string_attr(name), "fill": string_attr("number")}
    ring = builder.create(aref.CreateOp.NAME, (), (str(type),), properties=properties, hints=(name,)).result
    first = builder.create(aref.FirstOp.NAME, (ring,), (type.index_type,), hints=("count",)).result
    user = min((ancestor_in(block, use.op) for use in value.uses), key=block.index_of)
    here, body = Builder.before(user), Block()
    here.loc = number.loc
    put = here.create(aref.PutOp.NAME, (ring, first), regions=[Region([body])])
    get = here.create(aref.GetOp.NAME, (ring, first), (NUMBER_PAYLOAD,), hints=(value.hint,))
    tile = f"tensor<1x{value.type}, {{}}>"
    load = here.create(LocalLoadOp.NAME, get.results, (tile.format(layouts["consumer"]),))
    received = here.create(UnsplatOp.NAME, load.results, (value.type,), hints=(value.hint,)).result
    consumed = here.create(aref.ConsumedOp.NAME, (ring, first))
    value.replace_all_uses_with(received)
    inside = Builder.at_end(body, number.loc)
    splat = inside.create(SplatOp.NAME, (value,), (tile.format(layouts["producer"]),))
    inside.create(aref.FilledOp.NAME, splat.results)
    thread(work, first, {put, get})
    consumed.set_operand(aref.ConsumedOp.index.index, aref.GetOp(get).index)


def _rewrite_site(ring: Value, first: Value, site: SiteInfo) -> tuple[Operation, Operation, Operation]:
    """Replaces the loads of a site by put, get and consumed; `thread` sets their counts."""
    last_load = site.loads[-1].load.op
    builder = Builder.before(last_load)
    loads = [info.load.op for info in site.loads]
    body = Block()
    put = builder.create(aref.PutOp.NAME, (ring, first), regions=[Region([body])])
    get = builder.create(
        aref.GetOp.NAME, (ring, first), [str(info.payload) for info in site.loads], hints=[_name(op) for op in loads]
    )
    for info, view in zip(site.loads, get.results, strict=True):
        for read in row_reads(info):
            tile = Builder.before(read.place).create(LocalLoadOp.NAME, (view,), (read.value.type,), hints=(view.hint,))
            read.value.replace_all_uses_with(tile.result)
            change = read.value.defining_op
            if change is not None and change is not info.load.op:
                change.erase()
        _use_view(info.load.op.result, view, info.allocations, builder)
    release = Builder.before(last_load) if site.last_use is last_load else Builder.after(site.last_use)
    consumed = release.create(aref.ConsumedOp.NAME, (ring, first))
    for op in loads:
        body.append(op.detach())
    body.append(Operation(aref.FilledOp.NAME, [op.result for op in loads], loc=put.loc))
    return put, get, consumed


def _wait_for_copies(work: Block, ring: Value, first: Value, puts: set[Operation]) -> list[Operation]:
    """Inserts waits before descriptors that loops redefine, until no copy of the ring uses the previous one."""
    loads = [load for put in puts for op in put.walk() if (load := DescriptorLoadOp.of(op))]
    makers = {maker for load in loads if (maker := remade_for(load)) is not None}
    waits: list[Operation] = []
    for maker in [op for outer in work.ops for op in outer.walk() if op in makers]:
        block = maker.parent
        assert block is not None
        before = block.ops[: block.index_of(maker)]
        since = next((before[number:] for number in reversed(range(len(before))) if before[number] in waits), None)
        if since is None or any(nested in puts for op in since for nested in op.walk()):
            waits.append(Builder.before(maker).create(aref.LandedOp.NAME, (ring, first)))
    return waits


def _use_view(tile: Value, view: Value, allocations: tuple[Operation, ...], builder: Builder) -> None:
    """Redirects the users of a loaded tile: allocations become the view of the slot, others a load into registers."""
    for allocation in allocations:
        allocation.result.replace_all_uses_with(view)
        allocation.erase()
    make_mutable(view, builder)
    if tile.uses:
        tile.replace_all_uses_with(builder.create(LocalLoadOp.NAME, (view,), (tile.type,), hints=(tile.hint,)).result)


def thread(block: Block, count: Value, accesses: set[Operation]) -> Value:
    """Threads the running count through `block`; returns its value at the end."""
    current: Value = count
    for op in list(block.ops):
        if op in accesses:
            op.set_operand(1, current)
            if aref.GetOp.matches(op):
                advanced = Builder.after(op).create(aref.AdvanceOp.NAME, (current,), (current.type,), hints=("count",))
                current = advanced.result
        elif any(access in accesses for access in op.walk()):
            current = carry_through(op, current, lambda inner, start: thread(inner, start, accesses), "count")
    return current


def _name(load: Operation) -> str:
    return load.result.hint
