"""Liveness of the skeleton's registers, and reachability of marked instructions.

Dead registers are not part of a run's state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

Uses = tuple[int, int, bool, int]
"""Bit sets of the registers read and written; whether control may fall through; the jump target (or −1)."""


class Live:
    """The live registers before each instruction, each with its kind: a backward data-flow analysis on bit sets.

    shown: makes of live registers what is part of a run's state. Computed where it is asked for.
    """

    def __init__(self, code: Sequence[Uses] = (), kinds: Mapping[int, int] | None = None) -> None:
        self.kinds: Mapping[int, int] = {} if kinds is None else kinds
        self.bits = _before(code)
        self.shown: Callable[[list[int]], Iterable[int]] | None = None
        self._made: dict[int, tuple[tuple[int, int], ...]] = {}

    def __getitem__(self, place: int) -> tuple[tuple[int, int], ...]:
        bits = self.bits[place]
        found = self._made.get(bits)
        if found is None:
            kinds = self.kinds
            registers: Iterable[int] = [it for it in _places(bits) if it in kinds]
            if self.shown is not None:
                registers = self.shown(registers)
            found = self._made[bits] = tuple([(it, kinds[it]) for it in registers])
        return found


def _before(code: Sequence[Uses]) -> list[int]:
    """By instruction the registers that are live before it, as bits, to a fixed point."""
    before = [0] * (len(code) + 1)
    changed = True
    while changed:
        changed = False
        for at in range(len(code) - 1, -1, -1):
            reads, writes, goes_on, jump = code[at]
            after = (before[at + 1] if goes_on else 0) | (before[jump] if jump >= 0 else 0)
            now = reads | (after & ~writes)
            if now != before[at]:
                before[at] = now
                changed = True
    return before


def _places(bits: int) -> list[int]:
    """The places of the bits that are set."""
    found: list[int] = []
    while bits:
        low = bits & -bits
        bits ^= low
        found.append(low.bit_length() - 1)
    return found


def reached(code: Sequence[Uses], marks: Mapping[int, int]) -> list[int]:
    """For each instruction the union of the marks of all instructions that it may reach, itself included."""
    return _before([(marks.get(at, 0), 0, goes_on, jump) for at, (_, _, goes_on, jump) in enumerate(code)])
