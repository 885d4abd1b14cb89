"""Host time of reading the key of a launch: the arguments that decide which descriptors and which kernel it gets.

    python -m bench.launch_key

Compares the closures of `tawa.bridge.launch.launch_key` with a loop over the positions and with one expression
compiled by `eval`. Needs no GPU. On one core of a Xeon, Python 3.11, for three pointers and six numbers: closures
0.23 µs, loop 0.6 µs, `eval` 0.17 µs. A launch takes several µs, so the closures cost nothing that could be measured.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Sequence
from typing import Any

from tawa.bridge.launch.launch_key import key_of

ROUNDS, CALLS = 300, 1000


class Tensor:
    """As much of a tensor as a launch reads."""

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        """The address of its first element."""
        return self.address


def looped(pointers: Sequence[int], numbers: Sequence[int]) -> Callable[[Sequence[Any]], Any]:
    """A loop over the positions."""
    return lambda args: (*[args[at].data_ptr() for at in pointers], *[args[at] for at in numbers])


def evaluated(pointers: Sequence[int], numbers: Sequence[int]) -> Callable[[Sequence[Any]], Any]:
    """One expression."""
    parts = ", ".join([*(f"args[{at}].data_ptr()" for at in pointers), *(f"args[{at}]" for at in numbers)])
    return eval(f"lambda args: ({parts},)")


def microseconds(read: Callable[[Sequence[Any]], Any], args: Sequence[Any]) -> float:
    """The best time of one call."""
    return min(timeit.repeat(lambda: read(args), number=CALLS, repeat=ROUNDS)) / CALLS * 1e6


def main() -> None:
    """Prints microseconds for a call of each."""
    for pointers, numbers in ((2, 3), (3, 6), (4, 9)):
        types = ("*fp16",) * pointers + ("i32",) * numbers
        args = (*(Tensor(4096 * at) for at in range(1, pointers + 1)), *range(numbers))
        places = range(pointers), range(pointers, pointers + numbers)
        closures = microseconds(key_of(types, frozenset(range(len(types)))), args)
        loop, expression = microseconds(looped(*places), args), microseconds(evaluated(*places), args)
        shown = f"closures {closures:.2f} µs, loop {loop:.2f} µs, eval {expression:.2f} µs"
        print(f"{pointers} pointers, {numbers} numbers: {shown}")


if __name__ == "__main__":
    main()
