"""Rings, lifted: which numbers are the count of a ring, and which memory rotates with it.

    s' = s + 1 == D ? 0 : s + 1;  p' = p ^ (s + 1 == D)       (s, p) is a count: c = p·D + s becomes c + 1 mod 2·D
    wait full[s], p;  copy tiles[s];  arrive empty[s]          full, tiles and empty rotate with it

A ring is lifted by evaluation, not by the form of its arithmetic: every way in which its numbers get new values must
add a constant to the count, for all 2·D counts; every slot must be the count plus a constant, modulo D; and every
parity that a wait is for must be the quotient. Then rotating all of it by one slot changes nothing that a later step
can
tell, so the state of a run matters only up to that rotation: differences of counts, instead of slots and parities. The
count may be a pair of slot and parity, a running counter, a slot alone, or for D = 1 a parity alone.

A ring that is used in any other way is left as it is: its slots and parities are part of the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tawa.verify.run.events import Act
from tawa.verify.run.places import Place
from tawa.verify.skeleton.program import Code, Part, Program


@dataclass(slots=True)
class LiftedRing:
    """One ring: its depth, its allocations, and the registers of its counts.

    slots: registers of slots, each with that of the parity beside it, or -1. parities: the reverse. counters: registers
    of running counts.
    """

    depth: int
    allocs: set[int] = field(default_factory=set[int])
    slots: dict[int, int] = field(default_factory=dict[int, int])
    parities: dict[int, int] = field(default_factory=dict[int, int])
    counters: set[int] = field(default_factory=set[int])

    @property
    def registers(self) -> set[int]:
        """All registers of its counts."""
        return {*self.slots, *self.parities, *self.counters}

    def count(self, register: int, values: list[Any]) -> int | None:
        """The count that a register takes part in, modulo 2·D; None for a slot without parity, and for no number."""
        value = values[register]
        if not isinstance(value, int):
            return None
        if register in self.counters:
            return value % (2 * self.depth)
        slot, parity = (
            (self.parities[register], register) if register in self.parities else (register, self.slots[register])
        )
        if parity < 0:
            return None
        low, high = 0 if slot < 0 else values[slot], values[parity]
        return high * self.depth + low if isinstance(low, int) and isinstance(high, int) else None


class Expressions:
    """What each register is computed from: its roots are the registers that loops and branches carry."""

    def __init__(self, program: Program) -> None:
        self.registers = program.registers
        self.made: dict[int, tuple[Any, tuple[int, ...]]] = {}
        for part in program.parts:
            for instruction in part.code:
                match instruction:
                    case (Code.SCALAR, function, ins, out, _):
                        self.made[out] = function, ins
                    case (Code.VIEW, source, slot, out):
                        self.made[out] = None, (source, *((slot,) if slot >= 0 else ()))
                    case _:
                        pass
        self._roots: dict[int, frozenset[int]] = {}

    def roots(self, register: int) -> frozenset[int]:
        """The carried registers that a register is computed from; itself if it is one."""
        found = self._roots.get(register)
        if found is None:
            made = self.made.get(register)
            if made is not None:
                found = frozenset[int]().union(*(self.roots(it) for it in made[1]))
            else:
                found = frozenset([] if isinstance(self.registers[register], int | Place) else [register])
            self._roots[register] = found
        return found

    def value(self, register: int, given: Mapping[int, int]) -> Any:
        """The number in a register for these numbers in its roots."""
        if register in given:
            return given[register]
        made = self.made.get(register)
        if made is None or made[0] is None:
            return self.registers[register] if made is None else None
        inputs = [self.value(it, given) for it in made[1]]
        return made[0](*inputs) if all(isinstance(it, int) for it in inputs) else None


def expanded(live: Iterable[int], expressions: Expressions, kinds: Mapping[int, int]) -> Iterable[int]:
    """Live registers with the roots of those that operations compute in their place."""
    found: dict[int, None] = {}
    for register in live:
        if register in expressions.made:
            found.update((root, None) for root in sorted(expressions.roots(register)) if root in kinds)
        else:
            found[register] = None
    return found


def lift_rings(program: Program, expressions: Expressions) -> list[LiftedRing]:
    """The rings of a program at the barrier level."""
    finder = _Finder(program, expressions)
    return [ring for ring in finder.candidates() if finder.rotates(ring)]


@dataclass(slots=True)
class _Use:
    """A slot of an allocation, as an expression; for a wait, with the parity. -1: none."""

    alloc: int
    slot: int
    parity: int = -1


class _Finder:
    def __init__(self, program: Program, expressions: Expressions) -> None:
        self.program = program
        self.of = expressions
        self.views: dict[int, _Use] = {}
        self.uses: list[_Use] = []
        self.moves: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self.others: set[int] = set()
        """Roots that decide something else than slots and parities."""
        for part in program.parts:
            self._read(part)

    def _read(self, part: Part) -> None:
        for instruction in part.code:
            match instruction:
                case (Code.VIEW, source, slot, out):
                    known = self.program.registers[source]
                    if slot >= 0 and isinstance(known, Place) and not known.path:
                        self.views[out] = _Use(known.alloc, slot)
                        self.uses.append(self.views[out])
                    elif slot >= 0:
                        self.others |= self.of.roots(slot)
                case (Code.MOVE, sources, targets):
                    self.moves.append((sources, targets))
                case (Code.ACT, act):
                    self._read_act(act)
                case (Code.FOR, lower, upper, step, *_):
                    self.others |= self.of.roots(lower) | self.of.roots(upper) | self.of.roots(step)
                case (Code.IF, condition, _) | (Code.TEST, condition, *_) | (Code.PICK, condition, *_):
                    self.others |= self.of.roots(condition)
                case _:
                    pass

    def _read_act(self, act: Act) -> None:
        if act.number >= 0 and not act.takes:
            self.others |= self.of.roots(act.number)
        if act.threads >= 0 or act.check is not None:
            self.others |= self.of.roots(act.barrier) | (
                self.of.roots(act.threads) if act.threads >= 0 else frozenset()
            )
        if act.parity >= 0:
            view, known = self.views.get(act.barrier), self.program.registers[act.barrier]
            if view is not None:
                self.uses.append(_Use(view.alloc, view.slot, act.parity))
            elif isinstance(known, Place) and not known.path:
                self.uses.append(_Use(known.alloc, -1, act.parity))
            else:
                self.others |= self.of.roots(act.parity)

    def _depth(self, alloc: int) -> int:
        memories = self.program.memories
        assert memories is not None
        return memories.slots(alloc)

    def candidates(self) -> list[LiftedRing]:
        """Allocations and counts that are used together, in groups."""
        groups = _Groups()
        for use in self.uses:
            self._group(use, groups)
        changed = True
        while changed:
            changed = sum(self._group_move(source, target, groups) for source, target in self._moved()) > 0
        for ring in groups.rings():
            self._complete(ring, groups.registers(ring))
        return [ring for ring in groups.rings() if ring.depth and ring.registers]

    def _group(self, use: _Use, groups: _Groups) -> None:
        """Groups an allocation with the counts that are its slot and parity in one use."""
        ring = groups.own(LiftedRing(self._depth(use.alloc), {use.alloc}), ("alloc", use.alloc))
        slots = self.of.roots(use.slot) if use.slot >= 0 else frozenset[int]()
        parities = self.of.roots(use.parity) - slots if use.parity >= 0 else frozenset[int]()
        for root in slots | parities:
            ring = groups.own(ring, root)
        if len(slots) > 1 or len(parities) > 1:
            ring.depth = 0
            return
        slot = next(iter(slots), -1)
        if use.parity >= 0 and not parities and slots:
            ring.counters.add(slot)
        elif parities:
            (parity,) = parities
            ring.parities[parity] = slot
            if slot >= 0:
                ring.slots[slot] = parity
        elif slot >= 0:
            ring.slots.setdefault(slot, -1)

    def _moved(self) -> list[tuple[int, int]]:
        """All moves of one register to another."""
        return [pair for sources, targets in self.moves for pair in zip(sources, targets, strict=True)]

    def _group_move(self, source: int, target: int, groups: _Groups) -> bool:
        """Groups a register with those that it is moved from; returns whether that is new."""
        ring, changed = groups.owner.get(target), False
        for root in self.of.roots(source):
            other = groups.owner.get(root)
            if ring is not None and other is None:
                groups.owner[root] = ring
            elif ring is None and other is not None and root == source:
                groups.owner[target] = ring = other
            elif ring is None or other is ring or other is None:
                continue
            else:
                ring = groups.join(ring, other)
            changed = True
        return changed

    def _complete(self, ring: LiftedRing, members: set[int]) -> None:
        """Gives the registers that are only moved their role: that of what they are moved from or to."""
        for counter in ring.counters:
            ring.slots.pop(counter, None)  # a view needs the slot alone
        for _ in range(len(members) + 1):
            known = dict(ring.slots), ring.registers
            for sources, targets in self.moves:
                pairs = [(source, target) for source, target in zip(sources, targets, strict=True)]
                partner = dict(pairs)
                back = {target: source for source, target in pairs}
                for source, target in pairs:
                    self._role(ring, source, target, partner)
                    self._role(ring, target, source, back)
            if known == (ring.slots, ring.registers):
                break
        if not members <= ring.registers:
            ring.depth = 0

    def _role(self, ring: LiftedRing, known: int, new: int, other: Mapping[int, int]) -> None:
        if known not in ring.registers or new in self.of.made or new in ring.parities or new in ring.counters:
            return
        if ring.slots.get(new, -1) >= 0:
            return
        if isinstance(self.program.registers[new], int):
            return
        if known in ring.counters:
            ring.counters.add(new)
        elif known in ring.slots:
            parity = other.get(ring.slots[known], -1)
            if parity in self.of.made or (parity >= 0 and isinstance(self.program.registers[parity], int)):
                parity = -1
            if ring.parities.get(parity, new) != new:
                parity = -1  # it belongs to another slot
            ring.slots[new] = parity
            if parity >= 0:
                ring.parities[parity] = new
        elif ring.parities[known] < 0:
            ring.parities[new] = -1

    # -- whether it rotates --------------------------------------------------------------------------------------------

    def rotates(self, ring: LiftedRing) -> bool:
        """Whether rotating the ring by one slot changes nothing that a step can tell."""
        registers = ring.registers
        if registers & self.others or any(self._depth(alloc) != ring.depth for alloc in ring.allocs):
            return False
        if ring.depth > 1 and any(slot < 0 for slot in ring.parities.values()):
            return False
        for counter in ring.counters:
            if counter in ring.slots or counter in ring.parities or not self._is_count(ring, counter):
                return False
        return all(self._use_rotates(ring, use) for use in self.uses if use.alloc in ring.allocs) and all(
            self._move_rotates(ring, sources, targets) for sources, targets in self.moves
        )

    def _is_count(self, ring: LiftedRing, register: int) -> bool:
        kind = self.program.kinds.get(register, 0)
        if kind > -2:
            return False
        limit, modulus = self.program.counters[-2 - kind]
        return limit == 0 and (2 * ring.depth) % modulus == 0

    def _given(self, ring: LiftedRing, roots: frozenset[int], count: int) -> dict[int, int] | None:
        """The numbers in roots of one position for a count; None if they are of several positions."""
        given: dict[int, int] = {}
        slots = {root if root in ring.slots else ring.parities.get(root, -1) for root in roots - ring.counters}
        if len(slots) + len(roots & ring.counters) > 1 or not roots <= ring.registers:
            return None
        for root in roots:
            given[root] = (
                count if root in ring.counters else count % ring.depth if root in ring.slots else count // ring.depth
            )
        return given

    def _shift(self, ring: LiftedRing, registers: tuple[int, int]) -> int | None:
        """What is added to the count: by a slot and a parity (-1 for none), or by a counter and itself; else None."""
        slot, parity = registers
        roots = frozenset[int]().union(*(self.of.roots(it) for it in registers if it >= 0))
        counts = range(2 * ring.depth)
        found: set[int] = set()
        for count in counts:
            given = self._given(ring, roots, count)
            if given is None:
                return None
            low = 0 if slot < 0 else self.of.value(slot, given)
            high = 0 if parity < 0 or parity == slot else self.of.value(parity, given)
            if not isinstance(low, int) or not isinstance(high, int):
                return None
            if parity != slot and (not 0 <= low < ring.depth or high not in (0, 1)):
                return None
            size = ring.depth if parity < 0 else 2 * ring.depth
            found.add((high * ring.depth + low - count) % size)
        return found.pop() if len(found) == 1 else None

    def _move_rotates(self, ring: LiftedRing, sources: tuple[int, ...], targets: tuple[int, ...]) -> bool:
        came = dict(zip(targets, sources, strict=True))
        for target, source in came.items():
            if target in ring.counters:
                pair = source, source
            elif target in ring.slots:
                parity = ring.slots[target]
                if parity >= 0 and parity not in came:
                    return False
                pair = source, came[parity] if parity >= 0 else -1
            elif target in ring.parities:
                if ring.parities[target] >= 0:
                    if ring.parities[target] not in came:
                        return False
                    continue  # with its slot
                pair = -1, source
            elif self.of.roots(source) & ring.registers:
                return False
            else:
                continue
            constant = all(not self.of.roots(it) for it in pair if it >= 0)
            if not constant and self._shift(ring, pair) is None:
                return False
        return True

    def _use_rotates(self, ring: LiftedRing, use: _Use) -> bool:
        roots = self.of.roots(use.slot) if use.slot >= 0 else frozenset[int]()
        roots |= self.of.roots(use.parity) if use.parity >= 0 else frozenset()
        if not roots:
            return True  # see `blocked_by`
        found: set[tuple[int, int]] = set()
        for count in range(2 * ring.depth):
            given = self._given(ring, roots, count)
            slot = 0 if use.slot < 0 or given is None else self.of.value(use.slot, given)
            parity = 0 if use.parity < 0 or given is None else self.of.value(use.parity, given)
            if given is None or not isinstance(slot, int) or not isinstance(parity, int) or not 0 <= slot < ring.depth:
                return False
            shift = (slot - count) % ring.depth
            rotated = (parity ^ (count + shift) // ring.depth) & 1 if use.parity >= 0 else 0
            found.add((shift, rotated))
        return len(found) == 1


class _Groups:
    """The rings so far, by what they own: registers, and allocations as pairs."""

    def __init__(self) -> None:
        self.owner: dict[int | tuple[str, int], LiftedRing] = {}

    def join(self, ring: LiftedRing, other: LiftedRing) -> LiftedRing:
        """Makes two rings one."""
        if ring is not other:
            ring.depth = ring.depth if ring.depth == other.depth else 0
            ring.allocs |= other.allocs
            ring.slots |= {it: parity for it, parity in other.slots.items() if ring.slots.get(it, -1) < 0}
            ring.parities |= other.parities
            ring.counters |= other.counters
            self.owner.update({key: ring for key, it in self.owner.items() if it is other})
        return ring

    def own(self, ring: LiftedRing, key: int | tuple[str, int]) -> LiftedRing:
        """Makes a ring own something; joins it with the ring that does."""
        ring = self.join(ring, self.owner.get(key, ring))
        self.owner[key] = ring
        return ring

    def rings(self) -> list[LiftedRing]:
        """Each ring once."""
        return list({id(ring): ring for ring in self.owner.values()}.values())

    def registers(self, ring: LiftedRing) -> set[int]:
        """The registers that a ring owns."""
        return {it for it, found in self.owner.items() if found is ring and isinstance(it, int)}


def blocked_by(ring: LiftedRing, part: Part, expressions: Expressions, registers: list[Any]) -> set[int]:
    """The instructions that set a count to a constant, or access a constant slot: no ring rotates before them."""
    found: set[int] = set()
    for at, instruction in enumerate(part.code):
        match instruction:
            case (Code.MOVE, sources, targets):
                for source, target in zip(sources, targets, strict=True):
                    if target in ring.registers and not expressions.roots(source):
                        found.add(at)
            case (Code.VIEW, source, slot, _):
                known = registers[source]
                rotates = isinstance(known, Place) and known.alloc in ring.allocs and ring.depth > 1
                if slot >= 0 and rotates and not expressions.roots(slot):
                    found.add(at)
            case (Code.ACT, act) if act.parity >= 0 and not expressions.roots(act.parity):
                known = registers[act.barrier]
                if known is None or (isinstance(known, Place) and known.alloc in ring.allocs):
                    found.add(at)
            case _:
                pass
    return found
