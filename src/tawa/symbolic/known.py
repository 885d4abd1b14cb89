"""Known facts about one integer: the lattice of the abstract interpreter (`tawa.symbolic.value_ranges`).

    program_id              0 <= it <= 2³¹ - 1, a multiple of 1
    64 * iteration          0 <= it, a multiple of 64
    an argument             a multiple of 16 if Triton found that; 0 <= it under a premise that the launch checks

A bound may depend on *premises*: statements that are assumed without proof. `Trust` says which kinds of premises may be
used. An element without bounds needs no premise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from math import gcd, inf

from tawa.ir import Value
from tawa.symbolic.range import Range

DIVISORS = "a divisor in the index arithmetic is positive"
LOADED = "an index that the kernel loads from memory is not negative"


class Trust(IntEnum):
    """Which premises may be used: each member includes the premises of all earlier members."""

    NOTHING = 0
    ARGUMENTS = 1
    """Arguments are 0 or more; a launch can check that."""
    QUOTIENTS = 2
    """`DIVISORS`."""
    MEMORY = 3
    """`LOADED`."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The premises of a statement. arguments: these are assumed to be 0 or more; taken: all other premises, as text."""

    arguments: tuple[Value, ...] = ()
    taken: tuple[str, ...] = ()

    def and_(self, other: Proof) -> Proof:
        """The premises of both."""
        if other in (_NOTHING, self):
            return self
        arguments, taken = (*self.arguments, *other.arguments), (*self.taken, *other.taken)
        return Proof(tuple(dict.fromkeys(arguments)), tuple(dict.fromkeys(taken)))


_NOTHING = Proof()


@dataclass(frozen=True, slots=True)
class Known(Range):
    """A range, and the premises of its bounds. Divisibility has no premises."""

    premises: Proof = _NOTHING

    @staticmethod
    def from_operands(
        operands: Iterable[Known], low: float = -inf, high: float = inf, multiple: int = 1, *, taken: str = ""
    ) -> Known:
        """An element whose bounds follow from those of `operands`, and from the premise `taken`."""
        if low == -inf and high == inf:
            return Known(multiple=multiple)
        premises = _NOTHING
        for operand in operands:
            premises = premises.and_(operand.premises)
        return Known(low, high, multiple, premises.and_(Proof(taken=(taken,))) if taken else premises)

    def __add__(self, other: Known) -> Known:
        found = self.plus(other)
        return Known.from_operands((self, other), found.low, found.high, found.multiple)

    def __mul__(self, other: Known) -> Known:
        found = self.times(other)
        return Known.from_operands((self, other), found.low, found.high, found.multiple)

    def join(self, other: Known) -> Known:
        """What holds for both: the join of the lattice."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Known.from_operands((self, other), low, high, gcd(self.multiple, other.multiple))


UNKNOWN = Known()
