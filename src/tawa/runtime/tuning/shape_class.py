"""Shape classes: when two launches of a kernel are so alike that one measurement serves both.

    K = 4000, 300 programs on 132 SMs    K <= 4096, 3 waves
    K = 4096, 390 programs               K <= 4096, 3 waves      the same class
    K = 4096, 64 programs                K <= 4096, 64 programs  another one: one program for each SM, and SMs left over
    K = 16384, 390 programs              K <= 16384, 3 waves     another one

The class has the grid and those integer arguments that trip counts and branches depend on (the *deciding* arguments,
`tawa.analysis.loops.deciding_arguments`). Other arguments, such as strides and seeds, do not change the amount of work.

- Arguments are rounded up to a power of two. Zero and negative numbers are classes of their own.
- A grid that has at most one program for each SM is the number of its programs, rounded up to a power of two.
- A larger grid is the number of its waves, ceil(programs / SMs): exact up to 4, then rounded up to a power of two.

Divisibility by 16 is not part of the class: Triton compiles another kernel for it, which has its own entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

_EXACT_WAVES = 4


def shape_class(
    sizes: Sequence[tuple[int, str]], values: Sequence[object], grid: Sequence[int], processors: int
) -> str:
    """The class of a launch, as text that people read.

    sizes: the deciding arguments, number and name. values: of all arguments of the kernel's function. grid: of the
    launch. processors: SMs of the GPU.
    """
    parts = [_size(name, values[index]) for index, name in sizes]
    return ", ".join([*parts, _programs(prod(grid), processors)])


def _size(name: str, value: object) -> str:
    number = int(value) if isinstance(value, int) else 0
    return f"{name} <= {_rounded(number)}" if number > 1 else f"{name} = {number}" if number >= 0 else f"{name} < 0"


def _programs(programs: int, processors: int) -> str:
    if programs <= processors:
        number = min(_rounded(programs), processors)
        return f"{number} program{'s' * (number != 1)}"
    waves = -(-programs // processors)
    return f"{waves if waves <= _EXACT_WAVES else _rounded(waves)} waves"


def _rounded(number: int) -> int:
    """The next power of two; 0 for 0."""
    return 1 << (number - 1).bit_length() if number > 0 else 0
