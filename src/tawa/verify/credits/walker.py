"""A partition among free numbers: where it is, the loops that it is in, and what it has asked."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.verify.credits.skeleton import Part
from tawa.verify.credits.state import Thread

Nest = tuple[tuple[int, int, int], ...]
"""The loops around a place, outside in: unknown, which time it is entered, iteration."""
Instance = tuple[int, Nest, int]
"""An unknown in one iteration of the loops around it, and which time it is asked about from its beginning."""


@dataclass(slots=True)
class Mark:
    """How far a partition has asked about an unknown: the time, the largest `start`, whether it was told no."""

    time: int
    start: int
    ended: bool


class Iteration:
    """A loop that a partition is in: its iteration, counted from the beginning of the whole range, and its end."""

    __slots__ = ("end", "index", "time", "unknown")

    def __init__(self, unknown: int, time: int, index: int, end: int) -> None:
        self.unknown = unknown
        self.time = time
        self.index = index
        self.end = end


class Walker(Thread):
    """A partition: beside what a thread has, its loops with their iterations, and marks for each of them."""

    __slots__ = ("asks", "loops", "marks", "nest")

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        self.loops: list[Iteration] = []
        self.marks: list[dict[int, Mark]] = [{}]
        self.nest: Nest = ()
        self.asks: Instance | None = None

    def copy(self) -> Walker:
        """One that goes on without this one."""
        made = Walker(self.part)
        made.pc, made.waits, made.nest = self.pc, self.waits, self.nest
        made.flight = list(self.flight)
        made.loops = [Iteration(it.unknown, it.time, it.index, it.end) for it in self.loops]
        made.marks = [{key: Mark(it.time, it.start, it.ended) for key, it in level.items()} for level in self.marks]
        return made

    def set_nest(self) -> None:
        """To be called when a loop is entered, left, or goes round."""
        self.nest = tuple((it.unknown, it.time, it.index) for it in self.loops)
