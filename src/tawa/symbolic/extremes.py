"""Extremes: a statement about a minimum or a maximum, as statements about its operands.

min(a, b) - x > 0      exactly where  a - x > 0  and  b - x > 0
x - max(a, b) > 0      exactly where  x - a > 0  and  x - b > 0
"""

from __future__ import annotations

from collections.abc import Callable

from tawa.dialects.arith import MaxSIOp, MinSIOp
from tawa.ir import Operation, Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.polynomial import Atom, Poly

_MOST = 8
"""The limit on the number of parts; a polynomial with more of them stays whole."""


def parts_of(affine: Affine, poly: Poly, keep: Callable[[Atom], bool] = lambda atom: False) -> tuple[Poly, ...]:
    """Polynomials of which the least equals `poly`: they are all positive exactly where `poly` is.

    keep: minima and maxima that are not taken apart.
    """
    done: list[Poly] = []
    work = [poly]
    while work:
        part = work.pop(0)
        found = _operands(affine, part, keep)
        if found is None:
            done.append(part)
        else:
            work += found
        if len(done) + len(work) > _MOST:
            return (poly,)
    return tuple(dict.fromkeys(done))


def _operands(affine: Affine, poly: Poly, keep: Callable[[Atom], bool]) -> list[Poly] | None:
    """`poly` with its first minimum or maximum replaced by each operand; None without one."""
    for monomial, factor in poly.terms:
        atom = affine.atoms[monomial[0]] if len(monomial) == 1 else None
        op = _extreme(atom, rising=factor > 0)
        alone = [terms for terms, _ in poly.terms if monomial and monomial[0] in terms] == [monomial]
        if op is not None and alone and atom is not None and not keep(atom):
            rest = poly - Poly(((monomial, factor),))
            return [rest + Poly.of((terms, factor * by) for terms, by in affine.poly(it).terms) for it in op.operands]
    return None


def _extreme(atom: Atom | None, rising: bool) -> Operation | None:
    """The operation of a minimum (if the sum rises with it) or of a maximum (if the sum falls)."""
    op = atom.defining_op if isinstance(atom, Value) else None
    wanted = MinSIOp if rising else MaxSIOp
    return op if op is not None and wanted.matches(op) else None
