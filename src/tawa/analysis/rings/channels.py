"""Channels: which loads are grouped into one put, and which of these groups share a ring.

Loads in one block that feed the same dots, or for which the Plan asks for one ring, and that fill their slots in the
same way (`fill`) are one *site*: one put fills one slot with all of their tiles. Sites whose live ranges never overlap
(consecutive loops, the branches of an ``if``) share one ring and its running count, if the payload of one begins with
that of the other: a put may fill only the first buffers of its slot.

A tile that a converter transposes goes through two channels: from the producer to the converter as it is stored, and
from there to the consumers as their dots read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from tawa.analysis.dims.dependents import dependent_values
from tawa.analysis.rings.loads import DotLoadInfo
from tawa.dialects.aref import Fill
from tawa.dialects.arith import constant_int
from tawa.dialects.inline.markers import GroupIndexOp
from tawa.dialects.scf import ForOp, IfOp, enclosing_loops
from tawa.dialects.tcgen05 import ACCUMULATOR
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import VIEWS, ConvertLayoutOp, LocalLoadOp
from tawa.ir import Block, Module, Operation, Value

TRANSPOSED = "_transposed"
"""Behind the name of a ring: the ring that a converter fills with its tiles."""


@dataclass(frozen=True, slots=True, eq=False)
class SiteInfo:
    """One place where a ring is filled and read: the loads of one put, in textual order.

    converted: whether the slot has the transposed tiles of these loads. repeated: the loads that a put makes once more
    for each further consumer group, each of which reads its own tile; the groups share the other tiles.
    """

    loads: tuple[DotLoadInfo, ...]
    last_use: Operation
    converted: bool = False
    repeated: tuple[DotLoadInfo, ...] = ()

    @property
    def block(self) -> Block:
        """The block of the loads."""
        block = self.loads[0].load.op.parent
        assert block is not None
        return block

    @property
    def payload(self) -> tuple[str, ...]:
        """The types of the buffers of one slot."""
        transposed = [info.transposed for info in self.loads if info.transposed and self.converted]
        return tuple(str(it.payload) for it in transposed or self.loads)

    @property
    def fill(self) -> Fill:
        """How a slot is filled."""
        return "stores" if self.converted else self.loads[0].fill

    @property
    def fills(self) -> int | None:
        """How often a program fills a slot here, if all branches are taken; None if unknown at compile time."""
        return _trips(self.loads[0].load.op)

    @property
    def slot_bytes(self) -> int:
        """Bytes of one slot: the transaction bytes of one put."""
        return sum(info.payload.bytes for info in self.loads)


@dataclass(frozen=True, slots=True, eq=False)
class ChannelInfo:
    """One future ring: its name and its sites, in textual order. groups: that share a slot, if loads are repeated."""

    name: str
    sites: tuple[SiteInfo, ...]
    groups: int = 1

    @property
    def payload(self) -> tuple[str, ...]:
        """The types of the buffers of one slot: those of the site that fills most of them."""
        return _longest(self.sites)

    @property
    def fill(self) -> Fill:
        """How a slot is filled."""
        return self.sites[0].fill

    @property
    def converted(self) -> bool:
        """Whether a converter fills the ring."""
        return self.sites[0].converted

    @property
    def to_converter(self) -> bool:
        """Whether a converter reads the ring."""
        return not self.converted and self.sites[0].loads[0].transposed is not None

    @property
    def fills(self) -> int | None:
        """How often a program fills a slot; None if unknown at compile time."""
        each = [site.fills for site in self.sites]
        return None if None in each else sum(it or 0 for it in each)

    @property
    def slot_bytes(self) -> int:
        """Bytes of one slot."""
        repeated = sum(info.payload.bytes for info in self.sites[0].repeated)
        return max(site.slot_bytes for site in self.sites) + (self.groups - 1) * repeated


def find_channels(
    loads: list[DotLoadInfo], rings: Mapping[Operation, str] | None = None, groups: int = 1
) -> list[ChannelInfo]:
    """Groups loads into sites and sites into channels, in textual order.

    rings: requested ring names by load. Only loads with the same name, or without any, are grouped; those with the same
    name fill one slot also if they feed different dots, or if only some of them are tiles of one consumer group. Loads
    with the same name that cannot share a ring become two channels of that name. groups: of consumers.
    """
    puts: list[list[DotLoadInfo]] = []
    rings = rings or {}
    own = _of_one_group(loads)
    for info in loads:
        for put in puts:
            asked = rings.get(info.load.op)
            same_ring = asked == rings.get(put[0].load.op)
            alike = asked is not None or (info in own) is (put[0] in own)
            if same_ring and alike and _share_put(put, info, asked is not None):
                put.append(info)
                break
        else:
            puts.append([info])
    channels: list[tuple[str | None, list[SiteInfo]]] = []
    for put in puts:
        mixed = {info in own for info in put} == {True, False}
        repeated = tuple(info for info in put if mixed and info in own)
        site, ring = SiteInfo(tuple(put), _last_use(put), repeated=repeated), rings.get(put[0].load.op)
        for name, sites in channels:
            if name == ring and _share(sites, site):
                sites.append(site)
                break
        else:
            channels.append((ring, [site]))
    free = (name for number in count() if (name := f"ring{number}") not in rings.values())
    found = [
        ChannelInfo(name or next(free), tuple(sites), groups if sites[0].repeated else 1) for name, sites in channels
    ]
    return [*found, *(_behind_converter(channel) for channel in found if channel.to_converter)]


def _behind_converter(channel: ChannelInfo) -> ChannelInfo:
    """The ring that a converter fills with the tiles of another ring."""
    sites = [SiteInfo(it.loads, _last_use(it.loads, converted=True), converted=True) for it in channel.sites]
    return ChannelInfo(f"{channel.name}{TRANSPOSED}", tuple(sites))


def _share(sites: list[SiteInfo], site: SiteInfo) -> bool:
    """Whether a site can use the ring of other sites."""
    transposed = [it.loads[0].transposed is not None for it in (sites[0], site)]
    before, own = _longest(sites), site.payload
    same = all(one == other for one, other in zip(before, own, strict=False))
    same = same and sites[0].fill == site.fill and transposed[0] == transposed[1]
    same = same and not sites[0].repeated and not site.repeated
    return same and all(_disjoint(other, site) for other in sites)


def _longest(sites: Sequence[SiteInfo]) -> tuple[str, ...]:
    return max((site.payload for site in sites), key=len)


def slot_readers(view: Value) -> list[Operation]:
    """Operations that access a buffer through `view` or through views of it; readers, if it is a slot that was got."""
    readers: list[Operation] = []
    for user in view.users:
        if user.name in VIEWS:
            readers += slot_readers(user.result)
        else:
            readers.append(user)
    return readers


def ancestor_in(block: Block, op: Operation) -> Operation:
    """The operation of `block` that is `op` or contains it. Raises ValueError if `op` is not inside `block`."""
    found = op.within(block)
    if found is not None:
        return found
    raise ValueError(f"{op.name} is not inside the block")


def _trips(op: Operation) -> int | None:
    """How often an operation is executed, if all loops around it have constant trip counts; else None."""
    total = 1
    for outer in enclosing_loops(op):
        loop = ForOp.of(outer)
        bounds = [constant_int(bound) for bound in loop.bounds] if loop else [None]
        if loop is None or None in bounds:
            return None
        lower, upper, step = (bound or 0 for bound in bounds)
        trips = loop.trips(lower, upper, step)
        if trips is None:
            return None
        total *= trips
    return total


def _of_one_group(loads: list[DotLoadInfo]) -> list[DotLoadInfo]:
    """The loads of a split program whose tiles depend on the consumer group; all others are shared by the groups."""
    function = next((view for info in loads[:1] for op in info.load.op.ancestors() if (view := FuncOp.of(op))), None)
    if function is None:
        return []
    dependent = _dependent(function)
    return [info for info in loads if any(operand in dependent for operand in info.load.op.operands)]


def _dependent(function: FuncOp) -> set[Value]:
    """The values that depend on the consumer group. How often a loop loads is not a part of what it loads."""
    return dependent_values(function.body, lambda op: GroupIndexOp.of(op) is not None)


def _share_put(group: list[DotLoadInfo], info: DotLoadInfo, asked: bool) -> bool:
    """Same block, same dots, same fill and readers, and no use of an earlier tile of the group before this load.

    asked: whether a ring is requested for them; then they may feed different dots.
    """
    first = group[0].load.op
    op = info.load.op
    if info.fill != group[0].fill or op.parent is not first.parent:
        return False
    if (info.transposed is None) is not (group[0].transposed is None):
        return False
    if not asked and set(map(id, group[0].dots)) != set(map(id, info.dots)):
        return False
    if any(ACCUMULATOR in dot.attributes for dot in info.dots) and _read_by_threads(info) != _read_by_threads(group[0]):
        return False  # the dots have a partition of their own
    block = op.parent
    assert block is not None
    position = block.index_of(op)
    return all(
        block.index_of(ancestor_in(block, reader)) > position for other in group for reader in _tile_readers(other)
    )


def _read_by_threads(info: DotLoadInfo) -> bool:
    """Whether threads read the tile, and not only dots."""
    loaded = (it for alloc in info.allocations for it in slot_readers(alloc.result) if LocalLoadOp.matches(it))
    return info.through_registers or info.beside or any(loaded)


def _tile_readers(info: DotLoadInfo) -> list[Operation]:
    """Operations that use the loaded tile: readers of the slot, and users of the tile in registers."""
    readers = [reader for allocation in info.allocations for reader in slot_readers(allocation.result)]
    return readers + [user for user in info.load.op.result.users if user not in info.allocations]


def _last_use(group: Sequence[DotLoadInfo], converted: bool = False) -> Operation:
    """The last operation of the loads' block that reads their slot. converted: the slot of the transposed tiles."""
    block = group[0].load.op.parent
    assert block is not None
    last = group[-1].load.op
    for info in group:
        # A tile that goes to registers is read directly after the get; only views keep the slot live.
        for allocation in info.replaced if converted else info.allocations:
            for reader in slot_readers(allocation.result):
                ancestor = ancestor_in(block, reader)
                if block.index_of(ancestor) > block.index_of(last):
                    last = ancestor
        for read in row_reads(info):
            if block.index_of(read.place) > block.index_of(last):
                last = read.place
    return last


@dataclass(frozen=True, slots=True, eq=False)
class RowRead:
    """A read of a row from its slot. value: what it replaces. place: the operation before which it is read."""

    value: Value
    place: Operation


def row_reads(info: DotLoadInfo) -> list[RowRead]:
    """The reads of a row that travels with a tile, each in the layout and at the place where it is used."""
    op = info.load.op
    block = op.parent
    assert block is not None
    if not info.beside:
        return []
    values = dict.fromkeys(user.result if ConvertLayoutOp.matches(user) else op.result for user in op.result.users)
    used = {value: [ancestor_in(block, user) for user in value.users] for value in values if value.uses}
    return [RowRead(value, min(places, key=block.index_of)) for value, places in used.items()]


def _disjoint(first: SiteInfo, second: SiteInfo) -> bool:
    """Whether, in every run, one site ends before the other begins.

    Two sites in one block, or one in a block nested in that of the other, count as overlapping: with wgmmas in flight,
    the first slot is released after the second get, and each site may wait for the slot that the other holds.
    """
    chain = _block_chain(first.block)
    if second.block in chain or first.block in _block_chain(second.block):
        return False
    block = next(block for block in _block_chain(second.block) if block in chain)
    holder = ancestor_in(block, first.loads[0].load.op)
    if holder is ancestor_in(block, second.loads[0].load.op) and first.block is not block:
        return IfOp.of(holder) is not None  # different branches of one `if`: never both
    start, end = _interval(first, block)
    other_start, other_end = _interval(second, block)
    return end < other_start or other_end < start


def _interval(site: SiteInfo, block: Block) -> tuple[int, int]:
    begin = block.index_of(ancestor_in(block, site.loads[0].load.op))
    return begin, block.index_of(ancestor_in(block, site.last_use))


def _block_chain(block: Block) -> list[Block]:
    chain = [block]
    op = block.parent_op
    while op is not None and op.parent is not None:
        chain.append(op.parent)
        op = op.parent_op
    return chain


def channels_of_groups(module: Module, channels: Sequence[ChannelInfo]) -> list[str]:
    """Names of the channels all of whose tiles depend on the number of the consumer group that reads them."""
    dependent = _dependent(next(view for op in module.body.ops if (view := FuncOp.of(op))))
    return [
        channel.name
        for channel in channels
        if not channel.sites[0].repeated
        and any(
            operand in dependent for site in channel.sites for info in site.loads for operand in info.load.op.operands
        )
    ]


def outer_channels(channels: Sequence[ChannelInfo]) -> list[str]:
    """Names of the channels whose sites are all in loops around other sites' loops: filled once per tile."""
    sites = [site for channel in channels for site in channel.sites]
    around = {outer for site in sites for outer in enclosing_loops(site.loads[0].load.op)[1:]}
    return [
        channel.name
        for channel in channels
        if all(next(iter(enclosing_loops(site.loads[0].load.op)), None) in around for site in channel.sites)
    ]
