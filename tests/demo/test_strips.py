"""Timelines in a terminal."""

from __future__ import annotations

from tawa.demo.strips import strips
from tawa.sim.time.timeline import Span, Timeline


def timeline(*spans: tuple[str, str, int, int], cycles: int = 100) -> Timeline:
    rows = tuple(dict.fromkeys(row for row, *_ in spans))
    return Timeline(rows, tuple(Span(row, kind, kind, begin, end) for row, kind, begin, end in spans), cycles, 1.0)  # type: ignore[arg-type]


def test_each_cell_shows_what_takes_most_of_its_time_and_waiting_only_where_nothing_else_happens() -> None:
    shown = timeline(("warps", "wait", 0, 50), ("warps", "wgmma", 50, 90), ("warps", "epilogue", 90, 100))
    title, row, legend = (line.plain for line in strips([("one", shown)], width=10))
    assert title == "one  100 cycles, tensor cores busy 0%"
    assert row == "  warps ·····████▚"
    assert legend.split("   ")[0].strip() == "█ matrix multiply" and "TMA" not in legend


def test_all_timelines_share_one_axis() -> None:
    short, long = timeline(("w", "tma", 0, 50), cycles=50), timeline(("w", "tma", 0, 100))
    lines = [line.plain for line in strips([("short", short), ("long", long)], width=20)]
    assert lines[1].strip() == "w " + "▓" * 10 and lines[3].strip() == "w " + "▓" * 20
