"""Bars of candidates side by side, a group for each problem: the pictures of `bench.attention.decode` and `.varlen`."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.attention.report import IMAGES, OURS, saved
from bench.harness import Row

_OTHERS = "#c8c8c8"
_WIDTH = 0.8
_LINE = 16


def draw_bars(
    name: str, title: str, unit: str, problems: Mapping[str, Mapping[str, Row]], shown: Sequence[str], scale: float = 1
) -> Path:
    """Draws ``docs/images/NAME.png`` and returns its path.

    problems: rows by candidate, by the label of the problem. shown: the candidates, in order; one that a problem does
    not have leaves a gap. scale: from the column ``tflops`` of a row to the unit of the axis. Whiskers are the 10th and
    90th percentile of the times.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(1.6 + 1.35 * len(problems), 4.2))
    width = _WIDTH / len(shown)
    for number, candidate in enumerate(shown):
        found = [(place, rows[candidate]) for place, rows in enumerate(problems.values()) if candidate in rows]
        timed = [(place, row) for place, row in found if row.tflops]
        if not timed:
            continue
        rates = [(row.tflops or 0.0) * scale for _, row in timed]
        at = [place + (number - (len(shown) - 1) / 2) * width for place, _ in timed]
        spread = list(zip(*(_whiskers(row, rate) for (_, row), rate in zip(timed, rates, strict=True)), strict=True))
        axis.bar(at, rates, width, label=candidate, color=OURS.get(candidate, _OTHERS), yerr=spread, ecolor="#404040")
    axis.set_xticks(range(len(problems)), [_wrapped(label) for label in problems], fontsize=8)
    axis.set_ylabel(unit)
    axis.grid(axis="y", alpha=0.3)
    axis.set_axisbelow(True)
    axis.legend(fontsize=8, ncols=len(shown), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    figure.suptitle(title, fontsize=10)
    return saved(figure, IMAGES / f"{name}.png")


def _wrapped(label: str) -> str:
    """In lines that fit under a group of bars: one for each part, or several."""
    return "\n".join(line for part in label.split(", ") for line in textwrap.wrap(part, _LINE))


def _whiskers(row: Row, rate: float) -> tuple[float, float]:
    """How far the rates of the slower and of the faster rounds are from the median."""
    middle: Any = row.median_ms
    return rate - rate * middle / (row.p90_ms or middle), rate * middle / (row.p10_ms or middle) - rate
