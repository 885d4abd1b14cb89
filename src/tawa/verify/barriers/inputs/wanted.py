"""What is asked of inputs, and what one operation asks of its operand to give a number.

x + 3 in 10 … 12   →   x in 7 … 9            x // 4 == 2   →   x in 8 … 11
x % 8 == 5         →   x in 5, 13, 21, …     (no end of them: not exact)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tawa.dialects import arith
from tawa.dialects.declare.declaration import by_name
from tawa.ir import Value

MEMORY = "*"
"""The root of all numbers that are read from memory."""
Root = Value | str
ROUNDS = 64
"""Rounds of a remainder in which a number is sought."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of one root: a number, or at least that number."""

    number: int
    exact: bool


Inputs = dict[Root, Wanted]


def merged(one: Inputs, other: Inputs) -> Inputs | None:
    """Both at once; None where they contradict each other."""
    found = dict(one)
    for root, wanted in other.items():
        known = found.get(root)
        if known is None:
            found[root] = wanted
            continue
        low, high = sorted((known, wanted), key=lambda it: it.number)
        if (low.exact and low.number != high.number) or (low.number == high.number and low.exact != high.exact):
            if low.number != high.number:
                return None
            high = Wanted(high.number, True)
        found[root] = high
    return found


def before(name: str, low: int, high: int, by: int) -> tuple[list[tuple[int, int]], bool]:
    """What the left operand may be, from … to, where the right one is a constant; and whether that is all it may be."""
    match name:
        case arith.AddIOp.NAME:
            return [(low - by, high - by)], True
        case arith.SubIOp.NAME:
            return [(low + by, high + by)], True
        case arith.MulIOp.NAME if by > 0:
            return [(-(-low // by), high // by)], True
        case arith.MulIOp.NAME if by < 0:
            return [(-(high // -by), -low // -by)], True
        case arith.ShLIOp.NAME if 0 <= by < 64:
            return [(-(-low >> by), high >> by)], True
        case arith.DivSIOp.NAME | arith.DivUIOp.NAME | arith.FloorDivSIOp.NAME if by > 0:
            return [(low * by, high * by + by - 1)], low > 0
        case arith.CeilDivSIOp.NAME | arith.CeilDivUIOp.NAME if by > 0:
            return [(low * by - by + 1, high * by)], low > 0
        case arith.ShRSIOp.NAME | arith.ShRUIOp.NAME if 0 <= by < 64:
            return [(low << by, (high << by) + (1 << by) - 1)], True
        case arith.RemSIOp.NAME | arith.RemUIOp.NAME if by > 0:
            least, most = max(low, 0), min(high, by - 1)
            return [(least + by * many, most + by * many) for many in range(ROUNDS)], False
        case arith.XOrIOp.NAME if low == high:
            return [(low ^ by, low ^ by)], True
        case arith.AndIOp.NAME | arith.OrIOp.NAME if low == high:  # other bits may be set as well
            return [(low, low), (low & ~by, low & ~by)], False
        case _:
            return [], False


GROWS: Mapping[str, Callable[[int, int], int]] = by_name(
    {
        arith.AddIOp: lambda number, by: number - by,
        arith.SubIOp: lambda number, by: number + by,
        arith.MulIOp: lambda number, by: -(-number // by),
        arith.DivSIOp: lambda number, by: number * by,
        arith.DivUIOp: lambda number, by: number * by,
        arith.FloorDivSIOp: lambda number, by: number * by,
        arith.CeilDivSIOp: lambda number, by: (number - 1) * by + 1,
        arith.CeilDivUIOp: lambda number, by: (number - 1) * by + 1,
        arith.ShRSIOp: lambda number, by: number << by,
        arith.ShRUIOp: lambda number, by: number << by,
        arith.ShLIOp: lambda number, by: -(-number >> by),
    }
)
"""What the left operand must be at least where the right one is a constant."""
RELATIONS = tuple(
    {True: holds, False: tuple(it for it in ("=", ">", "<") if it not in holds)}
    for holds in (("=",), (">", "<"), *(("<",), ("=", "<"), (">",), ("=", ">")) * 2)
)
"""By the predicate of ``arith.cmpi`` and how it is to go: what left may be to right."""
