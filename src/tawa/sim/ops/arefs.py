"""Handlers of `aref` and `warp`: rings of slots ⟨buffers, F, E⟩, and concurrent warp groups.

Counts are plain integers: slot = count mod D. A put blocks until its slot is empty, a get until its slot is full. A put
or get whose count is not that of the slot's current round raises `ProtocolTrap`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tawa.dialects.aref import (
    AcquireOp,
    AdvanceOp,
    ConsumedOp,
    CreateOp,
    FirstOp,
    GetOp,
    LandedOp,
    PublishOp,
    PutOp,
    RingType,
)
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.tt import DescriptorLoadOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Block, MemDescType, Operation
from tawa.sim.errors import ProtocolTrap
from tawa.sim.machine import tensor_memory
from tawa.sim.machine.cta import Action, Partition, Pause, Run
from tawa.sim.machine.shared import IN_FLIGHT, VISIBLE, allocate, index, is_transposed, memdesc, require_quiet
from tawa.sim.machine.values import Accumulator, SharedView
from tawa.sim.numbers import encode
from tawa.sim.ops.asynchronous import Step, Wait, commit, fence
from tawa.sim.ops.elementwise import element_of


@dataclass(slots=True, eq=False)
class Slot:
    """One slot. next_put: the count of its next put. holds: that of its last fill. got: agents that borrowed it.

    held: whether the writer has acquired it, and not published yet.
    """

    views: list[SharedView]
    next_put: int
    holds: int = -1
    empty: bool = True
    full: bool = False
    got: set[int] = field(default_factory=set[int])
    released: set[int] = field(default_factory=set[int])
    held: bool = False


@dataclass(slots=True, eq=False)
class Ring:
    """D slots and the number of partitions that read them. by_commit: whether dots of one thread fill them."""

    name: str
    slots: list[Slot]
    readers: int
    by_commit: bool = False

    def slot(self, count: int) -> Slot:
        """The slot of a running count."""
        return self.slots[count % len(self.slots)]


class RunBlock(Protocol):
    """Executes a block and returns the operands of its terminator."""

    def __call__(self, partition: Partition, block: Block, /) -> Run:
        """Executes `block`."""
        ...


def _create(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    view = CreateOp(op)
    type: RingType = view.type
    kinds = [memdesc(text) for text in type.payload]
    buffers = [(kind, _buffer(op, view.name, kind, type.depth)) for kind in kinds]
    slots = [Slot([index(buffer, at, kind) for kind, buffer in buffers], at) for at in range(type.depth)]
    return [Ring(view.name, slots, max(1, _readers(op)), view.fill == "commit")]


def _buffer(op: Operation, name: str, kind: MemDescType, depth: int) -> SharedView:
    slots = kind.with_slots(depth)
    if kind.in_tensor_memory:
        return tensor_memory.allocate(op, name, slots)
    return allocate(name, slots, is_transposed(op, kind))


def _readers(op: Operation) -> int:
    groups: dict[Operation, None] = {}
    for user in op.result.users:
        if GetOp.matches(user):
            groups.update((outer, None) for outer in user.ancestors() if outer.name == GroupOp.NAME)
    return len(groups)


def _first(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    return [0]


def _advance(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    return [args[0] + 1]


def _log(partition: Partition, op: Operation, action: str, ring: Ring, count: int) -> None:
    depth = len(ring.slots)
    partition.log(op, action, ring.name, count % depth, count // depth % 2)


def put(partition: Partition, op: Operation, args: list[Any], run_block: RunBlock) -> Run:
    """``aref.put``: waits for E, executes the loads, and issues the fill, which lands later."""
    view = PutOp(op)
    ring, count = args[0], args[1]
    slot = ring.slot(count)
    if not view.fresh:
        yield Pause(
            lambda: slot.empty, lambda: f"slot {count % len(ring.slots)} of {ring.name} to be empty, for put {count}"
        )
        partition.waits_for((slot, "empty", count - len(ring.slots)))
    if not slot.empty or slot.next_put != count:
        raise ProtocolTrap(f"put {count} into {ring.name}, but the next put of its slot is {slot.next_put}")
    slot.empty, slot.next_put = False, count + len(ring.slots)
    if view.body.args:
        return (yield from _put_by_stores(partition, view, slot, (ring, count), run_block))
    tiles = yield from _loads_of_put(partition, view, run_block)
    elements = [element_of(value.type) for value in view.body.terminator.operands]
    for target in slot.views:
        require_quiet(target, partition.cta.reads)
        target.state[...] = IN_FLIGHT

    def fill() -> None:
        for tile, element, target in zip(tiles, elements, slot.views[: len(tiles)], strict=True):
            value = tile.use() if isinstance(tile, Accumulator) else tile
            target.bits[...] = encode(np.asarray(value), element).reshape(target.bits.shape)
            target.state[...] = VISIBLE
        slot.holds, slot.full = count, True

    partition.contributes((slot, "full", count))
    _log(partition, op, "put", ring, count)
    if slot.views:
        used = [partition.env[load.descriptor] for it in view.body.ops if (load := DescriptorLoadOp.of(it))]
        partition.cta.issue(Action("load", partition, op, fill, target=ring.name, descriptors=tuple(used)))
    else:
        fill()
    return []


def _put_by_stores(partition: Partition, view: PutOp, slot: Slot, place: tuple[Ring, int], run_block: RunBlock) -> Run:
    """The stores of a put, a proxy fence, and the arrival that makes the slot full."""
    ring, count = place
    partition.env.update(zip(view.body.args, slot.views, strict=True))
    yield from run_block(partition, view.body)
    fence(partition, view.op)
    slot.holds, slot.full = count, True
    partition.contributes((slot, "full", count))
    _log(partition, view.op, "put", ring, count)
    return []


def _loads_of_put(partition: Partition, view: PutOp, run_block: RunBlock) -> Run:
    """The payload of a put. The put is timed instead of its loads, which become asynchronous copies when lowered."""
    if partition.recorder is None:
        return (yield from run_block(partition, view.body))
    partition.recorder.muted = True
    tiles = yield from run_block(partition, view.body)
    partition.recorder.muted = False
    return tiles


def _acquire(partition: Partition, op: Operation, args: list[Any]) -> Run:
    ring, count = args
    slot = ring.slot(count)
    yield Pause(
        lambda: slot.empty, lambda: f"slot {count % len(ring.slots)} of {ring.name} to be empty, to acquire {count}"
    )
    if slot.next_put != count:
        raise ProtocolTrap(f"{count} of {ring.name} is acquired, but the next put of its slot is {slot.next_put}")
    slot.held = True
    partition.waits_for((slot, "empty", count - len(ring.slots)))
    _log(partition, op, "acquire", ring, count)
    return slot.views[: len(op.results)]


def _publish(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    """The slot is full now, or when the earlier dots of the thread are complete; behind a fence in shared memory."""
    ring, count = args
    slot = ring.slot(count)
    if not slot.held or slot.next_put != count:
        raise ProtocolTrap(f"{count} of {ring.name} is published by a writer that does not hold it")
    slot.held, slot.empty, slot.next_put = False, False, count + len(ring.slots)
    _log(partition, op, "publish", ring, count)

    def fill() -> None:
        slot.holds, slot.full = count, True

    if ring.by_commit:
        commit(partition, op, fill, lambda: (slot, "full", count), ring.name)
    else:
        if not all(memdesc(text).in_tensor_memory for text in PublishOp(op).type.payload):
            fence(partition, op)
        partition.contributes((slot, "full", count))
        fill()
    return []


def _get(partition: Partition, op: Operation, args: list[Any]) -> Run:
    ring, count = args
    slot = ring.slot(count)
    yield Pause(
        lambda: slot.full and partition.agent not in slot.got,
        lambda: f"slot {count % len(ring.slots)} of {ring.name} to be full, for get {count}",
    )
    if slot.holds != count:
        raise ProtocolTrap(f"get {count} from {ring.name}, but its slot holds put {slot.holds}")
    slot.got.add(partition.agent)
    partition.waits_for((slot, "full", count))
    _log(partition, op, "get", ring, count)
    return slot.views[: len(op.results)]


def _consumed(partition: Partition, op: Operation, args: list[Any]) -> list[Any]:
    ring, count = args[0], args[1]
    if len(args) > 2 and not args[2]:
        return []
    slot = ring.slot(count)
    if slot.holds != count or partition.agent not in slot.got or partition.agent in slot.released:
        raise ProtocolTrap(f"{count} of {ring.name} is released by a partition that has not borrowed it")
    _log(partition, op, "consumed", ring, count)

    def release() -> None:
        slot.released.add(partition.agent)
        if len(slot.released) == ring.readers:
            slot.full, slot.empty = False, True
            slot.got.clear()
            slot.released.clear()

    if ConsumedOp(op).by_commit:
        commit(partition, op, release, lambda: (slot, "empty", count), ring.name)
    else:
        partition.contributes((slot, "empty", count))
        release()
    return []


def _landed(partition: Partition, op: Operation, args: list[Any]) -> Run:
    ring, count = args
    if ring.slot(count).next_put != count:
        next_put = ring.slot(count).next_put
        raise ProtocolTrap(
            f"a wait for the puts into {ring.name} before put {count}, but its slot is at put {next_put}"
        )
    yield Pause(
        lambda: all(slot.empty or slot.full for slot in ring.slots),
        lambda: f"the puts into {ring.name} before put {count} to land",
    )
    for before in range(max(0, count - len(ring.slots)), count):
        partition.waits_for((ring.slot(before), "full", before))
    _log(partition, op, "landed", ring, count)
    return []


def run_groups(partition: Partition, op: Operation, run_block: RunBlock) -> Run:
    """``warp.group``: the first group of a block starts all groups of the block and waits for their end."""
    assert op.parent is not None
    groups = [view for nested in op.parent.ops if (view := GroupOp.of(nested))]
    if groups[0].op is not op:
        return [partition.env[result] for result in op.results]
    members: list[Partition] = []
    heirs = [group for group in groups if group.role == "consumer"][:1]
    for group in groups:
        member = partition.cta.spawn(group.partition, partition.env, partition.agent if group in heirs else None)
        member.code = run_block(member, group.body)
        members.append(member)
    yield from partition.fork_and_join(op, members, "all groups to end")
    for group, member in zip(groups, members, strict=True):
        partition.wgmmas += member.wgmmas
        partition.stores += member.stores
        partition.env.update(zip(group.op.results, member.outcome or [], strict=True))
    return [partition.env[result] for result in op.results]


STEPS: dict[str, Step] = by_name(
    {
        CreateOp: _create,
        FirstOp: _first,
        AdvanceOp: _advance,
        ConsumedOp: _consumed,
        PublishOp: _publish,
    }
)
"""Handlers of operations that never block, by name."""

WAITS: dict[str, Wait] = by_name({AcquireOp: _acquire, GetOp: _get, LandedOp: _landed})
"""Handlers of operations that may block, by name; `interpreter` handles ``aref.put`` and ``warp.group``."""
