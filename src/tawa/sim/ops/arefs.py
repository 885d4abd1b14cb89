"""`aref` and `warp`: rings of slots ⟨buffers, F, E⟩, and groups that run side by side.

Counts are plain integers here: slot = count mod D. A put whose slot still holds another round than the one before, or
a get of another round than the slot's, is a `ProtocolTrap`; a put or get that must wait, waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tawa.dialects.aref import AdvanceOp, ConsumedOp, CreateOp, FirstOp, GetOp, LandedOp, PutOp, RingType
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.tt import DescriptorLoadOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Block, Operation
from tawa.sim.errors import ProtocolTrap
from tawa.sim.machine.cta import Action, Partition, Pause, Run
from tawa.sim.machine.shared import IN_FLIGHT, VISIBLE, allocate, index, memdesc, require_quiet
from tawa.sim.machine.values import Accumulator, SharedView
from tawa.sim.numbers import encode
from tawa.sim.ops.asynchronous import Step, Wait
from tawa.sim.ops.elementwise import element_of


@dataclass(slots=True, eq=False)
class Slot:
    """One slot. `turn`: the count of its next put; `holds`: the count it was filled with; `got`: agents that got it."""

    views: list[SharedView]
    turn: int
    holds: int = -1
    empty: bool = True
    full: bool = False
    got: set[int] = field(default_factory=set[int])
    released: set[int] = field(default_factory=set[int])


@dataclass(slots=True, eq=False)
class Ring:
    """D slots and how many partitions read them."""

    name: str
    slots: list[Slot]
    readers: int

    def slot(self, count: int) -> Slot:
        """The slot of a running count."""
        return self.slots[count % len(self.slots)]


class RunBlock(Protocol):
    """Executes a block and returns the operands of its terminator."""

    def __call__(self, who: Partition, block: Block, /) -> Run:
        """Executes `block`."""
        ...


def _create(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    view = CreateOp(op)
    type: RingType = view.type
    buffers = [(memdesc(text), allocate(view.name, memdesc(text).with_slots(type.depth))) for text in type.payload]
    slots = [Slot([index(buffer, at, kind) for kind, buffer in buffers], at) for at in range(type.depth)]
    return [Ring(view.name, slots, max(1, _readers(op)))]


def _readers(op: Operation) -> int:
    groups: dict[Operation, None] = {}
    for user in op.result.users:
        if GetOp.matches(user):
            groups.update((outer, None) for outer in user.ancestors() if outer.name == GroupOp.NAME)
    return len(groups)


def _first(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    return [0]


def _advance(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    return [args[0] + 1]


def _log(who: Partition, op: Operation, action: str, ring: Ring, count: int) -> None:
    depth = len(ring.slots)
    who.log(op, action, ring.name, count % depth, count // depth % 2)


def put(who: Partition, op: Operation, args: list[Any], run_block: RunBlock) -> Run:
    """``aref.put``: waits for E, runs the loads; the fill lands later."""
    view = PutOp(op)
    ring, count = args[0], args[1]
    slot = ring.slot(count)
    if not view.fresh:
        yield Pause(
            lambda: slot.empty, lambda: f"slot {count % len(ring.slots)} of {ring.name} to be empty, for put {count}"
        )
        who.waits_for((slot, "empty", count - len(ring.slots)))
    if not slot.empty or slot.turn != count:
        raise ProtocolTrap(f"put {count} into {ring.name}, whose slot is at put {slot.turn}")
    slot.empty, slot.turn = False, count + len(ring.slots)
    tiles = yield from _loads_of_put(who, view, run_block)
    elements = [element_of(value.type) for value in view.body.terminator.operands]
    for target in slot.views:
        require_quiet(target, who.cta.reads)
        target.state[...] = IN_FLIGHT

    def fill() -> None:
        for tile, element, target in zip(tiles, elements, slot.views, strict=True):
            value = tile.use() if isinstance(tile, Accumulator) else tile
            target.bits[...] = encode(np.asarray(value), element).reshape(target.bits.shape)
            target.state[...] = VISIBLE
        slot.holds, slot.full = count, True

    who.contributes((slot, "full", count))
    _log(who, op, "put", ring, count)
    if slot.views:
        used = [who.env[load.descriptor] for it in view.body.ops if (load := DescriptorLoadOp.of(it))]
        who.cta.issue(Action("load", who, op, fill, target=ring.name, descriptors=tuple(used)))
    else:
        fill()
    return []


def _loads_of_put(who: Partition, view: PutOp, run_block: RunBlock) -> Run:
    """The values of a put's payload. The put is timed, not its loads: they are asynchronous once it is lowered."""
    if who.recorder is None:
        return (yield from run_block(who, view.body))
    who.recorder.muted = True
    tiles = yield from run_block(who, view.body)
    who.recorder.muted = False
    return tiles


def _get(who: Partition, op: Operation, args: list[Any]) -> Run:
    ring, count = args
    slot = ring.slot(count)
    yield Pause(
        lambda: slot.full and who.agent not in slot.got,
        lambda: f"slot {count % len(ring.slots)} of {ring.name} to be full, for get {count}",
    )
    if slot.holds != count:
        raise ProtocolTrap(f"get {count} from {ring.name}, whose slot holds put {slot.holds}")
    slot.got.add(who.agent)
    who.waits_for((slot, "full", count))
    _log(who, op, "get", ring, count)
    return list(slot.views)


def _consumed(who: Partition, op: Operation, args: list[Any]) -> list[Any]:
    ring, count = args[0], args[1]
    if len(args) > 2 and not args[2]:
        return []
    slot = ring.slot(count)
    if slot.holds != count or who.agent not in slot.got or who.agent in slot.released:
        raise ProtocolTrap(f"{count} of {ring.name} is given back by a partition that does not hold it")
    slot.released.add(who.agent)
    who.contributes((slot, "empty", count))
    _log(who, op, "consumed", ring, count)
    if len(slot.released) == ring.readers:
        slot.full, slot.empty = False, True
        slot.got.clear()
        slot.released.clear()
    return []


def _landed(who: Partition, op: Operation, args: list[Any]) -> Run:
    ring, count = args
    if ring.slot(count).turn != count:
        raise ProtocolTrap(f"a wait for what {ring.name} got before put {count}, whose slot is at another put")
    yield Pause(
        lambda: all(slot.empty or slot.full for slot in ring.slots),
        lambda: f"what was put into {ring.name} before put {count} to land",
    )
    for before in range(max(0, count - len(ring.slots)), count):
        who.waits_for((ring.slot(before), "full", before))
    _log(who, op, "landed", ring, count)
    return []


def run_groups(who: Partition, op: Operation, run_block: RunBlock) -> Run:
    """``warp.group``: at the first group of a block all of them start; returns when all have ended."""
    assert op.parent is not None
    groups = [view for nested in op.parent.ops if (view := GroupOp.of(nested))]
    if groups[0].op is not op:
        return [who.env[result] for result in op.results]
    members: list[Partition] = []
    heirs = [group for group in groups if group.role == "consumer"][:1]
    for group in groups:
        member = who.cta.spawn(group.partition, who.env, who.agent if group in heirs else None)
        member.code = run_block(member, group.body)
        members.append(member)
    yield from who.fork_and_join(op, members, "all groups to end")
    for group, member in zip(groups, members, strict=True):
        who.wgmmas += member.wgmmas
        who.stores += member.stores
        who.env.update(zip(group.op.results, member.outcome or [], strict=True))
    return [who.env[result] for result in op.results]


STEPS: dict[str, Step] = by_name(
    {
        CreateOp: _create,
        FirstOp: _first,
        AdvanceOp: _advance,
        ConsumedOp: _consumed,
    }
)
"""Operations that never block, by name."""

WAITS: dict[str, Wait] = by_name({GetOp: _get, LandedOp: _landed})
"""Operations that may block, by name; ``aref.put`` and ``warp.group`` need the interpreter and are in `control`."""

__all__ = ["STEPS", "WAITS", "Ring", "Slot", "put", "run_groups"]
