"""Induction over loops: closed forms of induction variables, and facts about loop-carried values.

    for %i in range(%first, %end, %step)        %i = first + step · (number of earlier iterations)
      carried %x = (%init, %next)               true of %init, and of %next if true of %x   →   true of %x

`tawa.symbolic.affine` has closed forms of loop-carried values that grow by a loop-invariant step. Induction handles all
others: counters that are reset, numbers selected by a condition, pointers into tables.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, inf

from tawa.dialects.control_flow import incoming
from tawa.dialects.scf import ForOp, WhileOp
from tawa.ir import Block, Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.known import Known
from tawa.symbolic.polynomial import ZERO, Atom, Poly, Trip

_ROUNDS = 8  # limit on how often the divisor of one value may shrink; each time it is at least halved


def first_and_next(value: Value) -> tuple[Value, Value] | None:
    """The initial value and the yielded value of a loop-carried block argument.

    None for any other value, and for arguments of the `after` region of an `scf.while`, which the `before` region
    passes on.
    """
    if not isinstance(value.owner, Block):
        return None
    holder, uses = value.owner.parent_op, incoming(value)
    if len(uses) != 2 or not (ForOp.of(holder) or WhileOp.of(holder)):
        return None
    return uses[0].value, uses[1].value


class Induction:
    """Hypotheses about loop-carried values: a lower bound and divisibility for each.

    The first hypothesis is what is known of the initial value. All hypotheses are weakened until each of them follows,
    for the initial value and for the yielded value, from all of them together.

    known_of: what is known of a value under the hypotheses; it calls `hypothesis` for loop-carried values. forget: is
    called when hypotheses have changed. running_index: the fallback for a value whose lower bound does not hold.
    """

    def __init__(
        self,
        known_of: Callable[[Value], Known],
        forget: Callable[[], None],
        running_index: Callable[[Value, int], Known],
    ) -> None:
        self._known_of, self._forget, self._running_index = known_of, forget, running_index
        self.hypotheses: dict[Value, Known] = {}
        self._taken: set[Value] = set()
        self._rounds: dict[Value, int] = {}

    def hypothesis(self, value: Value) -> Known:
        """The hypothesis about a loop-carried block argument."""
        if value not in self.hypotheses:
            first = self._known_of(_first_and_next(value)[0])
            self.hypotheses[value] = Known(first.low, inf, first.multiple)
        return self.hypotheses[value]

    def settle(self) -> None:
        """Weakens the hypotheses until they are inductive, then collects the premises that they depend on."""
        for step in (self._weakened, self._with_premises):
            changed = True
            while changed:
                self._forget()
                before = len(self.hypotheses)
                weaker = {value: step(value) for value in list(self.hypotheses)}
                changed = len(self.hypotheses) > before or any(self.hypotheses[it] != weaker[it] for it in weaker)
                self.hypotheses.update(weaker)
        self._forget()

    def _weakened(self, value: Value) -> Known:
        """The hypothesis of a value, reduced to what follows from the hypotheses."""
        guess, found = self.hypotheses[value], [self._known_of(it) for it in _first_and_next(value)]
        multiple = gcd(guess.multiple, *(it.multiple for it in found))
        if multiple != guess.multiple:
            self._rounds[value] = self._rounds.get(value, 0) + 1
            multiple = multiple if self._rounds[value] <= _ROUNDS else 1
        if value in self._taken or all(it.low >= guess.low for it in found):
            return Known(guess.low, inf, multiple, guess.premises)
        taken = self._running_index(value, multiple)
        if taken.low > -inf:
            self._taken.add(value)
        return taken

    def _with_premises(self, value: Value) -> Known:
        """The hypothesis of a value, with the premises of the values that it follows from."""
        guess = self.hypotheses[value]
        if value in self._taken:
            return guess
        found = [self._known_of(it) for it in _first_and_next(value)]
        return Known.from_operands((guess, *found), guess.low, inf, guess.multiple)


def _first_and_next(value: Value) -> tuple[Value, Value]:
    carried = first_and_next(value)
    assert carried is not None
    return carried


class InductionVariables:
    """Induction variables as functions of the iteration number, for the polynomials of one function."""

    def __init__(self, affine: Affine) -> None:
        self.affine = affine
        self._expanded: dict[Poly, Poly] = {}

    def expand(self, poly: Poly) -> Poly:
        """`poly` with each induction variable replaced by first + step · iterations."""
        if poly not in self._expanded:
            self._expanded[poly] = self._expand_anew(poly)
        return self._expanded[poly]

    def _expand_anew(self, poly: Poly) -> Poly:
        atoms = self.affine.atoms
        for atom in list(atoms.of(poly)):
            loop = _loop_of(atom)
            if loop is not None:
                first, _, step = (self.affine.poly(bound) for bound in loop.bounds)
                value = self.expand(first + step * atoms.poly(Trip(loop.op)))
                poly = _substitute(poly, atoms.index(atom), value)
        return poly


def _loop_of(atom: Atom) -> ForOp | None:
    """The loop of which an atom is the induction variable; None if it is none."""
    if not isinstance(atom, Value) or atom.index != 0 or not isinstance(atom.owner, Block):
        return None
    return ForOp.of(atom.owner.parent_op)


def _substitute(poly: Poly, atom: int, value: Poly) -> Poly:
    result = ZERO
    for monomial, factor in poly.terms:
        term = Poly.of([(tuple(other for other in monomial if other != atom), factor)])
        for _ in range(monomial.count(atom)):
            term = term * value
        result = result + term
    return result
