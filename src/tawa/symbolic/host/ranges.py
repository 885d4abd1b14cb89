"""Ranges of host expressions: bounds and divisors of a `HostValue`.

    K in 16, 32, …          (K + 63) // 64   →   1 or more
    programs from 1 on      ceil(programs / 132)   →   1 or more, growing with programs

`tawa.symbolic.host.conditions` simplifies clauses with them. They hold without any premise: an unknown value has no
bounds, and is a multiple of 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import gcd, lcm

from tawa.symbolic.host.expr import Apply, Argument, HostValue, Number


@dataclass(frozen=True, slots=True)
class Range:
    """``low <= value <= high`` (None: no bound), and a multiple of `multiple`; 0 is a multiple of 0 alone."""

    low: int | None = None
    high: int | None = None
    multiple: int = 1

    @property
    def value(self) -> int | None:
        """The only value of the range; None where there are several."""
        return self.low if self.low == self.high else None

    @property
    def is_natural(self) -> bool:
        """Whether no value is negative."""
        return self.low is not None and self.low >= 0

    @property
    def is_empty(self) -> bool:
        """Whether the range has no value."""
        return self.low is not None and self.high is not None and self.low > self.high

    def tightened(self) -> Range:
        """The same values, with bounds rounded inwards to multiples."""
        if self.multiple < 2:
            return self
        low = None if self.low is None else -(-self.low // self.multiple) * self.multiple
        high = None if self.high is None else self.high // self.multiple * self.multiple
        return Range(low, high, self.multiple)

    def and_also(self, other: Range) -> Range:
        """The intersection."""
        lows = [it for it in (self.low, other.low) if it is not None]
        highs = [it for it in (self.high, other.high) if it is not None]
        return Range(max(lows, default=None), min(highs, default=None), lcm(self.multiple, other.multiple)).tightened()


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
            return Range(number, number, abs(number))
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
    known_lows, known_highs = ([it for it in bounds if it is not None] for bounds in (lows, highs))
    common = gcd(*(it.multiple for it in ranges))
    match value.operator:
        case "sum":
            return Range(_sum(lows), _sum(highs), common)
        case "product":
            found = ranges[0]
            for other in ranges[1:]:
                found = _product(found, other)
            return found
        case "smallest":
            low = min(known_lows) if len(known_lows) == len(lows) else None
            return Range(low, min(known_highs, default=None), common)
        case "largest":
            high = max(known_highs) if len(known_highs) == len(highs) else None
            return Range(max(known_lows, default=None), high, common)
        case "divide" | "ceiling":
            return _quotient(value, ranges[0])
        case "remainder":
            return _rest(value, ranges[0])


def _sum(bounds: list[int | None]) -> int | None:
    known = [it for it in bounds if it is not None]
    return sum(known) if len(known) == len(bounds) else None


def _product(left: Range, right: Range) -> Range:
    multiple = left.multiple * right.multiple
    if None not in (left.low, left.high, right.low, right.high):
        ends = [
            a * b for a in (left.low, left.high) for b in (right.low, right.high) if a is not None and b is not None
        ]
        return Range(min(ends), max(ends), multiple)
    for one, other in ((left, right), (right, left)):
        factor = one.value
        if factor is not None:
            ends = [None if end is None else end * factor for end in (other.low, other.high)]
            low, high = ends if factor > 0 else reversed(ends)
            return Range(low, high, multiple) if factor else Range(0, 0, 0)
    if left.low is not None and right.low is not None and left.low >= 0 and right.low >= 0:
        return Range(left.low * right.low, None, multiple)
    return Range(multiple=multiple)


def _quotient(value: Apply, of: Range) -> Range:
    divisor = _divisor(value)
    if not divisor or (divisor < 0 and value.operator == "ceiling"):
        return ANY
    ends = [None if end is None else _computed(value, end) for end in (of.low, of.high)]
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
    high = most if of.high is None else max(0, min(most, of.high))
    low = -most if of.low is None else min(0, max(-most, of.low))
    return Range(low, high, gcd(of.multiple, divisor))
