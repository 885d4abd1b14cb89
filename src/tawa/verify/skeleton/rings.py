"""The rings of a program at the barrier level, recognised by how its barriers are used.

    partition0   wait E, expect F, copy to T with F        ring T: written by partition0, read by default,
    default      wait F, dot of T, arrive on E             full barriers F, empty barriers E

The full barriers of a ring are those on which the TMA copies into its buffers arrive; or threads that have stored to a
buffer, which those who wait read. On its empty barriers, as many, the writers wait and the readers arrive; of several
candidates, those with the nearest wait before the copy, or with the same slot. All other barriers are signals.

No verdict depends on this: `tawa explain`, emitted files and the names in messages use it. It therefore reads all
programs: operations that the skeleton does not have, and wrong protocols, where nobody may arrive on empty barriers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Literal

from tawa.dialects import arith, tcgen05, ttg, ttng
from tawa.dialects.declare.declaration import address_of, by_name, is_terminator, op_names
from tawa.dialects.effects import effects_of
from tawa.dialects.tt import FuncOp
from tawa.ir import MemDescType, Operation, Value, memdesc_type
from tawa.ir.attributes import read_array, read_int
from tawa.verify.skeleton.barrier_level import Accesses

UseKind = Literal["init", "wait", "arrive", "expect", "copy", "write", "read"]
"""Of a barrier: init, wait, arrive, expect; copy, by a TMA copy that arrives on it. Of a buffer: write, read."""
RoleKind = Literal["full", "empty", "signal"]
PendingKind = Literal["wgmma", "stores", "cp.async"]

_ON_BARRIERS: dict[str, UseKind] = by_name(
    {
        ttng.InitBarrierOp: "init",
        ttng.WaitBarrierOp: "wait",
        ttng.ArriveBarrierOp: "arrive",
        ttng.AsyncCopyMbarrierArriveOp: "arrive",
        ttng.BarrierExpectOp: "expect",
        tcgen05.TCGen5CommitOp: "arrive",
    }
)
_COPIES = op_names(ttng.AsyncTMACopyGlobalToLocalOp, ttng.AsyncTMAGatherOp)
_NO_ACCESS = ttg.VIEWS | ttg.ALLOCATIONS | op_names(ttg.LocalDeallocOp, ttng.InvalBarrierOp)
_PENDING: dict[str, PendingKind] = by_name(
    {ttng.WarpGroupDotWaitOp: "wgmma", ttng.AsyncTMAStoreWaitOp: "stores", ttg.AsyncWaitOp: "cp.async"}
)


@dataclass(frozen=True, slots=True)
class Use:
    """One use of an allocation. slot: the index of its outermost view, None without one."""

    kind: UseKind
    allocation: Operation
    slot: Value | None
    partition: str
    op: Operation


@dataclass(frozen=True, slots=True, eq=False)
class Barriers:
    """An array of mbarriers.

    slots: how many. arrivals: by threads that complete a phase. bytes: of the copies of a phase, as it expects them; 0
    without copies. arrivers: partitions whose threads arrive. waiters: partitions that wait.
    """

    allocation: Operation
    slots: int
    arrivals: int
    bytes: int
    arrivers: tuple[str, ...]
    waiters: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Ring:
    """Slots of tiles between writers and readers. tiles: allocations. empty: None if no writer waits."""

    name: str
    tiles: tuple[Operation, ...]
    full: Barriers
    empty: Barriers | None
    by_copies: bool
    writers: tuple[str, ...]
    readers: tuple[str, ...]

    @property
    def ends(self) -> dict[RoleKind, Barriers]:
        """The barriers by role."""
        return {"full": self.full} if self.empty is None else {"full": self.full, "empty": self.empty}

    @property
    def slots(self) -> int:
        """How many: D."""
        return self.full.slots

    @property
    def payload(self) -> tuple[str, ...]:
        """The tiles of a slot: ``128x64xf16``."""
        return tuple(_tile(_type(it), self.slots) for it in self.tiles)

    @property
    def slot_bytes(self) -> int:
        """Bytes of the tiles of a slot."""
        return sum(_type(it).bytes for it in self.tiles) // self.slots


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait: for a slot of a ring, or a signal (`target`), or until at most `pending` operations are in flight."""

    kind: RoleKind | PendingKind
    target: str
    pending: int
    op: Operation


@dataclass(frozen=True, slots=True)
class Partition:
    """Warps that run one program, and its waits in program order.

    name: ``default`` or ``partition<number>``. registers: requested per thread. own: the operations that it alone has.
    """

    name: str
    warps: int
    registers: int | None
    waits: tuple[Wait, ...]
    own: tuple[Operation, ...]


class Rings:
    """The rings, signals and partitions of a program.

    uses: in program order. unfilled: rings whose full barriers expect bytes, but no copy is known. signals: barriers
    that are in no other ring, by name. roles: of barriers, with their ring or signal.
    """

    def __init__(self, accesses: Accesses) -> None:
        self.accesses = accesses
        self.uses = tuple(self._uses())
        self._of: dict[Operation, list[Use]] = {}
        for use in self.uses:
            self._of.setdefault(use.allocation, []).append(use)
        made = dict.fromkeys(it.allocation for it in self.uses if it.kind == "init")
        self._barriers = {it: self._info(it) for it in made}
        self._payloads = self._find_payloads()
        empties = self._find_empties()
        filled = sorted(self._payloads, key=lambda it: not self._payloads[it])
        found = [self._ring(f"ring{number}", it, empties.get(it)) for number, it in enumerate(filled)]
        self.rings, self.unfilled = ([it for it in found if bool(it.tiles) is some] for some in (True, False))
        self.roles: dict[Operation, tuple[RoleKind, str]] = {}
        for ring in self.rings:
            self.roles |= {it.allocation: (role, ring.name) for role, it in ring.ends.items()}
        rest = (info for it, info in self._barriers.items() if it not in self.roles)
        self.signals = {f"signal{at}": it for at, it in enumerate(rest)}
        self.roles |= {it.allocation: ("signal", name) for name, it in self.signals.items()}

    # -- uses ----------------------------------------------------------------------------------------------------------

    def _uses(self) -> Iterator[Use]:
        places = self.accesses.allocations
        for op in self.accesses.ops:
            if op.regions or op.name in _NO_ACCESS or is_terminator(op.name):
                continue
            for value in op.operands:
                if value.type.startswith("!ttg.memdesc"):
                    for root in sorted(self.accesses.roots_of(value), key=places.__getitem__):
                        yield Use(self._kind(op, value, root), root, _slot(value), self._partition_of(op), op)

    def _kind(self, op: Operation, value: Value, root: Operation) -> UseKind:
        if op.name in _ON_BARRIERS:
            return _ON_BARRIERS[op.name]
        if op.name in _COPIES:
            return "copy" if root in self.accesses.barriers else "write"
        if op.name in tcgen05.DOTS and root in self.accesses.barriers:
            return "arrive"
        written = (it for it in effects_of(op) if it.kind == "write" and it.space in ("shared", "tensor"))
        return "write" if any(address_of(op, it) is value for it in written) else "read"

    def _all(self, allocation: Operation, *kinds: UseKind) -> list[Use]:
        return [it for it in self._of.get(allocation, ()) if it.kind in kinds]

    def _who(self, allocation: Operation, *kinds: UseKind) -> tuple[str, ...]:
        return tuple(dict.fromkeys(it.partition for it in self._all(allocation, *kinds)))

    def _who_reads(self, allocation: Operation) -> tuple[str, ...]:
        """The partitions that read a buffer; a dot also reads the sums that it adds to."""
        uses = [it for it in self._of.get(allocation, ()) if it.kind == "read" or it.op.name in tcgen05.DOTS]
        return tuple(dict.fromkeys(it.partition for it in uses))

    def _info(self, barrier: Operation) -> Barriers:
        return Barriers(
            barrier,
            slots=prod(_type(barrier).shape),
            arrivals=max(ttng.InitBarrierOp(it.op).count for it in self._all(barrier, "init")),
            bytes=max((ttng.BarrierExpectOp(it.op).size for it in self._all(barrier, "expect")), default=0),
            arrivers=self._who(barrier, "arrive", "expect"),
            waiters=self._who(barrier, "wait"),
        )

    # -- rings ---------------------------------------------------------------------------------------------------------

    def _find_payloads(self) -> dict[Operation, tuple[Operation, ...]]:
        """The tiles of a slot, by full barrier."""
        stored: dict[Operation, dict[Operation, None]] = {}
        for at, use in enumerate(self.uses):
            buffer = use.kind == "write" and use.allocation not in self._barriers
            for barrier in self._handed_over(use, self.uses[at + 1 :]) if buffer else ():
                stored.setdefault(barrier, {})[use.allocation] = None
        found = {it: tuple(self._copied_with(it) or stored.get(it, ())) for it in self._barriers}
        return {it: tiles for it, tiles in found.items() if tiles or self._barriers[it].bytes}

    def _copied_with(self, barrier: Operation) -> dict[Operation, None]:
        """The buffers of the TMA copies that arrive on a barrier."""
        copies = {it.op for it in self._all(barrier, "copy")}
        return dict.fromkeys(it.allocation for it in self.uses if it.kind == "write" and it.op in copies)

    def _handed_over(self, write: Use, following: tuple[Use, ...]) -> Iterator[Operation]:
        """The barriers on which the threads that write arrive next, for each partition that waits there and reads."""
        arrivals = [it for it in following if it.kind == "arrive" and it.partition == write.partition]
        for reader in self._who_reads(write.allocation):
            waited = (self._barriers[it.allocation] for it in arrivals if it.allocation in self._barriers)
            barrier = next((it for it in waited if reader in it.waiters), None)
            fits = barrier is not None and _holds(_type(write.allocation), barrier.slots)
            if barrier is not None and fits and reader != write.partition and not self._awaited_at_once(barrier):
                yield barrier.allocation

    def _awaited_at_once(self, barrier: Barriers) -> bool:
        """Whether the first wait passes before any arrival, as a wait for an empty slot does.

        Where a slot is exchanged, the readers write to it, too, and who arrives there hands it back.
        """
        waits = self._all(barrier.allocation, "wait")
        parity = ttng.WaitBarrierOp(waits[0].op).parity
        flipped = arith.XOrIOp.of(parity.defining_op)
        return 1 in (arith.constant_int(it) for it in (flipped.op.operands if flipped else (parity,)))

    def _find_empties(self) -> dict[Operation, Operation]:
        """The empty barriers of each full one: the best pairs first."""
        others = [it for it in self._barriers if it not in self._payloads]
        pairs = [(self._fit(full, empty), full, empty) for full in self._payloads for empty in others]
        found: dict[Operation, Operation] = {}
        for score, full, empty in sorted(pairs, key=lambda it: -it[0]):
            if score and full not in found and empty not in found.values():
                found[full] = empty
        return found

    def _fit(self, full: Operation, empty: Operation) -> int:
        """0 if a barrier cannot be the empty one; else more for the same slot, and for the nearest wait."""
        fills, arriving = self._fills(full), self._who(empty, "arrive")
        waits = [it for it in self._all(empty, "wait") if it.partition in {fill.partition for fill in fills}]
        if not waits or self._barriers[full].slots != self._barriers[empty].slots:
            return 0
        if arriving and set(arriving).isdisjoint(self._readers(full)):
            return 0
        same = any(wait.slot is fill.slot for wait in waits for fill in fills if wait.partition == fill.partition)
        nearest = any(self._wait_before(fill) is empty for fill in fills)
        return 1 + 2 * same + 4 * nearest

    def _fills(self, full: Operation) -> list[Use]:
        """The uses of full barriers by the writers of their ring."""
        return self._all(full, "copy") or self._all(full, "arrive", "expect")

    def _wait_before(self, fill: Use) -> Operation | None:
        """The barrier of the last wait before a use, in its partition."""
        before = reversed(self.uses[: self.uses.index(fill)])
        return next((it.allocation for it in before if it.kind == "wait" and it.partition == fill.partition), None)

    def _readers(self, full: Operation) -> tuple[str, ...]:
        waiting = self._barriers[full].waiters
        reading = {name for tile in self._payloads[full] for name in self._who_reads(tile)}
        return tuple(it for it in waiting if it in reading) or waiting

    def _ring(self, name: str, full: Operation, empty: Operation | None) -> Ring:
        return Ring(
            name,
            self._payloads[full],
            self._barriers[full],
            None if empty is None else self._barriers[empty],
            by_copies=bool(self._all(full, "copy")),
            writers=tuple(dict.fromkeys(it.partition for it in self._fills(full))),
            readers=self._readers(full),
        )

    @property
    def buffer_bytes(self) -> int:
        """Shared memory of buffers that are not in a ring."""
        ours = {*self._barriers, *(tile for ring in self.rings for tile in ring.tiles)}
        return sum(
            _type(it).bytes for it in self.accesses.allocations if ttg.LocalAllocOp.matches(it) and it not in ours
        )

    # -- partitions ----------------------------------------------------------------------------------------------------

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        """The partitions, first the default one: the warps of the kernel."""
        forks = [ttg.WarpSpecializeOp(it) for it in self.accesses.forks]
        inside: dict[str, list[Operation]] = {}
        for op in self.accesses.ops:
            if not op.regions:
                inside.setdefault(self._partition_of(op), []).append(op)
        kernel = next(op for op in self.accesses.ops if FuncOp.matches(op))
        main = inside.get("default", [])
        own = [op for op in main if not forks or any(op.within(fork.default) for fork in forks)]
        found = [Partition("default", ttg.warps_of(kernel), None, self._waits(main), tuple(own))]
        for fork in forks:
            said = fork.op.properties.get("requestedRegisters")
            registers = read_array(said) if said else [None] * len(fork.partitions)
            for number, (warps, count) in enumerate(zip(fork.num_warps, registers, strict=True)):
                name = self._name(fork.op, number)
                ops = inside.get(name, [])
                found.append(Partition(name, warps, count, self._waits(ops), tuple(ops)))
        return tuple(found)

    def _partition_of(self, op: Operation) -> str:
        found = ttg.partition_of(op)
        return "default" if found is None else self._name(*found)

    def _name(self, fork: Operation, number: int) -> str:
        place = self.accesses.forks.index(fork)
        return f"partition{number} of fork {place}" if place else f"partition{number}"

    def _waits(self, ops: list[Operation]) -> tuple[Wait, ...]:
        found: list[Wait] = []
        for op in ops:
            if wait := ttng.WaitBarrierOp.of(op):
                roots = self.accesses.roots_of(wait.barrier)
                found += [Wait(*role, 0, op) for it, role in self.roles.items() if it in roots]
            elif op.name in _PENDING:
                pending = op.properties.get("pendings") or op.properties["num"]
                found.append(Wait(_PENDING[op.name], "", read_int(pending), op))
        return tuple(found)


def _type(allocation: Operation) -> MemDescType:
    return memdesc_type(allocation.results[0].type)


def _slot(view: Value) -> Value | None:
    """The index of the outermost view of an allocation."""
    slot: Value | None = None
    while (op := view.defining_op) is not None and op.name in ttg.VIEWS:
        slot = ttg.MemDescIndexOp(op).index if ttg.MemDescIndexOp.matches(op) else slot
        view = op.operands[0]
    return slot


def _holds(buffer: MemDescType, slots: int) -> bool:
    """Whether a buffer may be the payload of that many slots."""
    return slots == 1 or (len(buffer.shape) > 1 and buffer.shape[0] % slots == 0)


def _tile(buffer: MemDescType, slots: int) -> str:
    """The part of a buffer that one slot has."""
    shape = buffer.shape
    if len(shape) > 1 and shape[0] % slots == 0 and (slots > 1 or shape[0] == 1):
        shape = shape[1:] if shape[0] == slots else (shape[0] // slots, *shape[1:])
    return "x".join((*map(str, shape), buffer.element))
