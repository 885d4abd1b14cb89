"""Counts: what matters of the numbers that slots, parities and predicates are computed from.

    s = it % 3;  p = it // 3 & 1;  it = it + 1            only it mod 6 matters: the run recurs after 6 trips
    if it >= 2: …                                         it up to 2, beyond that it mod 6
    s = s + 1 == 3 ? 0 : s + 1                            s itself, which takes three values

A number is *computed* if it is known in every run: it starts at a constant, and operations on such numbers give the
next one. A computed number that an access uses as slot, parity or predicate matters exactly. One that is only divided,
masked or compared with constants matters up to the largest of the constants, and by its remainder beyond; so an
advance chain is a count, however it is written: a pair of slot and parity, a running count, one per unrolled copy, one
phase bit for each slot. Numbers of fewer than 32 bits wrap in practice: they matter exactly, and a chain that breaks
where they wrap is run to that point. Numbers of 32 bits are assumed not to wrap (`FEWER_ACCESSES`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tawa.dialects import arith
from tawa.dialects.declare.declaration import op_names
from tawa.verify.skeleton.program import Code, Program

FEWER_ACCESSES = "counters of 32 bits or more do not wrap: fewer than 2^31 accesses"
_SAME = op_names(arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.IndexCastOp, arith.IndexCastUIOp, arith.BitcastOp)
_SHIFTS = op_names(arith.ShRSIOp, arith.ShRUIOp)
_QUOTIENTS = op_names(arith.DivSIOp, arith.DivUIOp, arith.FloorDivSIOp) | _SHIFTS
_REMAINDERS = op_names(arith.RemSIOp, arith.RemUIOp)
_MOST_ROUNDS = 40
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Matters:
    """What matters of a number: itself up to `limit`, beyond it the remainder by `modulus`. limit -1: exactly."""

    limit: int = 0
    modulus: int = 1

    @property
    def exact(self) -> bool:
        """Whether all of it matters."""
        return self.limit < 0

    def join(self, other: Matters) -> Matters:
        """What matters for either."""
        if self.exact or other.exact:
            return EXACT
        return _bounded(max(self.limit, other.limit), math.lcm(self.modulus, other.modulus))


EXACT = Matters(-1)


def _bounded(limit: int, modulus: int) -> Matters:
    return EXACT if max(limit, modulus) > _LARGEST else Matters(limit, modulus)


def find_counters(program: Program, kinds: dict[int, int], widths: Mapping[int, int | None]) -> None:
    """Sets the kinds of computed numbers, `Program.counters`, and the registers of numbers that are not computed."""
    finder = _Finder(program)
    program.unknown = {it for it, width in widths.items() if width is not None and it not in finder.computed}
    places: dict[Matters, int] = {}
    for register, matters in finder.matters.items():
        width = widths.get(register)
        if isinstance(program.registers[register], int) or width is None:
            continue
        if matters.exact or width < 32:
            kinds[register] = -1
        else:
            kinds[register] = -2 - places.setdefault(matters, len(places))
    program.counters = [(it.limit, it.modulus) for it in places]


class _Finder:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.code = [
            (instruction, None if op is None or instruction[0] != Code.SCALAR else op.name)
            for part in program.parts
            for instruction, op in zip(part.code, part.ops, strict=True)
        ]
        self.computed = self._find_computed()
        self.matters: dict[int, Matters] = {}
        for _ in range(_MOST_ROUNDS):
            if not self._round():
                break
        else:
            self.matters = dict.fromkeys(self.matters, EXACT)

    def _find_computed(self) -> set[int]:
        """The registers that are known in every run: the largest set that operations and moves keep."""
        presets = {at for at, it in enumerate(self.program.registers) if isinstance(it, int)}
        made: dict[int, list[tuple[int, ...] | None]] = {}
        for instruction, _ in self.code:
            match instruction:
                case (Code.SCALAR, function, ins, out, _):
                    made.setdefault(out, []).append(ins if function is not None else None)
                case (Code.MOVE, sources, targets):
                    for source, target in zip(sources, targets, strict=True):
                        made.setdefault(target, []).append((source,))
                case (Code.FOR, lower, _, step, induction, *_) if induction >= 0:
                    made.setdefault(induction, []).append((lower, step))
                case _:
                    pass
        found = presets | set(made)
        while True:
            lost = {
                out
                for out, ways in made.items()
                if out in found and not all(ins is not None and found.issuperset(ins) for ins in ways)
            }
            if not lost:
                return found
            found -= lost

    def _round(self) -> bool:
        before = dict(self.matters)
        for instruction, name in reversed(self.code):
            self._observe(instruction, name)
        return self.matters != before

    def _note(self, register: int, matters: Matters | None) -> None:
        if matters is not None and register in self.computed:
            known = self.matters.get(register)
            self.matters[register] = matters if known is None else known.join(matters)

    def _exact(self, *registers: int) -> None:
        for register in registers:
            if register >= 0:
                self._note(register, EXACT)

    def _observe(self, instruction: tuple[Any, ...], name: str | None) -> None:
        match instruction:
            case (Code.SCALAR, _, ins, out, _):
                if name is not None and out in self.computed and (after := self.matters.get(out)) is not None:
                    self._operands(name, ins, after)
            case (Code.MOVE, sources, targets):
                for source, target in zip(sources, targets, strict=True):
                    self._note(source, self.matters.get(target))
            case (Code.FOR, lower, _, step, induction, *_) if induction >= 0:  # its trips are asked for, not computed
                after = self.matters.get(induction)
                self._note(lower, after)
                self._note(step, None if after is None else EXACT)
            case (Code.IF, condition, _) | (Code.TEST, condition, *_) | (Code.PICK, condition, *_):
                self._exact(condition)
            case (Code.VIEW, _, slot, _):
                self._exact(slot)
            case (Code.ACT, act):
                self._exact(*act.reads, *(() if act.takes else (act.number,)))
            case _:
                pass

    def _constant(self, register: int) -> int | None:
        value = self.program.registers[register]
        return value if isinstance(value, int) and register in self.computed else None

    def _operands(self, name: str, ins: tuple[int, ...], after: Matters) -> None:
        """What matters of the operands of an operation, given what matters of its result."""
        fixed = [self._constant(it) for it in ins]
        if name in _SAME:
            self._note(ins[0], after)
        elif name == arith.SelectOp.NAME:
            self._exact(ins[0])
            self._note(ins[1], after)
            self._note(ins[2], after)
        elif len(ins) != 2:
            self._exact(*ins)
        elif fixed[0] is None and fixed[1] is None:
            sums = name in (arith.AddIOp.NAME, arith.SubIOp.NAME, arith.MulIOp.NAME)
            if sums and not after.exact and not after.limit:
                self._note(ins[0], after)
                self._note(ins[1], after)
            else:
                self._exact(*ins)
        else:
            place = 0 if fixed[0] is None else 1
            number = fixed[1 - place]
            assert number is not None
            self._note(ins[place], self._before(name, number, after, first=place == 0))

    def _before(self, name: str, number: int, after: Matters, *, first: bool) -> Matters:
        """What matters of one operand if the other is `number`. first: it is the left one."""
        match name:
            case arith.CmpIOp.NAME:
                return _bounded(abs(number) + 1, 1)
            case arith.AddIOp.NAME if not after.exact:
                return _bounded(after.limit + max(-number, 0), after.modulus)
            case arith.SubIOp.NAME if first and not after.exact:
                return _bounded(after.limit + max(number, 0), after.modulus)
            case arith.MulIOp.NAME if number > 0 and not after.exact:
                return after
            case arith.AndIOp.NAME if number >= 0:
                return _bounded(0, 1 << number.bit_length())
            case arith.MinSIOp.NAME | arith.MinUIOp.NAME:
                return _bounded(abs(number) + 1, 1)
            case arith.MaxSIOp.NAME | arith.MaxUIOp.NAME if not after.exact:
                return _bounded(max(after.limit, abs(number) + 1), after.modulus)
            case _ if name in _REMAINDERS and first and number > 0:
                return _bounded(0, number)
            case _ if name in _QUOTIENTS and first and number > 0:
                by = 1 << number if name in _SHIFTS else number
                if number < 64 or name not in _SHIFTS:
                    return (
                        EXACT
                        if after.exact
                        else _bounded((after.limit + 1) * by if after.limit else 0, after.modulus * by)
                    )
            case arith.XOrIOp.NAME | arith.OrIOp.NAME if not after.exact and not after.limit and number >= 0:
                even = after.modulus & (after.modulus - 1) == 0
                return after if even else EXACT
            case _:
                pass
        return EXACT


__all__ = ["FEWER_ACCESSES", "find_counters"]
