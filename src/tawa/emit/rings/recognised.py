"""The rings of a program and the places in them, for names and for the methods of `Ring` in the emitted file.

    %full = ttg.local_alloc : 3x1xi64                 k_ring = Ring((k_tiles,), k_full, k_empty)
    ttng.wait_barrier %full[%slot], %parity           k_tile, = k_ring.get(slot, parity)

A place is a slot and the parity of its round. What moves it on is five operations, which become one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tawa.dialects import arith, scf, ttg, ttng
from tawa.dialects.control_flow import incoming, outgoing
from tawa.ir import Block, Module, Operation, Value
from tawa.ir.attributes import read_int
from tawa.ir.types import memdesc_type
from tawa.verify.skeleton import rings as skeleton
from tawa.verify.skeleton.barrier_level import Accesses

AFFIXES = ("_desc", "desc_", "_ptr", "ptr_", "_descriptor", "_tensor")
"""Affixes of argument names that are left out of the names of tiles."""


@dataclass(frozen=True, slots=True, eq=False)
class Ring:
    """A ring that the file makes. stems: the names of its tiles. inits: the operations that initialise its barriers."""

    found: skeleton.Ring
    stems: tuple[str, ...]
    inits: frozenset[Operation]

    @property
    def stem(self) -> str:
        """The names of the tiles in one."""
        return "_".join(dict.fromkeys(self.stems))

    @property
    def allocations(self) -> tuple[Operation, ...]:
        """All allocations."""
        return (*self.found.tiles, *(it.allocation for it in self.found.ends.values()))

    @property
    def last(self) -> Operation:
        """The allocation that stands last."""
        block = self.found.full.allocation.parent
        assert block is not None
        return max(self.allocations, key=block.index_of)

    @property
    def members(self) -> dict[Value, Member]:
        """The parts, by the results of the allocations."""
        tiles = {it.result: Member(self, "tiles", at) for at, it in enumerate(self.found.tiles)}
        return {**tiles, **{it.allocation.result: Member(self, role) for role, it in self.found.ends.items()}}


@dataclass(frozen=True, slots=True)
class Member:
    """A part of a ring: its full or empty barriers, or tiles number `index`."""

    ring: Ring
    role: str
    index: int = 0

    def of(self, ring: str) -> str:
        """The expression; ring: the name of the ring."""
        return f"{ring}.tiles[{self.index}]" if self.role == "tiles" else f"{ring}.{self.role}"


@dataclass(frozen=True, slots=True, eq=False)
class Advance:
    """The step to the next place: ``slot + 1 == D ? 0 : slot + 1``, and ``parity ^ (slot + 1 == D)``."""

    slot: Value
    parity: Value
    slots: int
    next_slot: Value
    next_parity: Value
    ops: tuple[Operation, ...]


def rings_of(module: Module, block: Block) -> Sequence[Ring]:
    """The rings whose allocations and first barriers stand in the block of the kernel.

    Of two that share tiles, it is the one with fewer.
    """
    recognised = skeleton.Rings(Accesses(module.op))
    found = [ring for it in recognised.rings if (ring := _ring(it, block, recognised.uses)) is not None]
    taken: set[Operation] = set()
    chosen: set[Ring] = set()
    for ring in sorted(found, key=lambda it: len(it.found.tiles)):
        if taken.isdisjoint(ring.allocations):
            chosen.add(ring)
            taken.update(ring.allocations)
    return [it for it in found if it in chosen]


def _ring(found: skeleton.Ring, block: Block, uses: Sequence[skeleton.Use]) -> Ring | None:
    """A ring whose slots are initialised alike, and that is used behind its last allocation; None for any other."""
    ends = [it.allocation for it in found.ends.values()]
    inits = [it for it in uses if it.kind == "init" and it.allocation in ends]
    ring = Ring(found, tuple(stem_of(it) for it in found.tiles), frozenset(it.op for it in inits))
    shapes = [memdesc_type(it.result.type).shape for it in found.tiles]
    whole = all(shape[0] == found.slots and len(shape) > 1 for shape in shapes)
    empty = not any(it.operands for it in ring.allocations)
    here = all(it.parent is block for it in (*ring.allocations, *ring.inits))
    alike = all(_alike([it for it in inits if it.allocation is end], found.slots) for end in ends)
    if found.empty is None or not (whole and empty and here and alike):
        return None
    later = set(block.ops[block.index_of(ring.last) + 1 :])
    places = [it.op.within(block) for it in uses if it.allocation in ring.allocations and it.op not in ring.inits]
    return ring if later.issuperset(places) else None


def _alike(inits: Sequence[skeleton.Use], slots: int) -> bool:
    """Whether each slot is initialised once, and all with the same count."""
    numbers = [None if it.slot is None else number_of(it.slot) for it in inits]
    counts = {ttng.InitBarrierOp(it.op).count for it in inits}
    return len(inits) == slots and set(numbers) == set(range(slots)) and len(counts) == 1


def stem_of(tiles: Operation) -> str:
    """The name of the user's variable or argument that is in these tiles; empty if unknown."""
    for op in _users(tiles.results[0]):
        if ttng.AsyncTMACopyGlobalToLocalOp.matches(op):
            return bare(root_of(ttng.AsyncTMACopyGlobalToLocalOp(op).descriptor).hint)
    for op in _users(tiles.results[0]):
        if ttg.LocalStoreOp.matches(op) and ttg.LocalStoreOp(op).source.hint:
            return ttg.LocalStoreOp(op).source.hint
        if ttg.AsyncCopyGlobalToLocalOp.matches(op):
            return bare(root_of(op.operands[0]).hint)
    return tiles.results[0].hint


def bare(name: str) -> str:
    """The name without affixes such as `_desc`."""
    for affix in AFFIXES:
        name = name.removesuffix(affix) if affix.startswith("_") else name.removeprefix(affix)
    return name


def _users(buffer: Value) -> Iterator[Operation]:
    """Users of a buffer through views and captures."""
    seen: set[Value] = set()
    work = [buffer]
    while work:
        it = work.pop(0)
        if it in seen:
            continue
        seen.add(it)
        for use in it.uses:
            handed = [use.op.result] if use.op.name in ttg.VIEWS else outgoing(use)
            work += handed
            if not handed:
                yield use.op


def root_of(value: Value) -> Value:
    """The value behind captures and loop-carried arguments, as far as each has a single source."""
    for _ in range(8):
        sources = [use.value for use in incoming(value)] if value.defining_op is None else []
        if len(sources) != 1:
            return value
        value = sources[0]
    return value


def number_of(value: Value) -> int | None:
    """The number of an integer constant."""
    op = value.defining_op
    if op is None or not arith.ConstantOp.matches(op) or value.type not in ("i32", "i64"):
        return None
    return read_int(op.properties["value"])


# -- places ------------------------------------------------------------------------------------------------------------


def advances_of(block: Block) -> Iterator[Advance]:
    """The advances of a place in this block."""
    for op in block.ops:
        if arith.XOrIOp.matches(op) and (found := _advance(op)) is not None:
            yield found


def _advance(xor: Operation) -> Advance | None:
    parity, wrapped = xor.operands
    if not _made_by(wrapped, arith.ExtUIOp):
        parity, wrapped = wrapped, parity
    extended = wrapped.defining_op
    if extended is None or not arith.ExtUIOp.matches(extended):
        return None
    compared = extended.operands[0].defining_op
    if compared is None or not arith.CmpIOp.matches(compared) or arith.CmpIOp(compared).predicate != arith.Predicate.EQ:
        return None
    following, slots = compared.operands[0].defining_op, number_of(compared.operands[1])
    if following is None or not arith.AddIOp.matches(following) or number_of(following.operands[1]) != 1 or not slots:
        return None
    selects = [it for it in compared.result.users if arith.SelectOp.matches(it)]
    if len(selects) != 1 or number_of(following.operands[0]) is not None:
        return None
    select = selects[0]
    around = select.operands[0] is compared.result and number_of(select.operands[1]) == 0
    ops = (following, compared, select, extended, xor)
    inside = {following.result: {compared, select}, compared.result: {select, extended}, extended.result: {xor}}
    closed = all(set(value.users) <= users for value, users in inside.items())
    together = all(it.parent is xor.parent for it in ops)
    if not (around and select.operands[2] is following.result and closed and together) or number_of(parity) is not None:
        return None
    return Advance(following.operands[0], parity, slots, select.result, xor.result, ops)


def _made_by(value: Value, kind: type[arith.ExtUIOp]) -> bool:
    return value.defining_op is not None and kind.matches(value.defining_op)


def opposite(value: Value) -> Value | None:
    """The parity `p` of a value `p ^ 1`."""
    op = value.defining_op
    if op is None or not arith.XOrIOp.matches(op):
        return None
    first, second = op.operands
    return first if number_of(second) == 1 else second if number_of(first) == 1 else None


def carried(op: Operation) -> Iterator[tuple[Value, Value, Value, Value]]:
    """The carried variables of a loop with bounds: argument, initial value, yielded value, result."""
    loop = scf.ForOp(op)
    yield from zip(loop.iter_args, loop.inits, loop.yielded, op.results, strict=True)


def begins_another(value: Value, name: str) -> bool:
    """Whether this constant is the initial accumulator of a dot into another variable than `name`."""
    return any(ttng.WarpGroupDotOp.matches(it) and it.result.hint != name for it in value.users)
