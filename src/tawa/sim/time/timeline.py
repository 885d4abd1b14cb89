"""Timelines of a CTA: spans of work by row, their summary, and their export as a Chrome trace.

Times are in SM cycles from the cost model (`cost`); `picture` draws timelines.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from tawa.html import element, notebook_markup, table
from tawa.remarks import SourceLocation
from tawa.sim.time.kinds import Kind

TENSOR_CORES, TMA, LOADS = "tensor cores", "TMA", "loads, stores"
UNITS = (TMA, LOADS, TENSOR_CORES)
"""Rows of hardware units; all other rows are partitions."""


@dataclass(frozen=True, slots=True)
class Span:
    """An interval of work or waiting in one row.

    label: the operation, or the target of a wait. slot: of the ring. A TMA span ends when its bytes land.
    """

    row: str
    label: str
    kind: Kind
    begin_cycles: int
    end_cycles: int
    slot: int | None = None
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The spans of one CTA. rows: partitions, then units. The spans of a row are ordered and do not overlap."""

    rows: tuple[str, ...]
    spans: tuple[Span, ...]
    cycles: int
    clock_ghz: float

    @property
    def partitions(self) -> tuple[str, ...]:
        """The rows that are partitions."""
        return tuple(row for row in self.rows if row not in UNITS)

    def of(self, row: str) -> tuple[Span, ...]:
        """The spans of one row."""
        return tuple(span for span in self.spans if span.row == row)

    def _repr_html_(self) -> str:
        """How long each row works and waits, for a notebook."""
        rows: list[tuple[str, str, str]] = []
        for row in self.rows:
            waits = sum(it.end_cycles - it.begin_cycles for it in self.of(row) if it.kind == "wait")
            works = sum(it.end_cycles - it.begin_cycles for it in self.of(row)) - waits
            rows.append((row, f"{works / max(1, self.cycles):.0%}", f"{waits / max(1, self.cycles):.0%}"))
        title = f"{self.cycles:,} cycles, {self.cycles / self.clock_ghz / 1000:.1f} µs at {self.clock_ghz} GHz"
        return notebook_markup(element("div", element("b", title), table(("row", "works", "waits"), rows)))


@dataclass(frozen=True, slots=True)
class Summary:
    """Shares of a CTA's run time: busy units, and the waits of each partition for barriers, slots and loads."""

    cycles: int
    tensor_core_busy: float
    tma_busy: float
    waiting: dict[str, float]

    def __str__(self) -> str:
        waits = ", ".join(f"{row} waits {share:.0%}" for row, share in self.waiting.items())
        return f"{self.cycles} cycles, tensor cores busy {self.tensor_core_busy:.0%}, TMA {self.tma_busy:.0%}; {waits}"


def summary(timeline: Timeline) -> Summary:
    """Computes how busy the units are and how long each partition waits."""
    whole = max(1, timeline.cycles)

    def share(spans: Sequence[Span]) -> float:
        return sum(span.end_cycles - span.begin_cycles for span in spans) / whole

    waiting = {row: share([it for it in timeline.of(row) if it.kind == "wait"]) for row in timeline.partitions}
    return Summary(timeline.cycles, share(timeline.of(TENSOR_CORES)), share(timeline.of(TMA)), waiting)


def one_after_the_other(timelines: Sequence[Timeline]) -> Timeline:
    """The timeline of CTAs that one SM runs one after the other; launching them takes no time."""
    first, spans, begin = timelines[0], list[Span](), 0
    for it in timelines:
        moved = (
            replace(span, begin_cycles=span.begin_cycles + begin, end_cycles=span.end_cycles + begin)
            for span in it.spans
        )
        spans += moved
        begin += it.cycles
    rows = tuple(dict.fromkeys(row for it in timelines for row in it.rows))
    spans.sort(key=lambda span: (rows.index(span.row), span.begin_cycles, span.end_cycles))
    return Timeline(rows, tuple(spans), begin, first.clock_ghz)


def waits_by_cause(timeline: Timeline) -> dict[str, dict[str, int]]:
    """The cycles that each partition waits, by what it waits for and where, the longest first."""
    found: dict[str, dict[str, int]] = {}
    for row in timeline.partitions:
        causes: dict[str, int] = {}
        for span in timeline.of(row):
            if span.kind == "wait":
                place = f" ({PurePath(span.location.file).name}:{span.location.line})" if span.location else ""
                cause = span.label + place
                causes[cause] = causes.get(cause, 0) + span.end_cycles - span.begin_cycles
        found[row] = dict(sorted(causes.items(), key=lambda it: -it[1]))
    return found


def chrome_trace(timeline: Timeline, title: str = "CTA") -> str:
    """The timeline as a Chrome trace (JSON): open it at ui.perfetto.dev or chrome://tracing. Times are microseconds."""
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": title}},
    ]
    for number, row in enumerate(timeline.rows):
        events.append({"name": "thread_name", "ph": "M", "pid": 0, "tid": number, "args": {"name": row}})
        events.append({"name": "thread_sort_index", "ph": "M", "pid": 0, "tid": number, "args": {"sort_index": number}})
    per_us = timeline.clock_ghz * 1000
    for span in timeline.spans:
        more = {"cycles": span.end_cycles - span.begin_cycles, "begin_cycles": span.begin_cycles}
        if span.slot is not None:
            more["slot"] = span.slot
        events.append(
            {
                "name": span.label,
                "cat": span.kind,
                "ph": "X",
                "pid": 0,
                "tid": timeline.rows.index(span.row),
                "ts": round(span.begin_cycles / per_us, 4),
                "dur": round((span.end_cycles - span.begin_cycles) / per_us, 4),
                "args": more | ({"source": str(span.location)} if span.location else {}),
            }
        )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
