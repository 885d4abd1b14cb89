"""Judged in real launches: which of two kernels is the faster one for launches of a class.

    launch 1, 2    one kernel, the other, in random order      a block; each kind of launch has its own blocks
    …
    looks          after 3, 6, 12, 24 and 48 times of the challenger

The rule, at each look. Times are logarithms relative to the median of the champion's launches of the same kind (sizes
within an eighth of each other), so that kinds may alternate as they like.

- 3 times: the challenger has lost if each of them is more than `LOST` times the champion's median.
- from 6 times on, d is the difference of the medians and e its standard error, from the median absolute deviations;
  z is the statistic of the rank-sum test, which also holds where times have two heaps. |d| > `SURE_ERRORS` e and
  z > `SURE_RANKS`: the faster one has won. |d| + `SURE_ERRORS` e below `SAME`: they are equally fast, and the champion
  stays.
- The challenger wins only if it takes less time in all, by the means of each kind: else it is looked at again.
- at 48 times `LAST` takes the place of `SURE_ERRORS` and `SURE_RANKS`; without a decision the champion stays.

Where memory decides how much a launch does, its size is no kind, and each look has twice as many times.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Hashable
from dataclasses import dataclass, field

from tawa.plan.thresholds import FIRST_LOOK, LAST, LEAST_ERROR, LOOKS, LOST, SAME, SURE_ERRORS, SURE_RANKS

CHAMPION, CHALLENGER = 0, 1


@dataclass(slots=True)
class Comparison:
    """The champion and the challenger. guessed: whether memory decides how much a launch does. seed: of the order."""

    seed: int
    guessed: bool = False
    won: int | None = None
    launches: list[int] = field(default_factory=lambda: [0, 0])
    times: dict[Hashable, tuple[list[float], list[float]]] = field(
        default_factory=dict[Hashable, tuple[list[float], list[float]]]
    )
    _orders: dict[Hashable, list[int]] = field(default_factory=dict[Hashable, list[int]])
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def next(self, kind: Hashable) -> int | None:
        """Which of the two the next launch of a kind gets, timed; None: the champion, untimed, until times arrive.

        The challenger never runs more often than the next look needs.
        """
        known = self.counts[CHALLENGER]
        ahead = next((it for it in (FIRST_LOOK, *self._looks) if it > known), known)
        order = self._orders.setdefault(kind, [])
        if not order:
            if self.launches[CHALLENGER] >= ahead:
                return None
            order += self._random.sample((CHAMPION, CHALLENGER), 2)
        found = order.pop()
        self.launches[found] += 1
        return found

    def drop(self, kind: Hashable, which: int) -> None:
        """The time of a launch will not be known: another one of its kind takes its place."""
        self.launches[which] -= 1
        self._orders[kind].append(which)

    def add(self, kind: Hashable, which: int, time_ms: float) -> None:
        """The time of a launch."""
        if self.won is not None:
            return
        if time_ms <= 0:
            self.drop(kind, which)
            return
        self.times.setdefault(kind, ([], []))[which].append(math.log(time_ms))
        if which == CHALLENGER:
            self._look(self.counts[CHALLENGER])

    @property
    def counts(self) -> tuple[int, int]:
        """How many times of each are known."""
        every = self.times.values()
        return sum(len(it[CHAMPION]) for it in every), sum(len(it[CHALLENGER]) for it in every)

    def times_ms(self, which: int) -> list[float]:
        """All times of one of the two."""
        return [math.exp(it) for kind in self.times.values() for it in kind[which]]

    @property
    def gain(self) -> float | None:
        """The champion's time over the challenger's, so far; None if nothing can be compared yet."""
        champion, challenger = self._residuals()
        if not champion or not challenger:
            return None
        return math.exp(statistics.median(champion) - statistics.median(challenger))

    @property
    def _looks(self) -> tuple[int, ...]:
        return tuple(2 * it for it in LOOKS) if self.guessed else LOOKS

    def _residuals(self) -> tuple[list[float], list[float]]:
        """The times of both, relative to the champion's median of their kind."""
        found: tuple[list[float], list[float]] = ([], [])
        for times in self.times.values():
            if times[CHAMPION]:
                usual = statistics.median(times[CHAMPION])
                for which in (CHAMPION, CHALLENGER):
                    found[which].extend(it - usual for it in times[which])
        return found

    def _look(self, count: int) -> None:
        """Decides, if there are enough times. count: of the challenger's."""
        if count not in (FIRST_LOOK, *self._looks):
            return
        champion, challenger = self._residuals()
        last = count == self._looks[-1]
        if len(champion) < 2 or len(challenger) < 2:
            self.won = CHAMPION if last else None
            return
        if count == FIRST_LOOK:
            if not self.guessed and len(challenger) == count and min(challenger) > math.log(LOST):
                self.won = CHAMPION
            return
        difference = statistics.median(challenger) - statistics.median(champion)
        error = max(LEAST_ERROR, math.hypot(_error(champion), _error(challenger)))
        sure, ranked = (LAST, LAST) if last else (SURE_ERRORS, SURE_RANKS)
        if abs(difference) > sure * error and abs(_rank_sum(champion, challenger)) > ranked:
            if difference > 0:
                self.won = CHAMPION
            elif self._saves_time():
                self.won = CHALLENGER
        elif abs(difference) + SURE_ERRORS * error < math.log(SAME):
            self.won = CHAMPION
        if last and self.won is None:
            self.won = CHAMPION

    def _saves_time(self) -> bool:
        """Whether the challenger takes less time in all: it may be faster in most launches, but not in long ones."""
        before = after = 0.0
        for champion, challenger in self.times.values():
            if champion and challenger:
                weight = len(champion) + len(challenger)
                before += weight * statistics.fmean(map(math.exp, champion))
                after += weight * statistics.fmean(map(math.exp, challenger))
        return after < before


def _rank_sum(first: list[float], second: list[float]) -> float:
    """The statistic of the rank-sum test of Wilcoxon, as a normal deviate. Source: Mann and Whitney, 1947."""
    above = sum((a > b) + 0.5 * (a == b) for a in first for b in second)
    product = len(first) * len(second)
    return (above - product / 2) / math.sqrt(product * (len(first) + len(second) + 1) / 12)


def _error(values: list[float]) -> float:
    """The standard error of the median."""
    middle = statistics.median(values)
    deviation = 1.4826 * statistics.median(abs(it - middle) for it in values)
    return 1.2533 * deviation / math.sqrt(len(values))
