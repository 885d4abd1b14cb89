"""Ranges of one integer: bounds, and what divides it.

    64 * iteration          0 <= it, a multiple of 64
    K in 16, 32, …          16 <= it, a multiple of 16

`tawa.symbolic.host.ranges` has those of host expressions; `tawa.symbolic.known` adds premises, for values in a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, inf, isfinite, lcm
from typing import Self


@dataclass(frozen=True, slots=True)
class Range:
    """``low <= number <= high``, and `multiple` divides the number; 0 divides only 0. Bounds are whole or infinite."""

    low: float = -inf
    high: float = inf
    multiple: int = 1

    @classmethod
    def number(cls, value: int) -> Self:
        """A constant."""
        return cls(value, value, abs(value))

    @property
    def value(self) -> int | None:
        """The only value of the range; None where there are several."""
        return int(self.low) if self.low == self.high else None

    @property
    def is_natural(self) -> bool:
        """Whether no value is negative."""
        return self.low >= 0

    @property
    def is_empty(self) -> bool:
        """Whether the range has no value."""
        return self.low > self.high

    def tightened(self) -> Range:
        """The same values, with bounds rounded inwards to multiples."""
        if self.multiple < 2:
            return self
        low = -(-self.low // self.multiple) * self.multiple if isfinite(self.low) else self.low
        high = self.high // self.multiple * self.multiple if isfinite(self.high) else self.high
        return Range(low, high, self.multiple)

    def and_also(self, other: Range) -> Range:
        """The intersection."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Range(low, high, lcm(self.multiple, other.multiple)).tightened()

    def plus(self, other: Range) -> Range:
        """The range of sums."""
        return Range(self.low + other.low, self.high + other.high, gcd(self.multiple, other.multiple))

    def times(self, other: Range) -> Range:
        """The range of products."""
        corners = [0 if 0 in (a, b) else a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        multiple = self.multiple * other.multiple if any(corners) else 0
        return Range(min(corners), max(corners), multiple)
