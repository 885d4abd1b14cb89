"""What scalars are multiples of: by the divisibility of arguments, by promises, and by arithmetic.

Known from the start: what Triton found of the arguments, and `tl.multiple_of`. A number that a loop carries is bounded
by induction.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import gcd, lcm

from tawa.dialects.scf import ForOp, IfOp
from tawa.dialects.tt import FuncOp
from tawa.ir import Block, Operation, Value
from tawa.ir.attributes import attribute_of, read_int
from tawa.symbolic.affine import Affine
from tawa.symbolic.dim_relations import shape_of
from tawa.symbolic.polynomial import ZERO, Atom, Carried, Poly, Trip

DIVISIBILITY = "tt.divisibility"
_INDUCTIONS = 8  # rounds of the greatest common divisor of what a loop carries; each at least halves it


class Multiples:
    """What the scalars of one function are multiples of.

    promised: what is known of some besides, where it is asked for (`tawa.analysis.promises`); pointers in bytes.
    """

    def __init__(self, function: FuncOp, affine: Affine, promised: Mapping[Value, int] | None = None) -> None:
        self.affine = affine
        self.promised = dict(promised or {})
        self.divisibility = _argument_divisibility(function)
        self._divisors: dict[Value, int] = {}
        self._supposed: dict[Value, int] = {}
        self._spread: dict[Poly, Poly] = {}

    def spread(self, poly: Poly) -> Poly:
        """Loop variables as first + stride · iterations."""
        if poly not in self._spread:
            self._spread[poly] = self._spread_anew(poly)
        return self._spread[poly]

    def _spread_anew(self, poly: Poly) -> Poly:
        for atom in list(self.affine.atoms.of(poly)):
            loop = _loop_of(atom)
            if loop is not None and isinstance(atom, Value):
                first, _, stride = (self.affine.poly(bound) for bound in loop.bounds)
                value = first + stride * self.affine.atoms.poly(Trip(loop.op))
                poly = _substitute(poly, self.affine.atoms.index(atom), self.spread(value))
        return poly

    def multiple(self, poly: Poly) -> int:
        """The greatest number known to divide `poly`; 0 divides only 0."""
        return reduce(gcd, (self._term_multiple(monomial, factor) for monomial, factor in self.spread(poly).terms), 0)

    def _term_multiple(self, monomial: tuple[int, ...], factor: int) -> int:
        result = abs(factor)
        for index in monomial:
            result *= self._atom_multiple(self.affine.atoms[index])
        return result

    def _atom_multiple(self, atom: Atom) -> int:
        if isinstance(atom, Trip):
            return 1
        return self.multiple(atom.step) if isinstance(atom, Carried) else self.value_multiple(atom)

    def value_multiple(self, value: Value) -> int:
        """The greatest number known to divide an atom; of a pointer in bytes."""
        if value not in self._divisors:
            self._divisors[value] = 1  # while it is being worked out
            self._divisors[value] = lcm(max(1, self._work_out(value)), self.promised.get(value, 1))
        return self._divisors[value]

    def _work_out(self, value: Value) -> int:
        owner = value.owner
        if isinstance(owner, Block):
            if value in self.divisibility:
                return self.divisibility[value]
            loop = ForOp.of(owner.parent_op)
            return self._carried_multiple(loop, value) if loop and value.index > 0 else 1
        promised = _promised(owner)
        match owner.name:
            case "arith.select":
                found = gcd(*(self.multiple(self.affine.poly(operand)) for operand in owner.operands[1:]))
            case "arith.minsi" | "arith.maxsi" | "arith.remsi" | "arith.remui":
                found = gcd(*(self.multiple(self.affine.poly(operand)) for operand in owner.operands))
            case "arith.trunci" | "arith.extui":
                found = self.multiple(self.affine.poly(owner.operands[0]))
            case "scf.if":
                ends = [block.terminator.operands[value.index] for block in IfOp(owner).branches]
                found = gcd(*(self.multiple(self.affine.poly(end)) for end in ends))
            case _:
                found = 1
        return max(found, promised)

    def _carried_multiple(self, loop: ForOp, value: Value) -> int:
        """By induction: what divides the first value, and the next one if it divides this one."""
        start, end = loop.inits[value.index - 1], loop.yielded[value.index - 1]
        guess = self.multiple(self.affine.poly(start)) or 1 << 30
        before = self._divisors, self._supposed
        for _ in range(_INDUCTIONS):
            self._supposed = {**before[1], value: guess}
            self._divisors = dict(self._supposed)
            found = gcd(guess, self.multiple(self.affine.poly(end)))
            self._divisors, self._supposed = before
            if found == guess:
                return guess
            guess = found
        return 1


def _substitute(poly: Poly, atom: int, value: Poly) -> Poly:
    result = ZERO
    for monomial, factor in poly.terms:
        term = Poly.of([(tuple(other for other in monomial if other != atom), factor)])
        for _ in range(monomial.count(atom)):
            term = term * value
        result = result + term
    return result


def _loop_of(atom: Atom) -> ForOp | None:
    """The loop whose variable `atom` is."""
    if not isinstance(atom, Value) or atom.index != 0 or not isinstance(atom.owner, Block):
        return None
    return ForOp.of(atom.owner.parent_op)


def _promised(op: Operation) -> int:
    """What `tl.multiple_of` said of a scalar; of one of several results of a branch or a loop it may be any's."""
    text = attribute_of(op.attributes, DIVISIBILITY)
    if text is None or op.regions or len(op.results) != 1 or shape_of(op.results[0]):
        return 1
    text = text[len("dense<") : text.index(">")] if text.startswith("dense<") else text
    try:
        return max(1, read_int(text.strip("[]")))
    except ValueError:
        return 1


def _argument_divisibility(function: FuncOp) -> dict[Value, int]:
    """What Triton found of the arguments: numbers as they are, pointers in bytes."""
    known = {argument: function.attributes_of(argument).get(DIVISIBILITY) for argument in function.body.args}
    return {argument: read_int(text) for argument, text in known.items() if text}


__all__ = ["DIVISIBILITY", "Multiples"]
