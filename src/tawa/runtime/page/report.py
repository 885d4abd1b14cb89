"""The page of a report: the kernels of one or more processes, what became of each, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tawa.html import Child, Element, element, notebook_markup, table
from tawa.runtime.history.table import headline, notes_of
from tawa.runtime.page import charts
from tawa.runtime.page.page import Section, chart, page

if TYPE_CHECKING:
    from tawa.runtime.history.process_report import KernelHistory, ProcessReport, Verdict


def report_page(report: ProcessReport) -> str:
    """The whole page."""
    drawn = _drawn(report)
    sections = [Section("kernels", "Kernels", (*_chart(report, drawn), *_notes(report), _kernels(report)))]
    sections += [
        Section(f"kernel-{number}", it.name, tuple(_kernel(report, it))) for number, it in enumerate(report.kernels)
    ]
    return page("Kernels under Tawa", headline(report), sections, {"charts": drawn})


def report_cell(report: ProcessReport) -> str:
    """The headline and the kernels, for a notebook."""
    kernels = _kernels(report, linked=False) if report.kernels else element("p", "No kernel was compiled.")
    return notebook_markup(element("div", element("b", headline(report)), kernels, *_notes(report)))


def _drawn(report: ProcessReport) -> dict[str, Any]:
    """Bars of GPU time if it was profiled, else of launches."""
    names = [it.name for it in report.kernels]
    if report.gpu_ms is not None and names:
        return {"kernels": charts.bars(names, {"GPU time": [it.gpu_ms for it in report.kernels]}, "ms of GPU time")}
    if any(it.launches for it in report.kernels):
        return {"kernels": charts.bars(names, {"launches": [it.launches for it in report.kernels]}, "launches")}
    return {}


def _chart(report: ProcessReport, drawn: dict[str, Any]) -> Iterator[Child]:
    if drawn:
        yield chart("kernels", "Kernels by GPU time, or by launches; the table below has the numbers")


def _notes(report: ProcessReport) -> Iterator[Child]:
    yield from (element("p", note, class_="note") for note in notes_of(report))


def _kernels(report: ProcessReport, linked: bool = True) -> Element:
    """A row for each kernel."""
    rows = []
    for number, it in enumerate(report.kernels):
        share = report.share(it)
        name = element("a", it.name, href=f"#kernel-{number}") if linked else it.name
        launches = "?" if it.launches is None else f"{it.launches:,}"
        rows.append((name, "" if share is None else f"{share:.1%}", launches, _outcomes(it)))
    return element("div", table(("kernel", "GPU time", "launches", "outcome"), rows, class_="report"), class_="wide")


def _outcomes(kernel: KernelHistory) -> Element:
    words = dict.fromkeys(_word(it) for it in kernel.verdicts)
    return element("span", *(element("span", f"{word}. ", class_=style) for word, style in words))


def _word(verdict: Verdict) -> tuple[str, str]:
    return ("specialised", "specialised") if verdict.applied else ("not specialised", "left")


def _kernel(report: ProcessReport, kernel: KernelHistory) -> Iterator[Child]:
    for it in kernel.verdicts:
        word, style = _word(it)
        yield element("h3", element("span", word, class_=style), f": {it.reason}")
        facts = [
            ("at", it.location),
            ("cure", it.cure if not it.applied else None),
            ("versions", str(it.versions)),
            ("launches", "?" if it.launches is None else f"{it.launches:,}"),
            ("compile time", f"{it.compile_ms:,.0f} ms, of which Tawa {it.tawa_ms:,.1f} ms"),
        ]
        yield table(("", ""), [fact for fact in facts if fact[1]], class_="facts")
    if kernel.learning:
        yield element("h3", "Learned and learning")
        yield element("ul", *(element("li", text) for text in kernel.learning))
