"""Counts: what matters of the numbers that slots, parities and predicates are computed from.

    s = it % 3;  p = it // 3 & 1;  it = it + 1            only it mod 6 matters: the run recurs after 6 trips
    if it >= 2: …                                         it up to 2, beyond that it mod 6
    s = s + 1 == 3 ? 0 : s + 1                            s itself, which takes three values

A number is *computed* if it is known in every run: it starts at a constant, and operations on such numbers give the
next one. A computed number that an access uses as slot, parity or predicate matters exactly. One that is only divided,
masked or compared with constants matters up to the largest of the constants, and by its remainder beyond; so an
advance chain is a count, however it is written: a pair of slot and parity, a running count, one per unrolled copy, one
phase bit for each slot. Numbers of fewer than 32 bits wrap in practice: they matter exactly, and a chain that breaks
where they wrap is run to that point; of a number that is cut to fewer bits, these bits matter. A sum of two numbers
that may be negative matters exactly, as does a difference: their remainders depend on the sign. Numbers of 32 bits are
assumed not to wrap (`fewer_accesses`), unless a large constant goes into them. One that grows by constants, and is
multiplied by constants before it matters, wraps after 2^31 accesses, divided by these; one that grows in another way,
or would wrap after few accesses, matters exactly.

    it = it + 64;  s = it * 2 % 3            fewer than 2^24 accesses
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tawa.dialects import arith
from tawa.dialects.declare.declaration import op_names
from tawa.ir import Operation
from tawa.verify.skeleton.program import Code, Program

_SAME = op_names(arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.IndexCastOp, arith.IndexCastUIOp, arith.BitcastOp)
_SHIFTS = op_names(arith.ShRSIOp, arith.ShRUIOp)
_QUOTIENTS = op_names(arith.DivSIOp, arith.DivUIOp, arith.FloorDivSIOp) | _SHIFTS
_REMAINDERS = op_names(arith.RemSIOp, arith.RemUIOp)
_SUMS = op_names(arith.AddIOp, arith.SubIOp)
_UNSIGNED = op_names(arith.MinUIOp, arith.MaxUIOp)
_FALLS = _QUOTIENTS | _REMAINDERS | op_names(arith.AndIOp, arith.CmpIOp, arith.MulIOp)
"""Operations whose result is small, or counts in the scale, where an operand is large."""
_KEEP_SIGN = (_QUOTIENTS | _REMAINDERS | _SAME | op_names(
    arith.AddIOp, arith.MulIOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp, arith.MinSIOp, arith.MaxSIOp
))  # fmt: skip
"""Operations that give no negative numbers for numbers that are not."""
_MOST_ROUNDS = 40
_LARGEST = 1 << 20
_HIGH = 1 << 16
"""A count that starts at this number or more, or is added to it, may wrap early: it matters exactly."""
_BITS = 31
_FEWEST = 20
"""A number that wraps after fewer than 2^20 accesses matters exactly."""


@dataclass(frozen=True, slots=True)
class Matters:
    """What matters of a number: itself up to `limit`, beyond it the remainder by `modulus`. limit -1: exactly.

    scale: the largest factor by which it is multiplied before it matters.
    """

    limit: int = 0
    modulus: int = 1
    scale: int = 1

    @property
    def exact(self) -> bool:
        """Whether all of it matters."""
        return self.limit < 0

    def join(self, other: Matters) -> Matters:
        """What matters for either."""
        if self.exact or other.exact:
            return EXACT
        scale = max(self.scale, other.scale)
        return _bounded(max(self.limit, other.limit), math.lcm(self.modulus, other.modulus), scale)


EXACT = Matters(-1)


def _bounded(limit: int, modulus: int, scale: int = 1) -> Matters:
    return EXACT if max(limit, modulus) > _LARGEST else Matters(limit, modulus, scale)


def fewer_accesses(program: Program) -> str:
    """The assumption that no counter wraps."""
    return f"counters of 32 bits or more do not wrap: fewer than 2^{program.access_bits} accesses"


def computed_registers(program: Program) -> set[int]:
    """The registers that are known in every run: the largest set that operations and moves keep."""
    presets = {at for at, it in enumerate(program.registers) if isinstance(it, int)}
    return _kept(presets, program, lambda instruction, _: instruction[1] is not None)


def _kept(presets: set[int], program: Program, keeps: Callable[[tuple[Any, ...], Operation | None], bool]) -> set[int]:
    """The largest set of registers, with these, that moves keep, and those operations for which `keeps` holds."""
    made: dict[int, list[tuple[int, ...] | None]] = {}
    for part in program.parts:
        for instruction, op in zip(part.code, part.ops, strict=True):
            match instruction:
                case (Code.SCALAR, _, ins, out, _):
                    made.setdefault(out, []).append(ins if keeps(instruction, op) else None)
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


def find_counters(program: Program, kinds: dict[int, int], widths: Mapping[int, int | None]) -> None:
    """Sets the kinds of computed numbers, `Program.counters`, and the registers of numbers that are not computed."""
    finder = _Finder(program, widths)
    program.unknown = {it for it, width in widths.items() if width is not None and it not in finder.computed}
    places: dict[Matters, int] = {}
    for register, matters in finder.matters.items():
        width = widths.get(register)
        if isinstance(program.registers[register], int) or width is None:
            continue
        if matters.exact or width < 32:
            kinds[register] = -1
        else:
            kinds[register] = -2 - places.setdefault(replace(matters, scale=1), len(places))
    program.counters = [(it.limit, it.modulus) for it in places]
    program.access_bits = finder.access_bits


class _Finder:
    def __init__(self, program: Program, widths: Mapping[int, int | None]) -> None:
        self.program = program
        self.widths = widths
        self.code = [
            (instruction, None if op is None or instruction[0] != Code.SCALAR else op.name)
            for part in program.parts
            for instruction, op in zip(part.code, part.ops, strict=True)
        ]
        self.computed = computed_registers(program)
        self.high = self._high_registers()
        self.not_negative = self._registers_not_negative()
        self.matters: dict[int, Matters] = {}
        self._find_matters()
        self.access_bits = _BITS
        while (wrapping := self._wrapping()) is not None:
            self._exact(*wrapping)
            self._find_matters()

    def _high_registers(self) -> set[int]:
        """The registers that a large constant goes into."""
        edges: dict[int, list[int]] = {}
        for instruction, name in self.code:
            match instruction:
                case (Code.SCALAR, _, ins, out, _) if name not in _FALLS:
                    for operand in ins:
                        edges.setdefault(operand, []).append(out)
                case (Code.MOVE, sources, targets):
                    for source, target in zip(sources, targets, strict=True):
                        edges.setdefault(source, []).append(target)
                case (Code.FOR, lower, _, _, induction, *_) if induction >= 0:
                    edges.setdefault(lower, []).append(induction)
                case _:
                    pass
        high = {it for it in self.computed if abs(self._constant(it) or 0) >= _HIGH}
        return set[int]().union(*(_reached(it, edges, self.computed) for it in high))

    def _registers_not_negative(self) -> set[int]:
        """The registers that are never below 0: remainders and quotients round towards 0, and differ below it."""

        def keeps(instruction: tuple[Any, ...], op: Operation | None) -> bool:
            return op is not None and op.name in _KEEP_SIGN and (self.widths.get(instruction[3]) or 0) > _BITS

        presets = {at for at, it in enumerate(self.program.registers) if isinstance(it, int) and it >= 0}
        return self.computed & _kept(presets, self.program, keeps)

    def _find_matters(self) -> None:
        for _ in range(_MOST_ROUNDS):
            if not self._round():
                break
        else:
            self.matters = dict.fromkeys(self.matters, EXACT)

    def _wrapping(self) -> list[int] | None:
        """The registers of a counter that would wrap after fewer than 2^20 accesses; None if there is no such counter.

        Sets `access_bits` to the bound that holds for the counters before it.
        """
        counts = {it for it, matters in self.matters.items() if not matters.exact}
        self.access_bits = _BITS
        for registers, steps in self._growing(counts):
            scale = max(self.matters[it].scale for it in registers)
            bits = _BITS - (max(sum(map(abs, steps)), 1) * scale - 1).bit_length()
            if not steps or bits < _FEWEST:
                return registers
            self.access_bits = min(self.access_bits, bits)
        return None

    def _growing(self, counts: set[int]) -> Iterator[tuple[list[int], list[int]]]:
        """Counts that grow from one iteration to the next, with what is added; nothing if that is no constant."""
        sums: list[tuple[int, int, int | None]] = []  # operand, result, and what is added
        edges: dict[int, list[int]] = {}
        for instruction, name in self.code:
            match instruction:
                case (Code.SCALAR, _, ins, out, _):
                    for place, operand in enumerate(ins):
                        edges.setdefault(operand, []).append(out)
                        if name in _SUMS and operand in counts and out in counts and self._constant(operand) is None:
                            sums.append((operand, out, self._constant(ins[1 - place])))
                case (Code.MOVE, sources, targets):
                    for source, target in zip(sources, targets, strict=True):
                        edges.setdefault(source, []).append(target)
                case (Code.FOR, _, _, step, induction, *_) if induction in counts and self.matters[induction].scale > 1:
                    constant = self._constant(step)  # the iteration number itself does not wrap, but its multiples do
                    yield [induction], [] if constant is None else [constant]
                case _:
                    pass
        reached = {out: _reached(out, edges, counts) for _, out, _ in sums}
        for operand, out, _ in sums:
            if operand in reached[out]:  # else it is an offset
                around = [it for it in sums if it[0] in reached[out] and operand in reached[it[1]]]
                steps = [number for *_, number in around if number is not None]
                yield [at for it in around for at in it[:2]], steps if len(steps) == len(around) else []

    def _round(self) -> bool:
        before = dict(self.matters)
        for instruction, name in reversed(self.code):
            self._observe(instruction, name)
        return self.matters != before

    def _note(self, register: int, matters: Matters | None) -> None:
        if matters is not None and register in self.computed:
            matters = EXACT if register in self.high else matters
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
                    self._operands(name, ins, out, after)
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

    def _operands(self, name: str, ins: tuple[int, ...], out: int, after: Matters) -> None:
        """What matters of the operands of an operation, given what matters of its result."""
        fixed, width = [self._constant(it) for it in ins], self.widths.get(out) or _BITS + 1
        if name == arith.TruncIOp.NAME and width <= _BITS:
            self._note(ins[0], _bounded(0, 1 << width))
        elif name in _SAME:
            self._note(ins[0], after)
        elif name == arith.SelectOp.NAME:
            self._exact(ins[0])
            self._note(ins[1], after)
            self._note(ins[2], after)
        elif len(ins) != 2:
            self._exact(*ins)
        elif fixed[0] is None and fixed[1] is None:
            keeps = (
                name == arith.AddIOp.NAME and self.not_negative.issuperset(ins) and not after.exact and not after.limit
            )
            for it in ins:
                self._note(it, after if keeps else EXACT)
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
                return _bounded(after.limit + max(-number, 0), after.modulus, after.scale)
            case arith.SubIOp.NAME if first and not after.exact:
                return _bounded(after.limit + max(number, 0), after.modulus, after.scale)
            case arith.MulIOp.NAME if number > 0 and not after.exact:
                return replace(after, scale=after.scale * number)
            case arith.AndIOp.NAME if number >= 0:
                return _bounded(0, 1 << number.bit_length())
            case _ if number < 0 and name in _UNSIGNED:
                return EXACT
            case arith.MinSIOp.NAME | arith.MinUIOp.NAME:
                return _bounded(abs(number) + 1, 1)
            case arith.MaxSIOp.NAME | arith.MaxUIOp.NAME if not after.exact:
                return _bounded(max(after.limit, abs(number) + 1), after.modulus, after.scale)
            case _ if name in _REMAINDERS and first and number > 0:
                return _bounded(0, number)
            case _ if name in _QUOTIENTS and first and number > 0:
                by = 1 << number if name in _SHIFTS else number
                if number < 64 or name not in _SHIFTS:
                    limit = (after.limit + 1) * by if after.limit else 0
                    return EXACT if after.exact else _bounded(limit, after.modulus * by, -(-after.scale // by))
            case arith.XOrIOp.NAME | arith.OrIOp.NAME if not after.exact and not after.limit and number >= 0:
                even = after.modulus & (after.modulus - 1) == 0
                return after if even else EXACT
            case _:
                pass
        return EXACT


def _reached(start: int, edges: Mapping[int, list[int]], within: set[int]) -> set[int]:
    """The registers that a number goes into, itself among them."""
    seen = {start}
    work = [start]
    while work:
        for target in edges.get(work.pop(), ()):
            if target in within and target not in seen:
                seen.add(target)
                work.append(target)
    return seen
