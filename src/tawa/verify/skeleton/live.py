"""Liveness of the skeleton's registers, and reachability of marked instructions.

Dead registers are not part of a run's state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tawa.verify.skeleton.program import Code

Uses = tuple[int, int, bool, int]
"""Bit sets of the registers read and written; whether control may fall through; the jump target (or −1)."""


def uses_of(code: list[tuple[Any, ...]]) -> list[Uses]:
    """The registers that each instruction reads and writes, and its successors."""
    return [_uses(instruction) for instruction in code]


class Live:
    """The live registers before each instruction, each with its kind: a backward data-flow analysis on bit sets.

    shown: makes of live registers what is part of a run's state. Computed where it is asked for.
    """

    def __init__(self, code: list[Uses], kinds: Mapping[int, int]) -> None:
        self.kinds = kinds
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


def _before(code: list[Uses]) -> list[int]:
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


def reached(code: list[Uses], marks: dict[int, int]) -> list[int]:
    """For each instruction the union of the marks of all instructions that it may reach, itself included."""
    found = [0] * (len(code) + 1)
    changed = True
    while changed:
        changed = False
        for at in range(len(code) - 1, -1, -1):
            _, _, goes_on, jump = code[at]
            now = marks.get(at, 0) | (found[at + 1] if goes_on else 0) | (found[jump] if jump >= 0 else 0)
            if now != found[at]:
                found[at] = now
                changed = True
    return found


def _uses(instruction: tuple[Any, ...]) -> Uses:
    match instruction:
        case (Code.SCALAR, _, ins, out, _):
            return _bits(ins), 1 << out, True, -1
        case (Code.ADVANCE, one, out):
            return 1 << one, 1 << out, True, -1
        case (Code.PUT, _, count, _, views):
            return 1 << count, _bits(views), True, -1
        case (Code.GET, _, count, _, views):
            return 1 << count, _bits(views), True, -1
        case (Code.CONSUMED, _, count, condition, _):
            return 1 << count | _bits((condition,)), 0, True, -1
        case (Code.DOT, views, _):
            return _bits(views), 0, True, -1
        case (Code.MOVE, sources, targets):
            return _bits(sources), _bits(targets), True, -1
        case (Code.FOR, lower, upper, step, induction, target):
            return _bits((lower, upper, step)), _bits((induction,)), True, target
        case (Code.NEXT, first, induction):  # the next number is that of this iteration and the step
            return _bits((induction,)), _bits((induction,)), True, first
        case (Code.IF, condition, target):
            return 1 << condition, 0, True, target
        case (Code.JUMP, target):
            return 0, 0, False, target
        case (Code.TEST, condition, target):
            return 1 << condition, 0, True, target
        case (Code.ASSUME, condition):
            return 1 << condition, 0, True, -1
        case (Code.SEND, _, number):
            return 1 << number, 0, True, -1
        case (Code.RECEIVE, view, out):
            return 1 << view, 1 << out, True, -1
        case (Code.ACT, act):
            made = _bits((act.result, *(result for _, result in act.tiles), *((act.number,) if act.takes else ())))
            return _bits(act.inputs), made, True, -1
        case (Code.VIEW, source, slot, out):
            return _bits((source, slot)), 1 << out, True, -1
        case (Code.PICK, condition, one, other, out):
            return _bits((condition, one, other)), 1 << out, True, -1
        case (Code.END, *_):
            return 0, 0, False, -1
        case _:
            return 0, 0, True, -1


def _bits(registers: Iterable[int]) -> int:
    bits = 0
    for number in registers:
        if number >= 0:
            bits |= 1 << number
    return bits
