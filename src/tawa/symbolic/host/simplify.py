"""Simplification of host expressions: a shorter expression with the same value for all arguments of a domain.

largest(0, (K + 63) // 64) * 862 + largest(0, (K + 63) // 64) * 862      →   1724 * ceil(K / 64), of K >= 1
SK - (SK // 128) * 128                                                     →   SK % 128
"""

from __future__ import annotations

from math import gcd

from tawa.symbolic.host.expr import Apply, Argument, HostValue, Number, Operator
from tawa.symbolic.host.ranges import Domain, is_total, range_of


def simplified_value(value: HostValue, domain: Domain) -> HostValue:
    """An expression that equals `value` wherever `value` can be computed."""
    match value:
        case Number():
            return value
        case Argument():
            found = range_of(value, domain).value
            return value if found is None else Number(found)
        case Apply(operator, operands):
            parts = tuple(simplified_value(it, domain) for it in operands)
            made = _applied(operator, parts, domain)
            known = range_of(made, domain).value if is_total(made) else None
            return made if known is None else Number(known)


Terms = dict[HostValue, int]


def terms_of(value: HostValue) -> tuple[Terms, int]:
    """A value as a sum: terms with their factors, and a constant."""
    match value:
        case Number(number):
            return {}, number
        case Apply("sum", operands):
            terms: Terms = {}
            number = 0
            for operand in operands:
                more, added = terms_of(operand)
                number += added
                for term, factor in more.items():
                    terms[term] = terms.get(term, 0) + factor
            return _without_zeros(terms), number
        case Apply("product", (*factors, Number(number))) if number and factors:
            rest = factors[0] if len(factors) == 1 else Apply("product", tuple(factors))
            terms, added = terms_of(rest)
            return {term: factor * number for term, factor in terms.items()}, added * number
        case _:
            return {value: 1}, 0


def sum_of(terms: Terms, number: int = 0) -> HostValue:
    """The inverse of `terms_of`."""
    parts = [_times(term, factor) for term, factor in _without_zeros(terms).items()]
    if number or not parts:
        parts.append(Number(number))
    return parts[0] if len(parts) == 1 else Apply("sum", tuple(parts))


def _without_zeros(terms: Terms) -> Terms:
    """Drops terms that cancel, unless they cannot always be computed."""
    return {term: factor for term, factor in terms.items() if factor or not is_total(term)}


def _times(term: HostValue, factor: int) -> HostValue:
    if factor == 1:
        return term
    factors = term.operands if isinstance(term, Apply) and term.operator == "product" else (term,)
    return Apply("product", (*factors, Number(factor)))


def _applied(operator: Operator, parts: tuple[HostValue, ...], domain: Domain) -> HostValue:
    match operator:
        case "sum":
            return sum_of(*_with_remainders(*terms_of(Apply("sum", parts))))
        case "product":
            return _product(parts)
        case "divide" | "ceiling":
            return _quotient(operator, parts[0], parts[1], domain)
        case "remainder":
            return _remainder(parts[0], parts[1], domain)
        case "smallest" | "largest":
            return _extreme(operator, parts, domain)


def _with_remainders(terms: Terms, number: int) -> tuple[Terms, int]:
    """Replaces x - (x // n) * n by x % n."""
    for term, factor in list(terms.items()):
        if isinstance(term, Apply) and term.operator == "divide" and isinstance(term.operands[1], Number):
            whole, divisor = term.operands[0], term.operands[1].value
            if divisor and factor % divisor == 0 and terms.get(whole, 0) == -(factor // divisor) != 0:
                rest = Apply("remainder", (whole, Number(divisor)))
                terms = {it: by for it, by in terms.items() if it not in (whole, term)}
                terms[rest] = terms.get(rest, 0) - factor // divisor
    return _with_last_parts(terms), number


def _with_last_parts(terms: Terms) -> Terms:
    """Replaces x // n + ceil((x % n) / n), the whole tiles and the partial one, by ceil(x / n)."""
    for term, factor in list(terms.items()):
        match term:
            case Apply("ceiling", (Apply("remainder", (whole, Number(n))), Number(by))) if n == by:
                tiles = Apply("divide", (whole, Number(n)))
                if terms.get(tiles) == factor:
                    terms = {it: times for it, times in terms.items() if it not in (term, tiles)}
                    all_tiles = Apply("ceiling", (whole, Number(n)))
                    terms[all_tiles] = terms.get(all_tiles, 0) + factor
            case _:
                pass
    return terms


def _product(parts: tuple[HostValue, ...]) -> HostValue:
    number, factors = 1, list[HostValue]()
    for part in parts:
        match part:
            case Number(value):
                number *= value
            case Apply("product", (*inner, Number(value))):
                number *= value
                factors += inner
            case Apply("product", inner):
                factors += inner
            case Apply("sum") if len(parts) > 1 and (common := gcd(*terms_of(part)[0].values(), terms_of(part)[1])) > 1:
                terms, added = terms_of(part)
                number *= common
                factors.append(sum_of({term: by // common for term, by in terms.items()}, added // common))
            case _:
                factors.append(part)
    if number == 0 and all(map(is_total, factors)):
        return Number(0)
    if len(factors) == 1 and isinstance(factors[0], Apply) and factors[0].operator == "sum":
        terms, added = terms_of(factors[0])
        return sum_of({term: factor * number for term, factor in terms.items()}, added * number)
    if not factors:
        return Number(number)
    if number == 1 and len(factors) == 1:
        return factors[0]
    return Apply("product", (*factors, Number(number)) if number != 1 else tuple(factors))


def _quotient(operator: Operator, dividend: HostValue, by: HostValue, domain: Domain) -> HostValue:
    """For a divisor n > 0, moves terms that n divides out of the division, if rounding has only one direction."""
    same = Apply(operator, (dividend, by))
    if not isinstance(by, Number) or by.value < 1 or not is_total(dividend):
        return same
    n = by.value
    if n == 1:
        return dividend
    terms, number = terms_of(dividend)
    if operator == "divide":
        if isinstance(dividend, Apply) and dividend.operator == "divide" and isinstance(dividend.operands[1], Number):
            inner = dividend.operands[1].value
            if inner > 0:
                return _quotient("divide", dividend.operands[0], Number(inner * n), domain)
        natural = range_of(dividend, domain).is_natural
        if not natural and (number or not all(_divides(n, *it, domain) for it in terms.items())):
            return same
    # From here on, the quotient is rounded in one direction: down for divide, up for ceiling. Multiples of n are exact.
    whole = {term: factor for term, factor in terms.items() if factor % n == 0}
    rest = {term: factor for term, factor in terms.items() if factor % n}
    kept = number % n  # 0 … n - 1
    out, carried = {term: factor // n for term, factor in whole.items()}, number // n
    inside = sum_of(rest, kept)
    if all(_divides(n, *it, domain) for it in rest.items()):
        carried += 1 if operator == "ceiling" and kept else 0
        return _joined(out, carried, Apply("divide", (sum_of(rest), Number(n))) if rest else None)
    limits = range_of(inside, domain)
    if operator == "divide" and 0 <= limits.low <= limits.high < n:
        return _joined(out, carried, None)
    if operator == "divide" and kept == n - 1:
        return _joined(out, carried, Apply("ceiling", (sum_of(rest), Number(n))))
    if not out and not carried:
        return same
    if operator == "divide" and not limits.is_natural:
        return same
    return _joined(out, carried, Apply(operator, (inside, Number(n))))


def _joined(out: Terms, number: int, quotient: HostValue | None) -> HostValue:
    terms = dict(out)
    if quotient is not None:
        terms[quotient] = terms.get(quotient, 0) + 1
    return sum_of(terms, number)


def _divides(n: int, term: HostValue, factor: int, domain: Domain) -> bool:
    """Whether a term is a multiple of n."""
    return factor * range_of(term, domain).multiple % n == 0


def _remainder(dividend: HostValue, by: HostValue, domain: Domain) -> HostValue:
    same = Apply("remainder", (dividend, by))
    if not isinstance(by, Number) or by.value < 1 or not is_total(dividend):
        return same
    limits = range_of(dividend, domain)
    if -by.value < limits.low and limits.high < by.value:
        return dividend
    return same


def _extreme(operator: Operator, parts: tuple[HostValue, ...], domain: Domain) -> HostValue:
    """Drops operands that another operand always dominates."""
    flat = [
        inner
        for part in parts
        for inner in (part.operands if isinstance(part, Apply) and part.operator == operator else (part,))
    ]
    kept = list(dict.fromkeys(flat))
    for part in list(kept):
        others = [it for it in kept if it != part]
        if is_total(part) and any(_dominates(operator, other, part, domain) for other in others):
            kept.remove(part)
    return kept[0] if len(kept) == 1 else Apply(operator, tuple(kept))


def _dominates(operator: Operator, one: HostValue, other: HostValue, domain: Domain) -> bool:
    """Whether `one` is never less than `other` (for "smallest": never greater)."""
    sign = 1 if operator == "largest" else -1
    (terms, number), (minus, less) = terms_of(one), terms_of(other)
    difference = {term: sign * factor for term, factor in terms.items()}
    for term, factor in minus.items():
        difference[term] = difference.get(term, 0) - sign * factor
    return range_of(sum_of(difference, sign * (number - less)), domain).is_natural
