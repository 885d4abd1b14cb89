"""The values of an operand for which an operation gives a required result.

x + 3 in 10 … 12   →   x in 7 … 9            x // 4 == 2   →   x in 8 … 11
x % 8 == 5         →   x in 5, 13, 21, …     (unbounded: not exact)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tawa.dialects import arith
from tawa.dialects.declare.declaration import by_name

ROUNDS = 64
"""The number of rounds of a remainder that are searched."""


def preimage(name: str, low: int, high: int, by: int) -> tuple[list[tuple[int, int]], bool]:
    """The preimage in the left operand of [low, high], for a constant right operand; and whether it is exact."""
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
        case arith.AndIOp.NAME | arith.OrIOp.NAME if low == high:  # further bits may be set as well
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
"""The least left operand for a result of at least `number`, with a constant right operand."""
RELATIONS = tuple(
    {True: holds, False: tuple(it for it in ("=", ">", "<") if it not in holds)}
    for holds in (("=",), (">", "<"), *(("<",), ("=", "<"), (">",), ("=", ">")) * 2)
)
"""By the predicate of ``arith.cmpi`` and its wanted result: the relations of left to right that give it."""
