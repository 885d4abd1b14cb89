"""What is known of scalars: that one is not negative, how great it is at most, what it is a multiple of.

Known from the start: constants, program ids, ranges of loops, multiples (`tawa.analysis.multiples`), `tl.assume`, the
conditions of the branches and loops around an operation. A number that a loop carries is bounded by induction.

What that does not prove may still be *taken*: of an argument that it is not negative (a launch can check that), of a
divisor that it is positive (a number of tiles), of a number from memory that it is not negative (an index). `Proof`
names what was taken, so that the caller decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf, nan

from tawa.analysis.multiples import Multiples
from tawa.dialects.scalars import width_of
from tawa.dialects.scf import ForOp, IfOp, WhileOp
from tawa.dialects.tt import FuncOp
from tawa.ir import Block, Operation, PointerType, Value, parse_type
from tawa.symbolic.affine import Affine
from tawa.symbolic.polynomial import ONE, Atom, Carried, Poly, Trip, constant

DIVISORS = "a divisor in the index arithmetic is positive"
LOADED = "an index that the kernel loads from memory is not negative"

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Proof:
    """Why something holds. arguments: those taken to be 0 or more; taken: what else was taken for granted."""

    arguments: tuple[Value, ...] = ()
    taken: tuple[str, ...] = ()


class Facts(Multiples):
    """Facts about the scalars of one function: signs, bounds and multiples."""

    def __init__(self, function: FuncOp, affine: Affine, promised: Mapping[Value, int] | None = None) -> None:
        super().__init__(function, affine, promised)
        self.function = function
        self._assumed = [op for op in function.op.walk() if op.name == "llvm.intr.assume"]

    # -- signs -----------------------------------------------------------------------------------------------------

    def not_negative(self, poly: Poly, at: Operation) -> Proof | None:
        """Why `poly` is 0 or more wherever `at` is executed; None where nothing says so."""
        known = [self.spread(fact) for fact in self._known_at(at)]
        for level in range(4):
            bounds = _Bounds(self, level)
            if self._holds(self.spread(poly), known, bounds):
                return Proof(tuple(bounds.arguments), tuple(bounds.taken))
        return None

    def positive(self, poly: Poly, at: Operation) -> Proof | None:
        """Why `poly` is 1 or more wherever `at` is executed."""
        return self.not_negative(poly - ONE, at)

    def greatest(self, poly: Poly) -> int | None:
        """The greatest value of `poly`, where it is known."""
        high = _Bounds(self, 0).of_poly(poly)[1]
        return int(high) if high < inf else None

    def counted_from_the_end(self, poly: Poly, at: Operation) -> Poly:
        """`poly` moved up to where a loop that counts down makes it 0 in its last iteration.

        ``-64·iv`` becomes ``64·(end - 1 - iv)``: what is added is the same in every iteration.
        """
        for outer in at.ancestors():
            loop = ForOp.of(outer)
            if loop and not loop.unsigned:
                end = self.affine.poly(loop.bounds[1]) - ONE
                times = _times(poly, end - self.affine.poly(loop.induction))
                poly = poly + end * constant(max(times, 0))
        return poly

    def _holds(self, poly: Poly, known: list[Poly], bounds: _Bounds) -> bool:
        """Whether `poly`, or what is left of it without a multiple of something known, has no negative value."""
        if bounds.of_poly(poly)[0] >= 0:
            return True
        for fact in known:
            times = _times(poly, fact)
            if times > 0 and bounds.of_poly(poly - fact * constant(times))[0] >= 0:
                return True
        return False

    def _known_at(self, at: Operation) -> Iterator[Poly]:
        """Polynomials that are 0 or more at an operation."""
        around = [at, *at.ancestors()]
        for op in self._assumed:
            if any(outer.parent is op.parent for outer in around):
                yield from self._rooms(op.operands[0])
        for inner, outer in pairwise(around):
            loop, branch = ForOp.of(outer), IfOp.of(outer)
            if loop and not loop.unsigned:
                yield self.affine.poly(loop.bounds[1]) - self.affine.poly(loop.induction) - ONE
                yield self.affine.poly(loop.induction) - self.affine.poly(loop.bounds[0])  # with any step
            elif branch and inner.parent is branch.branches[0]:
                yield from self._rooms(branch.condition)

    def _rooms(self, condition: Value) -> Iterator[Poly]:
        for bound in self.affine.bounds(condition) or ():
            if bound.kind == "uniform":
                yield bound.room - ONE

    def from_memory(self, poly: Poly) -> bool:
        """Whether `poly` depends on a scalar that was loaded."""
        work = list(self.affine.atoms.of(poly))
        seen: set[Atom] = set()
        while work:
            atom = work.pop()
            if atom in seen:
                continue
            seen.add(atom)
            if isinstance(atom, Carried):
                work += self.affine.atoms.of(atom.step)
                continue
            op = atom.defining_op if isinstance(atom, Value) else None
            if op is not None and op.name == "tt.load":
                return True
            sources = op.operands if op is not None and op.name.startswith("arith.") else _carried_from(atom)
            work += [part for source in sources for part in self.affine.atoms.of(self.affine.poly(source))]
        return False


class _Bounds:
    """Intervals of scalars, with what had to be taken for granted. level: how much may be."""

    def __init__(self, facts: Facts, level: int) -> None:
        self.facts = facts
        self.level = level
        self.arguments: dict[Value, None] = {}
        self.taken: dict[str, None] = {}
        self._known: dict[Value, Interval] = {}
        self._supposed: dict[Value, Interval] = {}

    def of_poly(self, poly: Poly) -> Interval:
        """The bounds of a sum."""
        low: float = 0
        high: float = 0
        for monomial, factor in self.facts.spread(poly).terms:
            interval: Interval = (factor, factor)
            for index in monomial:
                interval = _product(interval, self.of_atom(self.facts.affine.atoms[index]))
            low, high = low + interval[0], high + interval[1]
        return low, high

    def of_atom(self, atom: Atom) -> Interval:
        """The bounds of an atom."""
        if isinstance(atom, Trip):
            return 0, inf
        if isinstance(atom, Carried):
            if self.of_poly(atom.step)[0] >= 0:
                return 0, inf
            # The jumps of a running index may go back; that it stays an index is what is taken.
            jumps = self.level >= 3 and self.facts.from_memory(atom.step)
            return self._take(LOADED) if jumps else (-inf, inf)
        if atom not in self._known:
            self._known[atom] = (-inf, inf)  # while it is being worked out
            self._known[atom] = self._work_out(atom)
        return self._known[atom]

    def of_value(self, value: Value) -> Interval:
        """The bounds of any scalar."""
        return self.of_poly(self.facts.affine.poly(value))

    def _work_out(self, value: Value) -> Interval:
        owner = value.owner
        if isinstance(owner, Operation):
            return self._computed(owner, value)
        if owner is self.facts.function.body:
            if self.level < 1:
                return -inf, inf
            self.arguments[value] = None
            return 0, inf
        decided = _decided(value)
        if decided is not None:
            return self.of_value(decided)
        ends = _carried_from(value)
        return self._carried(value, *ends) if ends else (-inf, inf)

    def _carried(self, value: Value, first: Value, following: Value) -> Interval:
        """By induction from below."""
        start = self.of_value(first)[0]
        before = self._known, self._supposed
        # What was worked out so far may rest on the value being unknown, what follows rests on the supposition.
        self._supposed = {**self._supposed, value: (start, inf)}
        self._known = dict(self._supposed)
        following_low = self.of_value(following)[0]
        self._known, self._supposed = before
        if following_low >= start:
            return start, inf
        running = self.level >= 3 and self.facts.from_memory(self.facts.affine.atoms.poly(value))
        return self._take(LOADED) if running else (-inf, inf)

    def _computed(self, op: Operation, value: Value) -> Interval:
        match op.name:
            case "tt.get_program_id":
                return 0, (1 << 31) - 1
            case "tt.get_num_programs":
                return 1, (1 << 31) - 1
            case "tt.load":
                return self._take(LOADED) if self.level >= 3 else (-inf, inf)
            case "arith.select":
                return _hull([self.of_value(operand) for operand in op.operands[1:]])
            case "scf.if":
                ends = [block.terminator.operands[value.index] for block in IfOp(op).branches]
                return _hull([self.of_value(end) for end in ends])
            case "arith.trunci":
                low, high = self.of_value(op.operands[0])
                width = width_of(op.result.type) or 0
                fits = width >= 32 or (low >= -1 << (width - 1) and high < 1 << (width - 1))
                return (low, high) if fits else (-inf, inf)
            case "arith.extui":
                low, high = self.of_value(op.operands[0])
                return (low, high) if low >= 0 else (0, inf)
            case "arith.minsi" | "arith.maxsi":
                (low, high), (low2, high2) = (self.of_value(operand) for operand in op.operands)
                pick = min if op.name == "arith.minsi" else max
                return pick(low, low2), pick(high, high2)
            case "arith.divsi" | "arith.remsi" | "arith.shrsi" | "arith.andi":
                return self._divided(op)
            case "arith.divui" | "arith.remui" | "arith.shrui":
                return 0, inf
            case "arith.fptosi" if (width_of(op.result.type) or 0) >= 32 and self._float_not_negative(op.operands[0]):
                return 0, inf
            case _:
                return -inf, inf

    def _float_not_negative(self, value: Value) -> bool:
        """Whether a float is 0 or more: an index times a constant, as where a block is half a group of scales."""
        op = value.defining_op
        match op.name if op is not None else "":
            case "arith.uitofp":
                return True
            case "arith.sitofp":
                return op is not None and self.of_value(op.operands[0])[0] >= 0
            case "arith.mulf" | "arith.addf" | "arith.divf" | "arith.extf" | "arith.truncf":
                return op is not None and all(map(self._float_not_negative, op.operands))
            case "arith.constant":
                return op is not None and _number(op.properties["value"]) >= 0
            case _:
                return False

    def _divided(self, op: Operation) -> Interval:
        left, right = (self.of_value(operand) for operand in op.operands)
        if op.name == "arith.andi":
            return (0, max(left[1], right[1])) if left[0] >= 0 or right[0] >= 0 else (-inf, inf)
        if op.name == "arith.shrsi":
            return (0, left[1]) if left[0] >= 0 else (-inf, inf)
        if op.name == "arith.remsi":  # the sign is that of the dividend
            high = right[1] - 1 if right[0] > 0 else inf
            return (0, min(left[1], high)) if left[0] >= 0 else (-inf, inf)
        if left[0] < 0 and not (right[0] > 0 and left[0] > -right[0]):
            return -inf, inf
        if right[0] <= 0:
            return self._take(DIVISORS) if self.level >= 2 else (-inf, inf)
        return 0, max(left[1], 0)

    def _take(self, what: str) -> Interval:
        self.taken[what] = None
        return 0, inf


def _number(text: str) -> float:
    """A float as MLIR prints it; NaN for bits in hexadecimal."""
    text, _, _ = text.partition(" : ")
    try:
        return float(text)
    except ValueError:
        return nan


def _hull(intervals: list[Interval]) -> Interval:
    return min(low for low, _ in intervals), max(high for _, high in intervals)


def _product(left: Interval, right: Interval) -> Interval:
    corners = [0 if 0 in (a, b) else a * b for a in left for b in right]
    return min(corners), max(corners)


def _times(poly: Poly, fact: Poly) -> int:
    """How often `fact` goes into `poly`, judged by its first product of atoms."""
    factors = dict(poly.terms)
    for monomial, factor in fact.terms:
        if monomial and monomial in factors:
            return factors[monomial] // factor
    return 0


def _carried_from(atom: Atom) -> tuple[Value, Value] | tuple[()]:
    """The first and the next value of what a loop carries; nothing for any other atom."""
    if not isinstance(atom, Value) or not isinstance(atom.owner, Block):
        return ()
    loop, repeat = ForOp.of(atom.owner.parent_op), WhileOp.of(atom.owner.parent_op)
    if loop and atom.index > 0:
        return loop.inits[atom.index - 1], loop.yielded[atom.index - 1]
    if repeat and atom.owner is repeat.before:
        return repeat.op.operands[atom.index], repeat.after.terminator.operands[atom.index]
    return ()


def _decided(value: Value) -> Value | None:
    """What the working half of a `scf.while` is given for one of its arguments."""
    repeat = WhileOp.of(value.owner.parent_op) if isinstance(value.owner, Block) else None
    if repeat is None or value.owner is not repeat.after:
        return None
    return repeat.before.terminator.operands[value.index + 1]


def is_pointer(value: Value) -> bool:
    """Whether a scalar is a pointer."""
    return isinstance(parse_type(value.type), PointerType)


__all__ = ["DIVISORS", "LOADED", "Facts", "Proof", "is_pointer"]
