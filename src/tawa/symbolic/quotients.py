"""Quotients: what is left of a dividend, written as a difference.

    tile = pid - pid // n * n            the same as pid % n: 0 or more if pid is

A remainder that is written as a difference is a polynomial like any other. It has terms of both signs, so that its sign
follows only from the quotient that it contains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tawa.dialects.arith import DivSIOp, ShRSIOp
from tawa.ir import Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.polynomial import ZERO, Atom, Poly, constant


@dataclass(frozen=True, slots=True)
class Quotient:
    """A quotient, which is an atom. rounds_down: whether it rounds down for negative dividends; others round to 0."""

    value: Poly
    dividend: Poly
    divisor: Poly
    rounds_down: bool = False

    @property
    def taken(self) -> Poly:
        """The part of the dividend that the divisor measures."""
        return self.divisor * self.value

    @property
    def remainder(self) -> Poly:
        """What is left of the dividend: 0 or more if the dividend is, or if the quotient rounds down."""
        return self.dividend - self.taken

    def times_in(self, poly: Poly) -> Poly | None:
        """How often `poly` subtracts `taken`: the factor of one term, judged by its first term; None if it does not."""
        ((monomial, factor), *_) = self.taken.terms
        lead = Poly(((monomial, factor),))
        for term in poly.terms:
            times = Poly((term,)).divided_by(-lead)
            if times is not None and all(by > 0 for _, by in times.terms):
                return times
        return None


def quotient_of(affine: Affine, atom: Atom) -> Quotient | None:
    """An atom as a quotient; None if it is not one."""
    op = atom.defining_op if isinstance(atom, Value) else None
    if op is None or not isinstance(atom, Value):
        return None
    if DivSIOp.matches(op):
        dividend, divisor = map(affine.poly, op.operands)
        return Quotient(affine.atoms.poly(atom), dividend, divisor) if divisor.terms else None
    if ShRSIOp.matches(op):
        dividend, amount = affine.poly(op.operands[0]), affine.poly(op.operands[1]).number
        if amount is not None and 0 <= amount < 31:
            return Quotient(affine.atoms.poly(atom), dividend, constant(1 << amount), rounds_down=True)
    return None


def quotients_in(affine: Affine, poly: Poly) -> Iterator[Quotient]:
    """The quotients among the atoms of `poly`."""
    for index in poly.atoms:
        found = quotient_of(affine, affine.atoms[index])
        if found is not None:
            yield found


def taken_from(affine: Affine, poly: Poly, others: Poly) -> Poly:
    """What `others` subtracts to make remainders of terms of `poly`: ``n·(pid // n)`` for ``pid``."""
    taken = ZERO
    for quotient in quotients_in(affine, others):
        times = quotient.times_in(others)
        if times is not None:
            part, dividend = quotient.taken * times, quotient.dividend * times
            if set(dividend.terms) <= set(poly.terms) and set((-part).terms) <= set(others.terms):
                taken, others = taken + part, others + part
    return taken
