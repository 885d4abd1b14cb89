"""Pictures of timelines: one panel per timeline on a common time axis, as SVG or PNG.

matplotlib is required only for pictures and imported only when `render` is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tawa.sim.time.kinds import Kind
from tawa.sim.time.timeline import UNITS, Span, Timeline, summary

# The colour-blind safe palette of Okabe and Ito; waits are nearly white.
COLOURS: dict[Kind, str] = {
    "tma": "#56B4E9",
    "load": "#0072B2",
    "wgmma": "#E69F00",
    "tensor memory": "#D55E00",
    "cuda core": "#009E73",
    "epilogue": "#CC79A7",
    "barrier": "#8A8A8A",
    "wait": "#ECECEC",
}
WORDS: dict[Kind, str] = {
    "tma": "TMA copy",
    "load": "load",
    "wgmma": "matrix multiply",
    "tensor memory": "tensor memory",
    "cuda core": "CUDA cores",
    "epilogue": "epilogue, store",
    "barrier": "barrier",
    "wait": "waiting",
}
_WIDTH_INCHES, _ROW_INCHES, _GAP_INCHES, _TOP_INCHES, _BOTTOM_INCHES = 9.0, 0.25, 0.42, 0.28, 0.68
_DOTS_PER_INCH = 200
_BAR = 0.78
_INK = "#222222"
# Spans of one kind merge if their gap is below this share of the axis; bars are at least half as wide.
_RESOLUTION = 1 / 1500


def render(timelines: Sequence[tuple[str, Timeline]], path: Path | str) -> None:
    """Draws timelines one below the other.

    timelines: title and timeline of each panel. path: the output file; its suffix selects ``.svg`` or ``.png``.
    Raises ImportError without matplotlib and ValueError without timelines.
    """
    if not timelines:
        raise ValueError("no timelines to draw")
    figures, matplotlib = _library("matplotlib.figure"), _library("matplotlib")
    path = Path(path)
    longest = max(timeline.cycles for _, timeline in timelines)
    rows = [len(timeline.rows) for _, timeline in timelines]
    height = sum(rows) * _ROW_INCHES + (len(rows) - 1) * _GAP_INCHES + _TOP_INCHES + _BOTTOM_INCHES
    # The fixed salt makes the output deterministic.
    with matplotlib.rc_context({"svg.hashsalt": "tawa", "svg.fonttype": "path", "font.family": "DejaVu Sans"}):
        figure = figures.Figure(figsize=(_WIDTH_INCHES, height), dpi=_DOTS_PER_INCH, facecolor="white")
        panels = figure.subplots(len(rows), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": rows})[:, 0]
        for axes, (title, timeline) in zip(panels, timelines, strict=True):
            _draw(axes, title, timeline, longest)
        _finish(figure, panels, [timeline for _, timeline in timelines], height)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"a picture of a timeline needs matplotlib ({error}); cure: pip install matplotlib"
        ) from error


def _draw(axes: Any, title: str, timeline: Timeline, longest: int) -> None:
    """Draws one panel, rows from top to bottom."""
    for place, row in enumerate(timeline.rows):
        bars = merge_spans(timeline.of(row), longest * _RESOLUTION)
        for kind in COLOURS:
            ranges = [(begin, max(end - begin, longest * _RESOLUTION / 2)) for its, begin, end in bars if its == kind]
            axes.broken_barh(ranges, (place - _BAR / 2, _BAR), facecolors=COLOURS[kind], linewidth=0)
    axes.set_yticks(range(len(timeline.rows)), timeline.rows, fontsize=8.5, color=_INK)
    axes.set_ylim(len(timeline.rows) - 0.5, -0.5)
    axes.set_xlim(0, longest)
    busy = summary(timeline).tensor_core_busy
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold", color=_INK, pad=5)
    numbers = f"{timeline.cycles:,} cycles, tensor cores busy {busy:.0%}"
    axes.set_title(numbers, loc="right", fontsize=9, color=_INK, pad=5)
    units = sum(row in UNITS for row in timeline.rows)
    axes.axhline(len(timeline.rows) - units - 0.5, color="#BBBBBB", linewidth=0.6)
    axes.axvline(timeline.cycles, color="#555555", linewidth=0.8, linestyle=(0, (4, 2)))
    axes.tick_params(length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def _finish(figure: Any, panels: Any, timelines: Sequence[Timeline], height: float) -> None:
    """Draws the common axis and the legend."""
    patches = _library("matplotlib.patches")
    used = {span.kind for timeline in timelines for span in timeline.spans}
    handles = [patches.Patch(facecolor=colour, label=WORDS[kind]) for kind, colour in COLOURS.items() if kind in used]
    figure.legend(
        handles=handles,
        ncols=len(handles),
        loc="lower center",
        bbox_to_anchor=(0.5, 0.0),
        frameon=False,
        fontsize=8.5,
        handlelength=1.2,
        handleheight=0.9,
        columnspacing=1.4,
        labelcolor=_INK,
    )
    panels[-1].tick_params(axis="x", length=3, labelsize=8, color="#888888", labelcolor=_INK)
    panels[-1].spines["bottom"].set_visible(True)
    panels[-1].spines["bottom"].set_color("#888888")
    panels[-1].xaxis.set_major_formatter("{x:,.0f}")
    panels[-1].set_xlabel("cycles of one SM", fontsize=8.5, color=_INK, labelpad=2)
    gap = _GAP_INCHES / (_ROW_INCHES * sum(len(it.rows) for it in timelines) / len(timelines))
    top, bottom = 1 - _TOP_INCHES / height, _BOTTOM_INCHES / height
    figure.subplots_adjust(left=0.105, right=0.97, top=top, bottom=bottom, hspace=gap)


def merge_spans(spans: Sequence[Span], gap_cycles: float) -> list[tuple[Kind, float, float]]:
    """Bars of (kind, begin, end): merges neighbours of one kind whose gap is below `gap_cycles`."""
    bars: list[tuple[Kind, float, float]] = []
    for span in spans:
        if bars and bars[-1][0] == span.kind and span.begin_cycles - bars[-1][2] < gap_cycles:
            bars[-1] = (span.kind, bars[-1][1], max(bars[-1][2], span.end_cycles))
        else:
            bars.append((span.kind, span.begin_cycles, span.end_cycles))
    return bars
