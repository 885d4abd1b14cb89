"""Refinement: the barrier level makes the accesses of the aref level, per partition and in the same order.

    aref level                    barrier level
    put r[i]          →           wait empty[s], p ^ 1 (unless fresh); expect full[s], bytes; one copy per buffer[s]
      by cp.async     →           wait empty[s], p ^ 1; one cp.async per buffer[s]; copies arrive full[s]
      from registers, →           wait empty[s], p ^ 1; one write per buffer[s]; arrive full[s]
      of a number
      by its stores   →           wait empty[s], p ^ 1; the accesses of its region, on buffer[s]; arrive full[s]
    put of a token    →           wait empty[s], p ^ 1; arrive full[s]
    get r[i]          →           wait full[s], p
    consumed r[i]     →           arrive empty[s]
    landed r[i]       →           wait full[t], the parity of the last put into it, for each slot t
    acquire r[i]      →           wait empty[s], p ^ 1
    publish r[i]      →           arrive full[s], or a commit to it
      … by a commit   →           a commit to empty[s] (of consumed)
    dot reads r[i]    →           dot reads buffer[s]

with s = i mod D and p = (i div D) mod 2. A ring with `implied_empty` has neither the wait for an empty slot nor the
arrival that it waits for. Barriers and buffers are identified by the names that the lowering gives them: `<ring>_full`,
`<ring>_empty`, and `<ring>` for the buffers, in order.

Both skeletons run side by side, one partition at a time, and nothing waits: what a partition does depends only on how
its own loops and conditions are decided. Each decision is taken both ways, for both levels alike. Their common state
matters only up to the counts of the rings, and recurs; so equal accesses in all states are equal accesses for all trip
counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tawa.dialects.aref import ConsumedOp, CreateOp, GetOp, PutOp
from tawa.dialects.ttg import ALLOCATIONS
from tawa.dialects.warp import GroupOp, order_beside
from tawa.ir import MemDescType, Module, Operation, parse_type, source_of
from tawa.verify.assumptions import parse_assumptions
from tawa.verify.effort import Effort, Told, untold
from tawa.verify.free.free_run import FreeRun
from tawa.verify.free.questions import UnclearError, find_questions
from tawa.verify.free.sites import Questions
from tawa.verify.free.walkers import Instance
from tawa.verify.numbers.facts import check_names
from tawa.verify.run.events import Act
from tawa.verify.run.places import NotUnderstood, Place
from tawa.verify.run.state import Thread
from tawa.verify.skeleton.compiler import compile_accesses, compile_barriers
from tawa.verify.skeleton.program import Program, UnsupportedError
from tawa.verify.verdict import Checked, Proved, Refuted, Step, Unknown, Verdict, Witness

_LONG = 8
_PAIR = 100
"""What two states cost to compare and to copy, in steps."""
_BUDGET: Mapping[Effort, int] = {"fast": 60_000, "full": 400_000}


@dataclass(frozen=True, slots=True)
class Access:
    """One access, in terms common to both levels. amount: bytes that are expected."""

    kind: str
    ring: str
    slot: int = 0
    parity: int | None = None
    entry: int | None = None
    amount: int = 0

    def __str__(self) -> str:
        parity = "" if self.parity is None else f", parity {self.parity}"
        amount = f", {self.amount} bytes" if self.amount else ""
        return f"{self.kind} {self.ring}[{self.slot}]{parity}{amount}"


@dataclass(frozen=True, slots=True)
class _View:
    """A buffer of a slot at the aref level."""

    ring: int
    count: int
    entry: int


Made = tuple[Access, Operation]


def check_refinement(
    aref_module: Module,
    barrier_module: Module,
    *,
    assume: Sequence[str] = (),
    effort: Effort = "full",
    told: Told = untold,
) -> Verdict:
    """Compares the two levels of one kernel, for all trip counts. Needs no assumption, and tries no numbers.

    assume: is read, and not needed. told: of the steps so far.
    """
    check_names(aref_module, parse_assumptions(assume))
    if not any(CreateOp.matches(op) for op in aref_module.walk()):
        return Proved()
    try:
        return _Comparison(aref_module, barrier_module, _BUDGET[effort], told).verdict()
    except NotUnderstood as stop:
        return Unknown(f"not understood: {stop.reason}", source_of(barrier_module, stop.op))
    except UnsupportedError as stop:
        return Unknown(f"not understood: {stop}", source_of(aref_module, stop.op))
    except UnclearError as stop:
        return Unknown(f"not understood: {stop}", source_of(aref_module, stop.op) if stop.op else None)


class _Alone(FreeRun):
    """One partition, with the code before the fork, in which nothing waits. made: its accesses.

    index: of the partition; 0 at the barrier level is also what comes behind the others. goes_on: whether the code
    behind the fork is run, too.
    """

    def __init__(self, program: Program, questions: Questions, index: int, goes_on: bool) -> None:
        super().__init__(program, questions)
        self.order = None
        self.leader = -1
        self.index, self.goes_on = index, goes_on
        self.made: list[Made] = []

    def advance(self) -> Instance | None:
        """Runs until a query, which it returns, or to the end: None."""
        while self.alive:
            current = self.alive[-1]
            self._run_partition(current)
            if self.walkers[current].asks is not None:
                return self.walkers[current].asks
        return None

    def answered(self, asked: Instance, *, yes: bool) -> _Alone:
        """A copy in which the query of `asked` is answered."""
        made = super().answered(asked, yes=yes)
        made.index, made.goes_on, made.made, made.bases = self.index, self.goes_on, [], []
        return made

    def _may_ask(self, index: int, instance: Instance) -> bool:
        return (index == self.index or index in self.alive) and super()._may_ask(index, instance)

    def _fork(self, instruction: tuple[Any, ...]) -> None:
        super()._fork(instruction)
        self.alive = [0, self.index] if self.index and self.goes_on else [self.index]

    def _end(self, index: int, thread: Thread) -> None:
        self.alive.remove(index)

    def _finish(self) -> None:
        """Nothing is left to check."""

    def _block(self) -> None:
        raise AssertionError("nothing waits")


class _Arefs(_Alone):
    """A partition at the aref level."""

    rings: list[CreateOp]

    def answered(self, asked: Instance, *, yes: bool) -> _Arefs:
        """A copy in which the query of `asked` is answered."""
        made = super().answered(asked, yes=yes)
        assert isinstance(made, _Arefs)
        made.rings = self.rings
        return made

    def _note(self, thread: Thread, *accesses: Access) -> None:
        op = thread.part.ops[thread.pc]
        assert op is not None
        self.made += [(access, op) for access in accesses if not self._is_implied(access)]

    def _is_implied(self, access: Access) -> bool:
        create = next(ring for ring in self.rings if ring.name == access.ring)
        return create.implied_empty and access.kind in ("wait empty", "consumed")

    def _at(self, ring: int, count: int) -> tuple[str, int, int]:
        depth = self.program.rings[ring].depth
        return self.program.rings[ring].name, count % depth, count // depth % 2

    def _put(self, index: int, thread: Thread, instruction: tuple[Any, ...]) -> bool:
        ring, at, fresh, views = cast(tuple[int, int, bool, tuple[int, ...]], instruction[1:])
        count: int = self.registers[at]
        create, (name, slot, parity) = self.rings[ring], self._at(ring, count)
        payload = create.type.payload
        for entry, view in enumerate(views):
            self.registers[view] = _View(ring, count, entry)
        found = [] if fresh else [Access("wait empty", name, slot, parity ^ 1)]
        if create.fill in ("stores", "threads") and payload:
            self._note(thread, *found)
            return True
        before, each, behind = _FILLING[create.fill if payload else "token"]
        put = thread.part.ops[thread.pc]
        assert put is not None
        filled = payload[: len(PutOp(put).body.terminator.operands)]
        size = sum(_bytes(type) for type in filled)
        found += [Access(before, name, slot, amount=size)] if before else []
        found += [Access(each, name, slot, entry=entry) for entry in range(len(filled))]
        found += [Access(behind, name, slot)] if behind else []
        self._note(thread, *found)
        return True

    def _acquire(self, index: int, thread: Thread, instruction: tuple[Any, ...]) -> bool:
        ring, at, views = instruction[1:]
        count: int = self.registers[at]
        for entry, view in enumerate(views):
            self.registers[view] = _View(ring, count, entry)
        name, slot, parity = self._at(ring, count)
        self._note(thread, Access("wait empty", name, slot, parity ^ 1))
        return True

    def _publish(self, index: int, thread: Thread, instruction: tuple[Any, ...]) -> None:
        name, slot, _ = self._at(instruction[1], self.registers[instruction[2]])
        ring = cast(int, instruction[1])
        by_commit = self.rings[ring].fill == "commit"
        self._note(thread, Access("commit full" if by_commit else "arrive full", name, slot))

    def _get(self, index: int, thread: Thread, instruction: tuple[Any, ...]) -> bool:
        ring, at, _, views = instruction[1:]
        count: int = self.registers[at]
        for entry, view in enumerate(views):
            self.registers[view] = _View(ring, count, entry)
        name, slot, parity = self._at(ring, count)
        op = GetOp.of(thread.part.ops[thread.pc])
        if op is None or not op.own:  # what the partition has filled itself, it does not wait for
            self._note(thread, Access("get", name, slot, parity))
        return True

    def _consumed(self, index: int, thread: Thread, instruction: tuple[Any, ...]) -> None:
        name, slot, _ = self._at(instruction[1], self.registers[instruction[2]])
        consumed = ConsumedOp.of(thread.part.ops[thread.pc])
        self._note(thread, Access("commit empty" if consumed and consumed.by_commit else "consumed", name, slot))

    def _view(self, thread: Thread, instruction: tuple[Any, ...]) -> Any:
        source = self.registers[instruction[1]]
        return source if isinstance(source, _View) else super()._view(thread, instruction)

    def _act(self, index: int, thread: Thread, act: Act) -> bool:
        if act.kind == "landed":
            ring, count = act.amount, self.registers[act.reads[0]]
            depth = self.program.rings[ring].depth
            rounds = [(count - 1 - slot) // depth for slot in range(depth)]
            name = self.program.rings[ring].name
            self._note(thread, *(Access("get", name, slot, number % 2) for slot, number in enumerate(rounds)))
            return True
        if act.kind == "filled":
            view = self.registers[act.memory[0]]
            name, slot, _ = self._at(view.ring, view.count)
            self._note(thread, Access("arrive full", name, slot))
            return True
        for register in act.memory:
            view = self.registers[register]
            if isinstance(view, _View):
                name, slot, _ = self._at(view.ring, view.count)
                self._note(thread, Access(act.kind, name, slot, entry=view.entry))
        return True

    def counts(self) -> dict[int, int]:
        """By ring, the first count that is live."""
        found: dict[int, int] = {}
        for index in reversed(self.alive):
            walker = self.walkers[index]
            for register, kind in walker.part.live[walker.pc]:
                value = self.registers[register]
                if kind >= 0 and isinstance(value, int):
                    found.setdefault(kind, value)
                elif isinstance(value, _View):
                    found.setdefault(value.ring, value.count)
        return found

    def _rotated(self, register: int, kind: int, index: int) -> Any:
        value = self.registers[register]
        if isinstance(value, _View):
            return "view", value.ring, self._related(value.ring, value.count), value.entry
        if kind >= 0 and isinstance(value, int):
            return self._related(kind, value)
        return self._relative(value, kind, index)

    def _related(self, ring: int, count: int) -> int:
        base = self.given.get(ring)
        return count % (2 * self.program.rings[ring].depth) if base is None else count - base

    given: Mapping[int, int] = {}
    """The counts that those of a ring are relative to, for the state."""


class _Barriers(_Alone):
    """A partition at the barrier level."""

    entries: dict[int, tuple[str, int]]
    known: Any
    given: list[int | None]

    def answered(self, asked: Instance, *, yes: bool) -> _Barriers:
        """A copy in which the query of `asked` is answered."""
        made = super().answered(asked, yes=yes)
        assert isinstance(made, _Barriers)
        made.entries, made.tokens = self.entries, self.tokens
        return made

    def _act(self, index: int, thread: Thread, act: Act) -> bool:
        if act.kind == "free" or not act.reads:
            return True
        values = {register: self._operand(act, register) for register in act.reads}
        barrier = values.get(act.barrier)
        if isinstance(barrier, Place) and act.check is None:
            parity = values[act.parity] & 1 if act.parity >= 0 else None
            access = self._on_barrier(act, barrier, parity)
            self.made += [(access, act.op)] if access is not None else []
        kind = "copy" if act.kind == "copy in" else act.kind
        for register in act.memory:
            place = values[register]
            if isinstance(place, Place) and place.alloc in self.entries:
                name, entry = self.entries[place.alloc]
                self.made.append((Access(kind, name, place.path[0] if place.path else 0, entry=entry), act.op))
        return True

    def _on_barrier(self, act: Act, barrier: Place, parity: int | None) -> Access | None:
        memories = self.program.memories
        assert memories is not None
        ring, _, which = memories.names[barrier.alloc].rpartition("_")
        if not ring or not barrier.path or ring not in {name for name, _ in self.entries.values()} | self.tokens:
            return None
        slot = barrier.path[0]
        match act.kind, which:
            case "wait", "full":
                return Access("get", ring, slot, parity)
            case "wait", _:
                return Access("wait empty", ring, slot, parity)
            case "arrive", "empty":
                return Access("consumed", ring, slot)
            case "expect", "full":
                return Access("expect", ring, slot, amount=act.amount)
            case (("expect" | "arrive" | "copies arrive" | "commit"), _):
                return Access(f"{act.kind} {which}", ring, slot)
            case _:
                return None

    tokens: frozenset[str] = frozenset()

    def _bases(self) -> list[int | None]:
        return self.given

    def may_rotate(self) -> list[bool]:
        """Which rings rotate where the partition is now."""
        return [base is not None for base in FreeRun._bases(self)]


class _Comparison:
    """All decisions of both levels."""

    def __init__(self, high: Module, low: Module, budget: int, told: Told) -> None:
        self.high, self.low, self.told = high, low, told
        self.left = self.budget = budget
        self.above, self.below = compile_accesses(high), compile_barriers(low)
        unknowns: dict[Any, int] = {}
        self.asked = find_questions(self.above, _LONG, unknowns=unknowns)
        self.answers = find_questions(self.below, _LONG, unknowns=unknowns)
        self.rings = [CreateOp(op) for op in high.walk() if CreateOp.matches(op)]
        self.entries, self.tokens = _entries(self.below, {ring.name for ring in self.rings})

    def verdict(self) -> Verdict:
        """Proved if every partition makes the same accesses."""
        names = _names(self.high)
        parts = {part.name: index for index, part in enumerate(self.above.parts)}
        lower = {part.name: index for index, part in enumerate(self.below.parts)}
        for role, name in names.items():
            if name not in parts or role not in lower:
                continue
            found = self._compare(name, parts[name], lower[role])
            if found is not None:
                return found
        return Proved()

    def _compare(self, role: str, above: int, below: int) -> Verdict | None:
        one = _Arefs(self.above, self.asked, above, below == 0)
        one.rings = self.rings
        other = _Barriers(self.below, self.answers, below, below == 0)
        other.entries, other.tokens = self.entries, self.tokens
        pairs: list[tuple[_Arefs, _Barriers, tuple[Made, ...], tuple[Made, ...]]] = [(one, other, (), ())]
        seen: set[Any] = set()
        while pairs:
            one, other, wanted, made = pairs.pop()
            asks, answers = one.advance(), other.advance()
            self.left -= one.steps + other.steps + _PAIR
            self.told(self.budget - self.left, self.budget)
            wanted, made, differs = unmatched((*wanted, *one.made), (*made, *other.made))
            if differs or (asks is None and answers is None and (wanted or made)):
                return self._refute(role, wanted, made)
            if asks != answers:
                return Unknown(f"{role}: the levels decide their loops and conditions in different order")
            if self.left < 0:
                return Checked("no complete comparison", f"{role}: the state did not recur within the budget")
            if asks is None:
                continue
            key = (self._key(one, other), tuple(it for it, _ in wanted), tuple(it for it, _ in made))
            if key not in seen:
                seen.add(key)
                for yes in (True, False):
                    pairs.append((one.answered(asks, yes=yes), other.answered(asks, yes=yes), wanted, made))
        return None

    def _key(self, one: _Arefs, other: _Barriers) -> Any:
        """The common state: counts are relative where the rings of the barrier level rotate."""
        counts, places = one.counts(), {ring.name: place for place, ring in enumerate(self.rings)}
        bases: dict[int, int] = {}
        given: list[int | None] = []
        for ring, rotates in zip(self.below.lifted, other.may_rotate(), strict=True):
            owners = [places.get(self._owner(alloc) or "", -1) for alloc in sorted(ring.allocs)]
            known = [counts[owner] for owner in owners if owner in counts]  # rings with one count: any of them
            base = known[0] if known and rotates and min(owners) >= 0 else None
            if base is not None:
                bases |= dict.fromkeys(owners, base)
            given.append(None if base is None else base % (2 * ring.depth))
        one.given, other.given = bases, given
        return one.relative(), other.relative()

    def _owner(self, alloc: int) -> str | None:
        assert self.below.memories is not None
        name = self.below.memories.names[alloc]
        names = {ring.name for ring in self.rings}
        return (
            name
            if name in names
            else name.rpartition("_")[0]
            if name.rpartition("_")[0] in names
            else self.entries.get(alloc, (None,))[0]
        )

    def _refute(self, role: str, wanted: Sequence[Made], made: Sequence[Made]) -> Refuted:
        want, have = (found[0][0] if found else None for found in (wanted, made))
        none = "no further access"
        message = f"{role} makes {have or none} where the aref level has {want or none}"
        steps = [Step(role, it.kind, it.ring, it.slot, it.parity, source_of(self.low, op)) for it, op in made[:1]]
        if have is None and want is not None:
            lacking = source_of(self.high, wanted[0][1])
            steps.append(Step(role, f"does not {want.kind}", want.ring, want.slot, want.parity, lacking))
        return Refuted(Witness("refinement", message, {}, tuple(steps)))


def unmatched(wanted: Sequence[Made], made: Sequence[Made]) -> tuple[tuple[Made, ...], tuple[Made, ...], bool]:
    """What is left of two sequences of accesses without a common beginning, and whether they differ there.

    Releases that follow each other may have another order: they only permit what others do, and nothing lies between.
    """
    want, have = list(wanted), list(made)
    while want and have:
        access = have[0][0]
        releases = next((at for at, (it, _) in enumerate(want) if it.kind != "consumed"), len(want))
        place = next((at for at, (it, _) in enumerate(want[: max(1, releases)]) if it == access), -1)
        if place < 0:
            return tuple(want), tuple(have), access.kind != "consumed" or releases < len(want)
        del want[place], have[0]
    return tuple(want), tuple(have), False


def _entries(low: Program, rings: set[str]) -> tuple[dict[int, tuple[str, int]], frozenset[str]]:
    """By allocation of the barrier level: its ring, and which buffer of it; and the rings without buffers."""
    assert low.memories is not None
    found: dict[int, tuple[str, int]] = {}
    counts: dict[str, int] = {}
    for alloc, op in enumerate(low.memories.allocations):
        name = op.results[0].hint
        if name in rings and op.name in ALLOCATIONS:
            found[alloc] = name, counts.setdefault(name, 0)
            counts[name] += 1
    return found, frozenset(rings - set(counts))


def _names(high: Module) -> dict[str, str]:
    """The aref-level names of the regions of ``ttg.warp_specialize``: first consumer, other consumers, and the others.

    Of the others, those with more warps come first; the producer is the last of those with as many.
    """
    groups = [group for op in high.walk() if (group := GroupOp.of(op))]
    consumers = [group.partition for group in groups if group.role == "consumer"]
    beside = [group for group in groups if group.role != "consumer"]
    beside.sort(key=lambda group: order_beside(group.num_warps, group.role))
    others = [*consumers[1:], *(group.partition for group in beside)]
    regions = {f"partition{number}": name for number, name in enumerate(others)}
    return regions | ({"default": consumers[0]} if consumers else {})


def _bytes(type: str) -> int:
    parsed = parse_type(type)
    assert isinstance(parsed, MemDescType)
    return parsed.bytes


_FILLING: Mapping[str, tuple[str, str, str]] = {
    "tma": ("expect", "copy", ""),
    "cp.async": ("", "cp.async", "copies arrive full"),
    "registers": ("", "write", "arrive full"),
    "number": ("", "write", "arrive full"),
    "token": ("", "", "arrive full"),
}
"""The accesses of a put at the barrier level: before filling the buffers, for each of them, and afterwards."""
