"""The page on which a kernel explains itself, and its short form for a notebook.

Everything on it is of the `Explanation` whose table `tawa explain` prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from tawa.html import Child, Element, element, notebook_markup, table
from tawa.machine.nvidia import SHARED_BYTES
from tawa.plan.reasons import Decision
from tawa.plan.search.runs import NOT_TRIED
from tawa.runtime.explain.explicit import RingEnds
from tawa.runtime.explain.source import names_of_plan
from tawa.runtime.explain.table import fact_rows, plural
from tawa.runtime.page import charts
from tawa.runtime.page.page import Section, chart, page
from tawa.runtime.page.source import chip, source_content, styles_of
from tawa.runtime.page.verdict import steps_of, verdict_content

if TYPE_CHECKING:
    from tawa.runtime.explain.explanation import Explanation

_WARP = 32
_SM_REGISTERS = 65536
_MOST_DRAWN = 8
"""Slots of a ring that are drawn one by one."""


def explanation_page(it: Explanation) -> str:
    """The whole page."""
    data: dict[str, Any] = {"charts": dict(_charts(it)), "steps": steps_of(it.verdict)}
    return page(f"{it.kernel}", f"{it.headline}. Compiled for {it.target}.", _sections(it, data["charts"]), data)


def explanation_cell(it: Explanation) -> str:
    """The facts, and the Plan folded away."""
    facts = table(("", ""), list(fact_rows(it)))
    plan = element("details", element("summary", "Plan"), plan_table(it.decisions)) if it.decisions else None
    return notebook_markup(element("div", element("b", f"{it.kernel}: {it.headline}"), facts, plan))


def plan_table(decisions: tuple[Decision, ...]) -> Element:
    """The Plan: a row for each decision."""
    rows = [
        (one.field, one.value, element("span", one.by, class_=f"by {one.by}"), one.reason or "") for one in decisions
    ]
    return table(("decision", "value", "by", "why"), rows, class_="plan")


def _sections(it: Explanation, drawn: dict[str, Any]) -> Iterator[Section]:
    styles = styles_of(_partitions(it))
    problem = it.reason if not it.applied and it.program is None else ""
    yield Section("facts", "Result", (table(("", ""), list(fact_rows(it)), class_="facts"),))
    yield Section("source", "Source", source_content(it.source, styles, it.location, problem))
    if it.decisions:
        yield Section("plan", "Plan", (element("div", plan_table(it.decisions), class_="wide"),))
    if it.ring_ends:
        yield Section("rings", "Rings", tuple(_ring(ring, styles) for ring in it.ring_ends))
    yield Section("timeline", "Timeline", tuple(_timeline(it)))
    yield Section("memory", "Registers and memory", tuple(_memory(it, drawn)))
    yield Section("candidates", "Candidates", tuple(_candidates(it, drawn)))
    yield Section("verdict", "Protocol", verdict_content(it.verdict, _names(it)) if _checked(it) else _NOTHING)
    yield Section("declined", "What was declined, and why", tuple(_declined(it)))


def _partitions(it: Explanation) -> list[str]:
    """The partitions by the names that source and rings have."""
    if it.program is not None:
        return list(it.program.names.values())
    return [part.name for part in it.partitions]


def _checked(it: Explanation) -> bool:
    return it.applied or it.program is not None


_NOTHING = (element("p", "Stock Triton's kernel is launched; it has no rings of Tawa to check."),)


def _names(it: Explanation) -> dict[str, str]:
    """The names that a verdict has for partitions, and those that people have."""
    if it.program is not None:
        return it.program.names
    return names_of_plan(it.plan) if it.plan is not None else {}


# --- rings ------------------------------------------------------------------------------------------------------------


def _ring(ring: RingEnds, styles: dict[str, str]) -> Element:
    """A picture: who writes, the slots, who reads; below, who waits for what."""
    shown = min(ring.slots, _MOST_DRAWN)
    slots = [element("li", element("b", str(number)), *_tiles(ring)) for number in range(shown)]
    more = element("li", f"… {ring.slots} in all") if shown < ring.slots else None
    tiles = f"{', '.join(ring.payload)}; {ring.slot_bytes:,} bytes" if ring.payload else "no tiles: a signal"
    filled = "TMA" if ring.by_copies else "threads or commits"
    return element(
        "figure",
        element(
            "figcaption",
            element("strong", ring.name),
            f": D = {ring.slots}, {plural(ring.slots, 'slot')} of {tiles}, filled by {filled}",
        ),
        element(
            "div",
            element("div", *(chip(who, styles, full=True) for who in ring.writers), class_="end"),
            element("span", "→", class_="arrow", aria_hidden="true"),
            element("ol", *slots, more, class_="slots", start=0),
            element("span", "→", class_="arrow", aria_hidden="true"),
            element("div", *(chip(who, styles, full=True) for who in ring.readers), class_="end"),
            class_="ring",
        ),
        element("p", element("b", _all(ring.readers)), f" wait{_s(ring.readers)} until a slot is full: {ring.full}."),
        element("p", element("b", _all(ring.writers)), _until_empty(ring)),
    )


def _tiles(ring: RingEnds) -> Iterator[Element]:
    for tile in ring.payload:
        yield element("span", tile, class_="tile")


def _until_empty(ring: RingEnds) -> str:
    if ring.empty == "none":
        return " never wait" + _s(ring.writers) + ": each slot is filled once."
    return f" wait{_s(ring.writers)} until a slot is empty: {ring.empty}."


def _all(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nobody"


def _s(names: tuple[str, ...]) -> str:
    return "s" if len(names) < 2 else ""


# --- charts -----------------------------------------------------------------------------------------------------------


def _charts(it: Explanation) -> Iterator[tuple[str, dict[str, Any]]]:
    if it.timelines:
        yield "timeline", charts.timeline_chart(it.timelines)
        yield "waits", charts.waits_chart(it.timelines)
    memory = _memory_parts(it)
    if memory:
        yield "shared", charts.bars(["shared memory"], {name: [size] for name, size in memory}, "bytes of one CTA",
                                    stacked=True, limit=SHARED_BYTES)  # fmt: skip
    threads = _register_parts(it)
    if threads:
        yield "registers", charts.bars(["registers"], {name: [count] for name, count, _ in threads},
                                       "32-bit registers of one CTA", stacked=True, limit=_SM_REGISTERS)  # fmt: skip
    predicted = it.candidates.predicted
    if predicted:
        series = {size: [one.times_us[size] for one in predicted] for size in predicted[0].times_us}
        names = [f"{one.words}{' (this kernel)' * one.compiled}" for one in predicted]
        yield "predicted", charts.bars(names, series, "µs, predicted")
    for number, entry in enumerate(it.candidates.measured):
        times = [one for one in entry.times if one.median_us is not None]
        if times:
            medians = {"median": [one.median_us for one in times]}
            yield f"measured{number}", charts.bars([one.words for one in times], medians, "µs, measured")


def _timeline(it: Explanation) -> Iterator[Child]:
    note = it.timeline_note
    if not it.timelines:
        yield element("p", note or "Not asked for: tawa explain --html draws it.", class_="note")
        return
    yield element(
        "p", "One program on one SM, by the simulator's cost model, which shows where time goes and not how much. "
        "Drag or use the slider to move, zoom with Ctrl and the wheel or the keys + and −; a click marks the line.",
    )  # fmt: skip
    yield charts.zoom_controls()
    yield chart("timeline", "Timeline of stock Triton's kernel and of this one; the table below has its numbers")
    yield element("output", "", id="span", aria_live="polite")
    yield element("h3", "Waits by cause")
    yield chart("waits", "Share of the time that each partition waits, by cause")
    yield element("div", charts.waits_table(it.timelines), class_="wide")
    if note:
        yield element("p", f"{note[:1].upper()}{note[1:]}.", class_="note")


def _memory_parts(it: Explanation) -> list[tuple[str, int]]:
    """What the shared memory of one CTA is for, in bytes."""
    rings = [(one.name, one.slots * one.slot_bytes) for one in it.ring_ends]
    if it.plan is not None:
        rings = [(ring.name, ring.total_bytes) for ring in it.rings]
    rings = [pair for pair in rings if pair[1]]
    rest = it.shared_bytes - sum(size for _, size in rings)
    return [*rings, ("other buffers and barriers", rest)] if rest > 0 else rings


def _register_parts(it: Explanation) -> list[tuple[str, int, str]]:
    """The registers of each partition: name, of all its threads, and in words."""
    found: list[tuple[str, int, str]] = []
    for part in it.partitions:
        each = part.registers or it.registers
        threads = part.num_warps * _WARP
        found.append((part.name, each * threads, f"{part.num_warps} × {_WARP} threads × {each}"))
    return found


def _memory(it: Explanation, drawn: dict[str, Any]) -> Iterator[Child]:
    yield element("p", f"Shared memory: {it.shared_bytes:,} of {SHARED_BYTES:,} bytes.")
    if "shared" in drawn:
        yield chart("shared", "Shared memory of one CTA by use; the table below has its numbers")
        rows = [(name, f"{size:,} bytes") for name, size in _memory_parts(it)]
        yield table(("", ""), rows, class_="plain")
    yield element("p", f"Registers: ptxas allocates {it.registers} per thread and spills {it.spill_bytes} bytes.")
    if "registers" in drawn:
        yield chart("registers", "Registers of one CTA by partition; the table below has its numbers")
        yield table(("", ""), [(name, words) for name, _, words in _register_parts(it)], class_="plain")


def _candidates(it: Explanation, drawn: dict[str, Any]) -> Iterator[Child]:
    if "predicted" in drawn:
        predicted = it.candidates.predicted
        yield element("h3", "Predicted")
        yield chart("predicted", "Predicted times of all forms; the table below has its numbers")
        sizes = list(predicted[0].times_us)
        rows = [
            (f"{one.words}{' (this kernel)' * one.compiled}", *(f"{one.times_us[size]:,.1f} µs" for size in sizes),
             one.note) for one in predicted
        ]  # fmt: skip
        yield element("div", table(("form", *sizes, "compiled"), rows, class_="plain"), class_="wide")
    else:
        yield element("p", "Nothing is predicted: no model decides what launches of it get.", class_="note")
    for number, entry in enumerate(it.candidates.measured):
        how = "learned by launches" if entry.learned else "measured by tawa tune"
        yield element("h3", f"Measured: {entry.shape_class}, {entry.gpu}, {how} on {entry.date}")
        if f"measured{number}" in drawn:
            yield chart(f"measured{number}", "Measured times; the table below has its numbers")
        rows = [(one.words, _us(one.median_us), _us(one.spread_us), one.note) for one in entry.times]
        yield element("div", table(("form", "median", "quartiles apart", "note"), rows, class_="plain"), class_="wide")
    if not it.candidates.measured:
        yield element("p", "Nothing was measured for this kernel: tawa tune and real launches do.", class_="note")
    if it.back_end_runs:
        yield element("h3", "Compiled to the end")
        rows = [(str(run["plan"]), f"{run['ms']:,.0f} ms", str(run.get("spill_bytes", run.get("result", ""))))
                for run in it.back_end_runs]  # fmt: skip
        yield element("div", table(("Plan", "compile time", "bytes spilled"), rows, class_="plain"), class_="wide")


def _us(time: float | None) -> str:
    return f"{time:,.2f} µs" if time is not None else "–"


def _declined(it: Explanation) -> Iterator[Child]:
    """The kernel, launches, and Plans that were declined; then the other remarks."""
    if not it.applied and it.program is None:
        place = f" ({PurePath(it.location).name})" if it.location else ""
        yield element("p", element("strong", "Not specialised"), f": {it.reason}{place}")
        if it.cure:
            yield element("p", element("strong", "Cure"), f": {it.cure}")
    elif it.program is not None:
        yield element("p", f"Nothing: {it.reason}.")
    elif it.condition and it.resolved is None:
        yield element("p", f"Launches get stock Triton's kernel unless {it.condition}.")
    rest = [remark for remark in it.remarks[1:] if remark != it.reason]
    untried = [remark for remark in rest if remark.startswith(NOT_TRIED)]
    others = [remark for remark in rest if remark not in untried]
    if untried:
        yield element("h3", "Plans that were not tried")
        yield element("ul", *(element("li", remark.removeprefix(NOT_TRIED)) for remark in untried))
    elif it.applied:
        yield element("p", "No Plan was left untried.")
    if others:
        yield element("h3", "Remarks")
        yield element("ul", *(element("li", remark) for remark in others))
