"""What a notebook shows of a value: short, and escaped."""

from __future__ import annotations

import pytest

import tawa
from tawa.remarks import SourceLocation
from tawa.runtime.explain.explanation import Explanation
from tawa.runtime.history import process_report
from tawa.runtime.history.process_report import KernelHistory, ProcessReport
from tawa.verify.verdict import Checked, Proved, Refuted, Step, Unknown, Verdict, Witness
from tests.runtime.page.reading import Page

pytestmark = pytest.mark.usefixtures("without_ptx")

STEP = Step("producer", "put", "ring0", 1, 0, SourceLocation("k.py", 3))
VERDICTS = [
    Proved(("a < b",)),
    Checked("K in 0, 64", "a <loop>", SourceLocation("k.py", 3)),
    Refuted(Witness("deadlock", "producer waits for <ring0>", {"K": 64}, (STEP,))),
    Unknown("<budget>"),
]


def test_a_cell_of_an_explanation_is_short(explanation: Explanation) -> None:
    html = explanation._repr_html_()
    assert len(html) < 6_000 and Page(html).faults == []
    assert explanation.headline.replace("'", "&#x27;") in html or explanation.headline in html
    assert repr(explanation) == f"Explanation(gemm: {explanation.headline})"


def test_a_cell_of_a_plan_has_its_decisions(explanation: Explanation) -> None:
    assert explanation.plan is not None
    html = explanation.plan._repr_html_()
    assert len(html) < 4_000 and Page(html).faults == []
    for piece in ("as_written", "name ring0", f"depth {explanation.rings[0].depth}", "name producer"):
        assert piece in html
    partial = tawa.Plan.from_data({"version": 7, "rings": [{"depth": 2}]})._repr_html_()
    assert "depth 2" in partial and "partitions" not in partial


def test_a_cell_of_a_timeline_has_a_row_for_each_of_its(explanation: Explanation) -> None:
    for _, timeline in explanation.timelines:
        html = timeline._repr_html_()
        assert Page(html).faults == [] and all(f">{row}</th>" in html for row in timeline.rows)
        assert len(html) < 2_000


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda it: type(it).__name__)
def test_a_cell_of_a_verdict_is_escaped(verdict: Verdict) -> None:
    html = verdict._repr_html_()
    page = Page(html)
    assert type(verdict).__name__.lower() in html and page.faults == []
    assert {tag for tag, _ in page.tags} <= {
        "div",
        "b",
        "p",
        "details",
        "summary",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    }


def test_a_cell_of_a_report_names_its_kernels() -> None:
    verdict = process_report.Verdict(False, "no <dot>", "k.py:3", "", 1, 64, 90.0, 0.1)
    html = ProcessReport((KernelHistory("fill", (verdict,)),))._repr_html_()
    assert "fill" in html and "not specialised" in html and Page(html).faults == [] and len(html) < 2_000
    assert "No kernel was compiled." in ProcessReport(())._repr_html_()
