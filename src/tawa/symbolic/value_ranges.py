"""Value ranges: bounds and divisibility of the scalars of a function, found by one abstract interpreter.

It starts from constants, program ids, hints, and Triton's specialisation of the arguments (`tawa.dialects.hints`), and
propagates facts through operations (`tawa.symbolic.transfer`) and loops (`tawa.symbolic.induction`). Sums and products
are polynomials, in which equal terms cancel. At an operation, `tl.assume` and the conditions of the branches and loops
around it hold as well.

A statement that does not follow from these may follow from premises: an argument is not negative (a launch can check
that), a divisor is positive (a number of tiles), a loaded integer is not negative (an index). A `Proof` names its
premises, and the caller decides whether to accept them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import inf, lcm

from tawa.dialects.builtin import AssumeOp
from tawa.dialects.control_flow import incoming
from tawa.dialects.hints import argument_divisibility, hint_of
from tawa.dialects.scf import ForOp, IfOp
from tawa.dialects.tt import FuncOp, LoadOp
from tawa.ir import Operation, Value, shape_of
from tawa.symbolic.affine import Affine
from tawa.symbolic.extremes import parts_of
from tawa.symbolic.induction import Induction, InductionVariables, first_and_next
from tawa.symbolic.known import LOADED, UNKNOWN, Known, Proof, Trust
from tawa.symbolic.origins import origins_of
from tawa.symbolic.polynomial import ONE, Atom, Carried, Poly, Trip, constant
from tawa.symbolic.quotients import quotient_of, quotients_in
from tawa.symbolic.transfer import transfer

_LOAD = LoadOp.NAME
_CANDIDATES = 16
"""The limit on the polynomials from which one statement may follow."""


class ValueRanges:
    """Signs, bounds and divisibility of the scalars of one function.

    hints: additional divisors that hold at the operations asked about (`tawa.symbolic.alignment_hints`); for pointers
    in bytes.
    """

    def __init__(self, function: FuncOp, affine: Affine, hints: Mapping[Value, int] | None = None) -> None:
        self.function, self.affine = function, affine
        self._variables = InductionVariables(affine)
        self._interpreters = {trust: _Interpreter(function, self._variables, hints or {}, trust) for trust in Trust}
        self._assumed = [op for op in function.op.walk() if AssumeOp.matches(op)]
        self._facts: dict[Operation, tuple[Poly, ...]] = {}

    # -- anywhere --------------------------------------------------------------------------------------------------

    def known(self, poly: Poly, trust: Trust = Trust.NOTHING) -> Known:
        """The facts about `poly` that hold wherever it is computed."""
        return self._interpreters[trust].of_sum(poly)

    def multiple(self, poly: Poly) -> int:
        """The greatest known divisor of `poly`; 0 divides only 0."""
        return self.known(poly).multiple

    def value_multiple(self, value: Value) -> int:
        """The greatest known divisor of a scalar that is not a sum or product; for a pointer in bytes."""
        return self._interpreters[Trust.NOTHING].of_value(value).multiple

    def greatest(self, poly: Poly) -> int | None:
        """The upper bound of `poly`, if known."""
        high = self.known(poly).high
        return int(high) if high < inf else None

    def from_memory(self, poly: Poly) -> bool:
        """Whether `poly` depends on a scalar that was loaded."""
        return _from_memory(self.affine, poly)

    # -- at an operation -------------------------------------------------------------------------------------------

    def not_negative(self, poly: Poly, at: Operation) -> Proof | None:
        """A proof that `poly` is 0 or more wherever `at` is executed, or None."""
        if at not in self._facts:
            parts = (part for fact in self._known_at(at) for part in parts_of(self.affine, fact + ONE))
            self._facts[at] = tuple(self._variables.expand(part - ONE) for part in parts)
        for trust in Trust:
            for candidate, proof in self._sufficient(self._variables.expand(poly), self._facts[at], trust):
                known = self.known(candidate, trust)
                if known.low >= 0:
                    return known.premises.and_(proof)
        return None

    def _sufficient(self, poly: Poly, facts: tuple[Poly, ...], trust: Trust) -> Iterator[tuple[Poly, Proof]]:
        """Polynomials such that `poly` is 0 or more if one of them is: `poly`, less what is known to be 0 or more."""
        found = {poly: Proof()}
        work = [poly]
        while work:
            part = work.pop(0)
            yield part, found[part]
            if len(found) > _CANDIDATES:
                continue
            less = [(fewer, Proof()) for fewer in _remainders(part, facts)] if part is poly else []
            for fewer, proof in (*less, *self._less_remainders(part, trust)):
                if fewer not in found:
                    found[fewer] = found[part].and_(proof)
                    work.append(fewer)

    def _less_remainders(self, poly: Poly, trust: Trust) -> Iterator[tuple[Poly, Proof]]:
        """`poly` less the remainders that it contains as differences, ``x - x // n * n``."""
        for quotient in quotients_in(self.affine, poly):
            times = quotient.times_in(poly)
            if times is None:
                continue
            dividend, factor = self.known(quotient.dividend, trust), self.known(times, trust)
            if factor.low >= 0 and (quotient.rounds_down or dividend.low >= 0):
                proof = factor.premises if quotient.rounds_down else factor.premises.and_(dividend.premises)
                yield poly - self._variables.expand(quotient.remainder * times), proof

    def positive(self, poly: Poly, at: Operation) -> Proof | None:
        """A proof that `poly` is 1 or more wherever `at` is executed, or None."""
        return self.not_negative(poly - ONE, at)

    def counted_from_the_end(self, poly: Poly, at: Operation) -> Poly:
        """`poly` plus a loop-invariant amount, so that an index that counts down is 0 in the last iteration.

        ``-64·iv`` becomes ``64·(end - 1 - iv)``.
        """
        for outer in at.ancestors():
            loop = ForOp.of(outer)
            if loop and not loop.unsigned:
                end = self.affine.poly(loop.bounds[1]) - ONE
                times = _times(poly, end - self.affine.poly(loop.induction))
                poly = poly + end * constant(max(times, 0))
        return poly

    def _known_at(self, at: Operation) -> Iterator[Poly]:
        """Polynomials that are 0 or more wherever an operation is executed."""
        around = [at, *at.ancestors()]
        for op in self._assumed:
            if any(outer.parent is op.parent for outer in around):
                yield from self._implied(op.operands[0])
        for inner, outer in pairwise(around):
            loop, branch = ForOp.of(outer), IfOp.of(outer)
            if loop and not loop.unsigned:
                yield self.affine.poly(loop.bounds[1]) - self.affine.poly(loop.induction) - ONE
                yield self.affine.poly(loop.induction) - self.affine.poly(loop.bounds[0])  # with any step
            elif branch and inner.parent is branch.branches[0]:
                yield from self._implied(branch.condition)

    def _implied(self, condition: Value) -> Iterator[Poly]:
        """Polynomials that are 0 or more where `condition` holds."""
        for bound in self.affine.bounds(condition) or ():
            if bound.kind == "uniform":
                yield bound.room - ONE


class _Interpreter:
    """The abstract interpreter of one function: a lattice element for each scalar, computed on demand.

    trust: which premises may be used. During an induction, `_following` holds the facts that depend on its hypotheses.
    """

    def __init__(
        self, function: FuncOp, variables: InductionVariables, hints: Mapping[Value, int], trust: Trust
    ) -> None:
        self.function, self.variables, self.hints, self.trust = function, variables, hints, trust
        self.affine = variables.affine
        self._found: dict[Value, Known] = {}
        self._sums: dict[Poly, Known] = {}
        self._open: set[Value] = set()
        self._induction: Induction | None = None
        self._following: dict[Value, Known] = {}

    def of_sum(self, poly: Poly) -> Known:
        """A sum of products, outside of an induction."""
        if poly not in self._sums:
            self._sums[poly] = self.of_poly(poly)
        return self._sums[poly]

    def of_poly(self, poly: Poly) -> Known:
        """A sum of products."""
        result = Known.number(0)
        for monomial, factor in self.variables.expand(poly).terms:
            product = Known.number(factor)
            for index in monomial:
                product = product * self._of_atom(self.affine.atoms[index])
            result = result + product
        return result

    def of_scalar(self, value: Value) -> Known:
        """Any integer, including sums and products; a pointer in bytes."""
        return self.of_poly(self.affine.poly(value))

    def of_value(self, value: Value) -> Known:
        """An integer that is not a sum or product, or a pointer in bytes."""
        found = self._found if self._induction is None or value in self._found else self._following
        if value not in found:
            if value in self._open:
                return UNKNOWN  # a cycle that is not an `scf` loop
            self._open.add(value)
            known = self._through_control_flow(value) if incoming(value) else self._from_origin(value)
            self._open.discard(value)
            multiple = lcm(known.multiple, self.hints.get(value, 1))
            found[value] = Known(known.low, known.high, multiple, known.premises)
        return found[value]

    def _of_atom(self, atom: Atom) -> Known:
        if isinstance(atom, Trip):
            return Known(0)
        if isinstance(atom, Value):
            return self.of_value(atom)
        step = self.of_poly(atom.step)
        if step.low >= 0:
            return Known.from_operands((step,), 0, multiple=step.multiple)
        return self._running_index(atom.step, step.multiple)

    def _from_origin(self, value: Value) -> Known:
        """An argument of the function, or the result of an operation other than control flow."""
        owner = value.owner
        if not isinstance(owner, Operation):
            return self._argument(value) if owner is self.function.body else UNKNOWN
        known = transfer(owner, self.of_scalar, self.trust)
        hint = None if shape_of(value) else hint_of(owner, "divisibility")
        multiple = lcm(known.multiple, hint[0] if hint is not None else 1, self._quotient_multiple(value))
        return Known(known.low, known.high, multiple, known.premises)

    def _quotient_multiple(self, value: Value) -> int:
        """A divisor of a quotient: ``64·iv // 2`` and ``(64·iv + 1) // 2`` are multiples of 32."""
        quotient = quotient_of(self.affine, value)
        by = quotient.divisor.number if quotient is not None else None
        if quotient is None or by is None or by < 1:
            return 1
        dividend = self.variables.expand(quotient.dividend)
        rest = dict(dividend.terms).get((), 0) % by
        whole = self.of_poly(dividend - constant(rest)).multiple
        if whole % by:
            return 1
        if rest and not quotient.rounds_down:  # rounded towards zero: down only if the dividend is not negative
            known = self.of_poly(dividend)
            if known.low < 0 or known.premises != Proof():
                return 1
        return whole // by

    def _argument(self, value: Value) -> Known:
        multiple = argument_divisibility(self.function, value)
        if self.trust < Trust.ARGUMENTS:
            return Known(multiple=multiple)
        return Known(0, multiple=multiple, premises=Proof((value,)))

    # -- control flow ----------------------------------------------------------------------------------------------

    def _through_control_flow(self, value: Value) -> Known:
        if first_and_next(value) is not None:
            return self._by_induction(value) if self._induction is None else self._induction.hypothesis(value)
        first, *others = (self.of_scalar(use.value) for use in incoming(value))
        for other in others:
            first = first.join(other)
        return first

    def _by_induction(self, value: Value) -> Known:
        outer, self._open = self._open, set()
        self._induction = Induction(self.of_scalar, self._following.clear, self._running_value)
        self._induction.hypothesis(value)
        self._induction.settle()
        known = self._induction.hypotheses[value]
        self._open, self._induction = outer, None
        return known

    def _running_value(self, value: Value, multiple: int) -> Known:
        return self._running_index(self.affine.atoms.poly(value), multiple)

    def _running_index(self, poly: Poly, multiple: int) -> Known:
        """A loop-carried integer that may decrease. If it changes by loaded integers, the premise `LOADED` applies."""
        if self.trust >= Trust.MEMORY and _from_memory(self.affine, poly):
            return Known.from_operands((), 0, multiple=multiple, taken=LOADED)
        return Known(multiple=multiple)


def _from_memory(affine: Affine, poly: Poly) -> bool:
    """Whether `poly` depends on a loaded scalar through integer arithmetic."""
    values: list[Value] = []
    work = [poly]
    while work:
        for atom in affine.atoms.of(work.pop()):
            if isinstance(atom, Carried):
                work.append(atom.step)
            elif isinstance(atom, Value):
                values.append(atom)
    return any(op.name == _LOAD for op in origins_of(values, follow=_is_arithmetic).operations)


def _is_arithmetic(op: Operation) -> bool:
    return op.name.startswith("arith.")


def _remainders(poly: Poly, facts: tuple[Poly, ...]) -> Iterator[Poly]:
    """`poly` minus a multiple of each fact with which it shares a term: if that is 0 or more, so is `poly`."""
    for fact in facts:
        times = _times(poly, fact)
        if times > 0:
            yield poly - fact * constant(times)


def _times(poly: Poly, fact: Poly) -> int:
    """The integer quotient of `poly` by `fact`, judged by the first monomial that they share."""
    factors = dict(poly.terms)
    for monomial, factor in fact.terms:
        if monomial and monomial in factors:
            return factors[monomial] // factor
    return 0
