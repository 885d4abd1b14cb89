"""The regret of a choice, and the rank correlation of predictions, over measured groups."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

NOISE = 1.01
"""Times closer than this factor count as equal in ranks."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One candidate of a group. predicted_us: by a fit that did not see its kernel; None if unknown."""

    candidate: str
    time_us: float
    predicted_us: float | None = None
    stock: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Candidates of one kernel on one problem, timed in one round-robin run."""

    source: str
    kernel: str
    problem: str
    measured: tuple[Measured, ...]

    @property
    def best_us(self) -> float:
        """The least time."""
        return min(it.time_us for it in self.measured)

    def regret(self, candidate: str) -> float | None:
        """The time of a candidate over the least; None if it was not measured."""
        return next((it.time_us / self.best_us for it in self.measured if it.candidate == candidate), None)

    def over_stock(self, candidate: str) -> float | None:
        """How many times as fast as stock Triton a candidate is."""
        stock = next((it.time_us for it in self.measured if it.stock), None)
        own = next((it.time_us for it in self.measured if it.candidate == candidate), None)
        return stock / own if stock and own else None

    def rank_correlation(self) -> float | None:
        """Spearman's coefficient of predicted and measured times; None for fewer than three times that differ."""
        known = [it for it in self.measured if it.predicted_us is not None]
        times = [_rounded(it.time_us) for it in known]
        told = [it.predicted_us or 0.0 for it in known]
        if len(set(times)) < 3 or len(set(told)) < 2:
            return None
        return statistics.correlation(_ranks(times), _ranks(told))


def _rounded(time_us: float) -> int:
    return round(math.log(time_us) / math.log(NOISE))


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    ranks = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in order[first : last + 1]:
            ranks[place] = (first + last) / 2 + 1
        first = last + 1
    return ranks


def groups_of_rows(source: str, rows: Iterable[dict[str, Any]]) -> list[Group]:
    """The groups of a result file of ``python -m bench.regret measure``. source: of rows that name none."""
    found: dict[tuple[str, str, str], list[Measured]] = defaultdict(list)
    for row in rows:
        case = row["case"]
        if row["median_ms"]:
            it = Measured(
                row["candidate"], row["median_ms"] * 1e3, case.get("predicted_us"), row["candidate"] == "stock"
            )
            found[f"{case['source']}, then" if "source" in case else source, case["kernel"], case["case"]].append(it)
    return [Group(*key, tuple(them)) for key, them in found.items()]


def groups_of_model(rows: Iterable[dict[str, Any]]) -> list[Group]:
    """The groups of ``bench/results/model.json``: predictions for kernels that a fit did not see."""
    found: dict[tuple[str, str, str], list[Measured]] = defaultdict(list)
    for row in rows:
        case = row["case"]
        it = Measured(row["candidate"], row["median_ms"] * 1e3, case["predicted_us"], case["stock"])
        found[case["source"], case["kernel"], case["shape"]].append(it)
    return [Group(*key, tuple(them)) for key, them in found.items() if len(them) > 1]


def geometric(values: Sequence[float]) -> float:
    """The geometric mean; 1 without values."""
    return statistics.geometric_mean(values) if values else 1.0


def first_by_model(group: Group) -> str:
    """The candidate with the least predicted time; empty if none that was measured has a prediction."""
    known = [it for it in group.measured if it.predicted_us is not None]
    return min(known, key=lambda it: it.predicted_us or 0.0).candidate if known else ""
