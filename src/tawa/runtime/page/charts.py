"""The data of the charts on a page. The script hands them to the library that draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tawa.html import Child, element, table
from tawa.runtime.simulation import Panels
from tawa.sim.time.kinds import Kind
from tawa.sim.time.picture import COLOURS, WORDS
from tawa.sim.time.timeline import Timeline, summary, waits_by_cause


def timeline_chart(panels: Panels) -> dict[str, Any]:
    """Spans of all panels on one axis of cycles: row, begin, end, kind, label, slot, source line.

    Kinds, labels and lines are numbers of entries in lists.
    """
    used = {span.kind for _, it in panels for span in it.spans}
    kinds: list[Kind] = [it for it in COLOURS if it in used]
    spans = [span for _, it in panels for span in it.spans]
    labels = {text: at for at, text in enumerate(dict.fromkeys(span.label for span in spans))}
    places = dict.fromkeys(str(span.location) for span in spans if span.location)
    lines = {text: at for at, text in enumerate(places)}
    return {
        "kind": "timeline",
        "labels": list(labels),
        "lines": list(lines),
        "kinds": [{"word": WORDS[it], "colour": COLOURS[it], "wait": it == "wait"} for it in kinds],
        "panels": [
            {
                "title": f"{title}: {it.cycles:,} cycles, tensor cores busy {summary(it).tensor_core_busy:.0%}",
                "rows": list(it.rows),
                "cycles": it.cycles,
                "spans": [
                    [
                        it.rows.index(span.row), span.begin_cycles, span.end_cycles, kinds.index(span.kind),
                        labels[span.label], span.slot, lines[str(span.location)] if span.location else None,
                    ]
                    for span in it.spans
                ],
            }
            for title, it in panels
        ],
    }  # fmt: skip


def waits_table(panels: Panels) -> Child:
    """How long each partition waits, and for what."""
    rows = [row for title, it in panels for row in _waits(title, it)]
    return table(("kernel", "partition", "waits", "for"), rows, class_="plain")


def _waits(title: str, timeline: Timeline) -> Iterable[Sequence[str]]:
    whole = max(1, timeline.cycles)
    for row, causes in waits_by_cause(timeline).items():
        told = ", ".join(f"{cause} {cycles / whole:.0%}" for cause, cycles in causes.items()) or "nothing"
        yield title, row, f"{sum(causes.values()) / whole:.0%}", told


def waits_chart(panels: Panels) -> dict[str, Any]:
    """Stacked bars: the share of the time that each partition waits, by cause."""
    rows = [(title, row, it, causes) for title, it in panels for row, causes in waits_by_cause(it).items()]
    causes = list(dict.fromkeys(cause for *_, found in rows for cause in found))
    series = {
        cause: [round(100 * found.get(cause, 0) / max(1, it.cycles), 1) for *_, it, found in rows] for cause in causes
    }
    return bars([f"{title}: {row}" for title, row, *_ in rows], series, "% of the time", stacked=True)


def bars(names: Sequence[str], series: Mapping[str, Sequence[float | None]], unit: str, *, stacked: bool = False,
         limit: float | None = None) -> dict[str, Any]:  # fmt: skip
    """Horizontal bars. series: the values of each name. limit: the end of the axis."""
    made = [{"name": name, "values": list(values)} for name, values in series.items()]
    return {"kind": "bars", "unit": unit, "stacked": stacked, "names": list(names), "series": made, "limit": limit}


def zoom_controls() -> Child:
    """Buttons for what the wheel and the keys do, too."""
    buttons = (("+", "in", "zoom in"), ("−", "out", "zoom out"), ("◀", "left", "earlier"), ("▶", "right", "later"),
               ("all", "all", "show all"))  # fmt: skip
    made = (element("button", text, type="button", data_zoom=name, aria_label=label) for text, name, label in buttons)
    return element("div", *made, class_="controls")
