"""The ranges of host expressions (`HostValue`).

    K in 16, 32, …          (K + 63) // 64   →   1 or more
    programs from 1 on      ceil(programs / 132)   →   1 or more, growing with programs

`tawa.symbolic.host.conditions` simplifies clauses with them. They hold without any premise: an unknown value has no
bounds, and is a multiple of 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from math import gcd, isfinite

from tawa.symbolic.host.expr import Apply, Argument, HostValue, Number
from tawa.symbolic.range import Range

ANY = Range()
Domain = Mapping[int, Range]
"""The range of each argument, by its index."""


def is_total(value: HostValue) -> bool:
    """Whether a value can be computed for all arguments: no divisor can be 0."""
    if not isinstance(value, Apply):
        return True
    if value.divisor is not None and not _divisor(value):
        return False
    return all(map(is_total, value.operands))


def range_of(value: HostValue, domain: Domain) -> Range:
    """The range of a value over the arguments for which it can be computed."""
    match value:
        case Number(number):
            return Range.number(number)
        case Argument():
            return domain.get(value.index, ANY).tightened()
        case Apply():
            return _applied(value, domain).tightened()


def direction(value: HostValue, domain: Domain) -> int | None:
    """Monotonicity: 1 if a value never falls as any argument grows, -1 if it never rises, 0 for a constant.

    None if that is unknown. Arguments with a single value in the domain are constants. The value must be total.
    """
    match value:
        case Number():
            return 0
        case Argument():
            return 0 if range_of(value, domain).value is not None else 1
        case Apply(operator, operands):
            ways = [direction(it, domain) for it in operands]
            match operator:
                case "sum" | "smallest" | "largest":
                    return _together(ways)
                case "divide" | "ceiling":
                    return _together([_signed(ways[0], _divisor(value) or 0)])
                case "product":
                    return _of_product(operands, ways, domain)
                case "remainder":
                    return 0 if _together(ways) == 0 else None


def _of_product(operands: tuple[HostValue, ...], ways: list[int | None], domain: Domain) -> int | None:
    numbers = [it.value for it in operands if isinstance(it, Number)]
    sign = -1 if sum(it < 0 for it in numbers) % 2 else 1
    others = [(it, way) for it, way in zip(operands, ways, strict=True) if not isinstance(it, Number)]
    if len(others) > 1 and not all(range_of(it, domain).is_natural for it, _ in others):
        return None
    return _signed(_together([way for _, way in others]), sign)


def _signed(way: int | None, sign: int) -> int | None:
    return None if way is None or sign == 0 else way * (1 if sign > 0 else -1)


def _together(ways: Iterable[int | None]) -> int | None:
    """The direction of a value that is monotone in each operand, from the directions of the operands."""
    kinds = set(ways)
    if None in kinds or {1, -1} <= kinds:
        return None
    return next((it for it in (1, -1) if it in kinds), 0)


def _divisor(value: Apply) -> int | None:
    """The divisor if it is a constant."""
    return value.divisor.value if isinstance(value.divisor, Number) else None


def _applied(value: Apply, domain: Domain) -> Range:
    ranges = [range_of(it, domain) for it in value.operands]
    lows, highs = [it.low for it in ranges], [it.high for it in ranges]
    common = gcd(*(it.multiple for it in ranges))
    match value.operator:
        case "sum":
            return reduce(Range.plus, ranges)
        case "product":
            return reduce(Range.times, ranges)
        case "smallest":
            return Range(min(lows), min(highs), common)
        case "largest":
            return Range(max(lows), max(highs), common)
        case "divide" | "ceiling":
            return _quotient(value, ranges[0])
        case "remainder":
            return _rest(value, ranges[0])


def _quotient(value: Apply, of: Range) -> Range:
    divisor = _divisor(value)
    if not divisor or (divisor < 0 and value.operator == "ceiling"):
        return ANY
    ends = [_computed(value, int(end)) if isfinite(end) else end / divisor for end in (of.low, of.high)]
    low, high = ends if divisor > 0 else reversed(ends)
    return Range(low, high, of.multiple // abs(divisor) if of.multiple % divisor == 0 else 1)


def _computed(value: Apply, dividend: int) -> int:
    return Apply(value.operator, (Number(dividend), value.operands[1])).evaluate(())


def _rest(value: Apply, of: Range) -> Range:
    divisor = _divisor(value)
    if not divisor:
        return ANY
    if of.multiple % divisor == 0:
        return Range(0, 0, 0)
    most = abs(divisor) - 1
    return Range(min(0, max(-most, of.low)), max(0, min(most, of.high)), gcd(of.multiple, divisor))
