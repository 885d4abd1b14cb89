"""Simplification of launch conditions: clauses over host expressions that must all hold.

    1 <= K;  8000 <= ceil(programs / 132) * (862 * largest(0, (K + 63) // 64))
    →   ceil(programs / 132) * ceil(K / 64) >= 10;  K >= 1

    with 132 programs or fewer, K a multiple of 16
    →   K >= 592

Simplified clauses hold for exactly those arguments of the domain for which the given clauses hold. Each clause is
simplified under the assumption that all others hold, which is sound because the others stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd, inf, isfinite, lcm

from tawa.symbolic.host.expr import Apply, Argument, Condition, HostValue, Number
from tawa.symbolic.host.ranges import ANY, Domain, direction, is_total, range_of
from tawa.symbolic.host.simplify import simplified_value, sum_of, terms_of
from tawa.symbolic.range import Range

_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Clause:
    """``least <= value <= most``, a multiple of `multiple`, and not 0 if `nonzero`.

    lenient: whether it holds where the value cannot be computed.
    """

    value: HostValue
    least: int | None = None
    most: int | None = None
    multiple: int = 1
    nonzero: bool = False
    lenient: bool = False

    def holds(self, arguments: Sequence[int]) -> bool:
        """Whether it holds for these arguments."""
        try:
            found = self.value.evaluate(arguments)
        except ZeroDivisionError:
            return self.lenient
        if (self.least is not None and found < self.least) or (self.most is not None and found > self.most):
            return False
        return found % self.multiple == 0 and not (self.nonzero and found == 0)

    @staticmethod
    def of(condition: Condition) -> Clause:
        """The clause of a condition."""
        return Clause(condition.value, condition.least, condition.most, condition.multiple)


NEVER = Clause(Number(0), 1)
"""Holds for no arguments."""


def simplified(clauses: Iterable[Clause], domain: Domain) -> tuple[Clause, ...]:
    """Equivalent clauses over the domain: an empty tuple if all arguments satisfy them, `NEVER` if none do."""
    found = _merged(clauses)
    for _ in range(_ROUNDS):
        before = list(found)
        at = 0
        while at < len(found):
            others = [*found[:at], *found[at + 1 :]]
            parts = _solved(found[at], narrowed(domain, others), domain)
            found[at : at + 1] = parts
            at += len(parts)
        found = _merged(found)
        if NEVER in found:
            return (NEVER,)
        if found == before:
            break
    return tuple(_rounded(it, domain) for it in found)


def _merged(clauses: Iterable[Clause]) -> list[Clause]:
    """Merges the clauses of each value into one."""
    known: dict[tuple[HostValue, bool], Clause] = {}
    for it in clauses:
        lenient = it.lenient and not is_total(it.value)
        key = (it.value, lenient)
        old = known.get(key, Clause(it.value, lenient=lenient))
        lows = [end for end in (old.least, it.least) if end is not None]
        highs = [end for end in (old.most, it.most) if end is not None]
        both = Clause(
            it.value, max(lows, default=None), min(highs, default=None), lcm(old.multiple, it.multiple),
            old.nonzero or it.nonzero, lenient,
        )  # fmt: skip
        if both.least is not None and both.most is not None and both.least > both.most and not lenient:
            return [NEVER]
        known[key] = both
    return list(dict.fromkeys(known.values()))


def narrowed(domain: Domain, clauses: Iterable[Clause]) -> Domain:
    """The domain restricted by the clauses that bound a single argument."""
    found = dict(domain)
    for it in clauses:
        if isinstance(it.value, Argument):
            least = -inf if it.least is None else it.least
            limits = Range(least, inf if it.most is None else it.most, it.multiple)
            found[it.value.index] = found.get(it.value.index, ANY).and_also(limits)
    return found


def _rounded(clause: Clause, domain: Domain) -> Clause:
    """Rounds the bounds of an argument that is a multiple of 16 to 16, 32, …, or to "positive"."""
    if not isinstance(clause.value, Argument):
        return clause
    known = max(1, lcm(range_of(clause.value, domain).multiple, clause.multiple))
    least, most = clause.least, clause.most
    if least is not None and most is not None and least == most:
        return clause
    if least is not None:
        least = 1 if 0 < least <= known else -(-least // known) * known
    if most is not None:
        most = most // known * known
    return replace(clause, least=least, most=most)


# -- one clause, as an equivalent list of clauses ----------------------------------------------------------------------


def _solved(clause: Clause, domain: Domain, outer: Domain) -> list[Clause]:
    """Clauses equivalent to one clause. domain: restricted by the other clauses; outer: the whole domain."""
    if any(it.is_empty for it in domain.values()):
        return [NEVER]
    value = simplified_value(clause.value, domain)
    if not is_total(value):
        return [replace(clause, value=value)]
    parts: list[Clause] = []
    if clause.least is not None:
        parts += _at_least(value, clause.least, domain)
    if clause.most is not None:
        parts += _at_most(value, clause.most, domain)
    if clause.multiple != 1:
        parts += _multiple(value, clause.multiple, domain)
    if clause.nonzero:
        parts += _nonzero(value, domain)
    return parts


def _nonzero(value: HostValue, domain: Domain) -> list[Clause]:
    limits = range_of(value, domain)
    if limits.value == 0:
        return [NEVER]
    if limits.is_natural:
        return _at_least(value, 1, domain)
    return [] if limits.high < 0 else [Clause(value, nonzero=True)]


def _at_most(value: HostValue, most: int, domain: Domain) -> list[Clause]:
    limits = range_of(value, domain)
    if limits.high <= most:
        return []
    if limits.low > most:
        return [NEVER]
    match value:
        case Apply("largest", operands):
            return [part for it in operands for part in _at_most(it, most, domain)]
        case Apply("smallest", operands):
            possible = [it for it in operands if range_of(it, domain).low <= most]
            return _one_of(value, possible, None, most, domain)
        case Apply("divide", (dividend, Number(n))) if n > 0:
            return _at_most(dividend, n * most + n - 1 if most >= 0 else n * most, domain)
        case Apply("ceiling", (dividend, Number(n))):
            return _at_most(dividend, n * most, domain)
        case _:
            return _linear(value, None, most, domain)


def _at_least(value: HostValue, least: int, domain: Domain) -> list[Clause]:
    limits = range_of(value, domain)
    if limits.low >= least:
        return []
    if limits.high < least:
        return [NEVER]
    match value:
        case Apply("smallest", operands):
            return [part for it in operands for part in _at_least(it, least, domain)]
        case Apply("largest", operands):
            possible = [it for it in operands if range_of(it, domain).high >= least]
            return _one_of(value, possible, least, None, domain)
        case Apply("divide", (dividend, Number(n))) if n > 0:
            return _at_least(dividend, n * least if least > 0 else n * (least - 1) + 1, domain)
        case Apply("ceiling", (dividend, Number(n))):
            return _at_least(dividend, n * (least - 1) + 1, domain)
        case Apply("product", factors) if least >= 1 and not isinstance(factors[-1], Number):
            return _product_at_least(value, factors, least, domain)
        case _:
            return _linear(value, least, None, domain)


def _one_of(
    value: HostValue, possible: list[HostValue], least: int | None, most: int | None, domain: Domain
) -> list[Clause]:
    """At least one operand must satisfy the bound. possible: the operands that can."""
    if len(possible) != 1:
        return _threshold(value, least, most, domain)
    return _at_least(possible[0], least, domain) if least is not None else _at_most(possible[0], most or 0, domain)


def _product_at_least(value: Apply, factors: tuple[HostValue, ...], least: int, domain: Domain) -> list[Clause]:
    """If no factor is negative, drops ``largest(0, …)`` around one: where it takes effect, the clause is false."""
    solved = _threshold(value, least, None, domain)
    if solved != [Clause(value, least)] or not all(range_of(it, domain).is_natural for it in factors):
        return solved
    if least == 1:
        return [part for it in factors for part in _at_least(it, 1, domain)]
    for at, factor in enumerate(factors):
        match factor:
            case Apply("largest", (Number(0), inner)) | Apply("largest", (inner, Number(0))):
                plain = (*factors[:at], _rounded_up(inner), *factors[at + 1 :])
                return [Clause(Apply("product", plain), least)]
            case _:
                pass
    return solved


def _rounded_up(value: HostValue) -> HostValue:
    """(x + 63) // 64 as ceil(x / 64): equal where either is positive."""
    match value:
        case Apply("divide", (dividend, Number(n))) if n > 1 and terms_of(dividend)[1] == n - 1:
            return Apply("ceiling", (sum_of(terms_of(dividend)[0]), Number(n)))
        case _:
            return value


def _linear(value: HostValue, least: int | None, most: int | None, domain: Domain) -> list[Clause]:
    """Moves the constant and the common factor of a sum into the bounds."""
    terms, number = terms_of(value)
    least = None if least is None else least - number
    most = None if most is None else most - number
    factor = gcd(*terms.values())
    if factor and all(it < 0 for it in terms.values()):
        factor = -factor
    if factor in (0, 1) and not number:
        return _threshold(value, least, most, domain)
    factor = factor or 1
    rest = sum_of({term: by // factor for term, by in terms.items()})
    if factor < 0:
        least, most = (None if most is None else -most), (None if least is None else -least)
    size = abs(factor)
    parts: list[Clause] = []
    if least is not None:
        parts += _at_least(rest, -(-least // size), domain)
    if most is not None:
        parts += _at_most(rest, most // size, domain)
    return parts


def _multiple(value: HostValue, of: int, domain: Domain) -> list[Clause]:
    terms, number = terms_of(value)
    left = {term: by for term, by in terms.items() if by * range_of(term, domain).multiple % of}
    number %= of
    if not left:
        return [NEVER] if number else []
    common = gcd(of, number, *left.values())
    rest = sum_of({term: by // common for term, by in left.items()}, number // common)
    of //= common
    if number == 0 and len(left) == 1:
        ((term, by),) = left.items()
        rest, of = term, of // gcd(of, by // common)
    return [Clause(rest, multiple=of)] if of != 1 else []


def _threshold(value: HostValue, least: int | None, most: int | None, domain: Domain) -> list[Clause]:
    """A clause on a value that is monotone in its only unknown is a bound of that unknown, found by bisection."""
    same = [Clause(value, least, most)]
    unknown = [it for it in value.arguments if domain.get(it, ANY).value is None]
    way = direction(value, domain)
    if len(unknown) != 1 or not way or isinstance(value, Argument):
        return same
    limits = domain.get(unknown[0], ANY)
    if not (isfinite(limits.low) and isfinite(limits.high)):
        return same
    fixed = {index: it.value or 0 for index, it in domain.items() if it.value is not None}

    def holds(at: int) -> bool:
        values = {**fixed, unknown[0]: at}
        return same[0].holds([values.get(index, 0) for index in range(max(values) + 1)])

    rising = (way > 0) == (least is not None)  # holds from some argument on
    low, high = int(limits.low), int(limits.high)
    if not holds(high if rising else low):
        return [NEVER]
    if holds(low if rising else high):
        return []
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) == rising else (middle, high)
    argument = _find(value, unknown[0])
    return [Clause(argument, least=high) if rising else Clause(argument, most=low)]


def _find(value: HostValue, index: int) -> Argument:
    """The argument with this index in a value."""
    match value:
        case Argument() if value.index == index:
            return value
        case Apply(_, operands):
            return next(_find(it, index) for it in operands if index in it.arguments)
        case _:
            raise KeyError(index)
