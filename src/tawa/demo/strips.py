"""Timelines for a terminal: a strip of coloured cells for each row, all on one time axis.

stock Triton       all warps     ▏░░█░░█░░█▒▒░░░
                   tensor cores  ▏ ████████  ███
Tawa               producer      ▏░█░█░█░█░
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from tawa.sim.time.timeline import Span, Timeline

# Kind of span: its cell, its colour, its word. Cells differ too, for readers and terminals without colours.
_CELLS = {
    "wgmma": ("█", "yellow", "matrix multiply"),
    "tma": ("▓", "cyan", "TMA copy"),
    "load": ("▓", "blue", "load"),
    "tensor memory": ("░", "red", "tensor memory"),
    "cuda core": ("▒", "green", "CUDA cores"),
    "epilogue": ("▚", "magenta", "epilogue, store"),
    "barrier": ("▏", "bright_black", "barrier"),
    "wait": ("·", "bright_black", "waiting"),
}
_HIDDEN = ("wait", "barrier")
"""Shown in a cell only if nothing else happens in it."""


def strips(timelines: Sequence[tuple[str, Timeline]], width: int = 72) -> Iterator[Text]:
    """The lines that show `timelines` (title and timeline of each), `width` cells for the longest, and a legend."""
    from rich.text import Text

    from tawa.sim.time.timeline import summary

    longest = max(1, *(timeline.cycles for _, timeline in timelines))
    label = max(len(row) for _, timeline in timelines for row in timeline.rows)
    kinds = dict.fromkeys(span.kind for _, timeline in timelines for span in timeline.spans)
    for title, timeline in timelines:
        found = summary(timeline)
        numbers = f"{found.cycles} cycles, tensor cores busy {found.tensor_core_busy:.0%}"
        yield Text.assemble((title, "bold"), f"  {numbers}")
        for row in timeline.rows:
            yield Text.assemble(f"  {row:{label}} ", *_strip(timeline.of(row), longest / width, timeline.cycles))
    legend = [part for kind in _CELLS if kind in kinds for part in ((_CELLS[kind][0], _CELLS[kind][1]), _word(kind))]
    yield Text.assemble("  ", *legend)


def _word(kind: str) -> str:
    return f" {_CELLS[kind][2]}   "


def _strip(spans: Sequence[Span], cycles_a_cell: float, end: int) -> Iterator[tuple[str, str]]:
    """A cell for each interval of time: the kind of span that takes most of it."""
    for cell in range(-(-end // max(1, round(cycles_a_cell)))):
        begin, until = cell * cycles_a_cell, (cell + 1) * cycles_a_cell
        shares: dict[str, float] = {}
        for span in spans:
            inside = min(until, span.end_cycles) - max(begin, span.begin_cycles)
            if inside > 0:
                shares[span.kind] = shares.get(span.kind, 0.0) + inside
        work = {kind: share for kind, share in shares.items() if kind not in _HIDDEN}
        chosen = work or shares
        if not chosen:
            yield " ", ""
            continue
        symbol, colour, _ = _CELLS[max(chosen, key=lambda kind: chosen[kind])]
        yield symbol, colour
