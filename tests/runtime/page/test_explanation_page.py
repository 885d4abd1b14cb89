"""The page of a kernel: everything that the table says, nothing that is loaded, no text that becomes markup."""

from __future__ import annotations

import re

import pytest

from tawa.runtime.explain.explanation import Explanation
from tawa.runtime.explain.table import fact_rows
from tawa.sim.time.timeline import summary, waits_by_cause
from tests.runtime.page.conftest import explained, gemm, waiting
from tests.runtime.page.reading import Page

pytestmark = pytest.mark.usefixtures("without_ptx")

SECTIONS = ("facts", "source", "plan", "rings", "timeline", "memory", "candidates", "verdict", "declined")


@pytest.fixture
def page(explanation: Explanation) -> Page:
    return Page(explanation.to_html())


def spaced(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", ["gemm", "blackwell", "declined"])
def test_a_page_is_well_formed_and_loads_nothing(name: str) -> None:
    text = explained(name).to_html()
    found = Page(text)
    assert found.faults == [] and found.loads == []
    assert "@import" not in text and not re.search(r"url\((?!#)", found.scripts["style"])
    (policy,) = [it["content"] for it in found.all("meta") if it.get("http-equiv") == "Content-Security-Policy"]
    assert str(policy).startswith("default-src 'none';")


def test_a_page_is_smaller_than_a_megabyte(explanation: Explanation) -> None:
    assert len(explanation.to_html().encode()) < 1_000_000


def test_a_page_has_all_sections_in_their_order(page: Page) -> None:
    assert tuple(page.sections) == SECTIONS
    assert [it["href"] for it in page.all("a")] == [f"#{name}" for name in SECTIONS]


def test_a_page_says_what_the_table_says(explanation: Explanation, page: Page) -> None:
    for name, value in fact_rows(explanation):
        assert name in page.sections["facts"] and spaced(value) in spaced(page.sections["facts"])
    for it in explanation.decisions:
        for text in (it.field, it.value, it.by, it.reason):
            assert spaced(text) in spaced(page.sections["plan"])


def test_source_text_does_not_become_markup(explanation: Explanation, page: Page) -> None:
    assert '# </script><b>"bold" & co</b>' in page.sections["source"]
    assert '<b>"bold"' not in explanation.to_html()
    assert len(list(page.all("script"))) == 3


def test_each_line_has_the_colours_of_its_partitions(explanation: Explanation, page: Page) -> None:
    (function,) = explanation.source
    work = {it.text.strip(): it.work for it in function.lines}
    dot = work["acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)"]
    assert dot["producer"] == ("numbers", "barrier", "TMA copy") and "matrix multiply" in dot["consumer"]
    assert set(work["c.store([m, n], acc.to(tl.float16))"]) == {"consumer"}
    assert work["acc = tl.zeros((BM, BN), dtype=tl.float32)"] == {}
    lines = {it["data-line"]: it.get("style") for it in page.all("li") if "data-line" in it}
    assert len(lines) == len(function.lines) == gemm.src.count("\n") + 1
    colours = {it.text.strip(): lines[f"{function.file}:{it.number}"] for it in function.lines}
    assert (
        colours["acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)"] == "--from: var(--consumer); --to: var(--producer)"
    )
    assert colours["acc = tl.zeros((BM, BN), dtype=tl.float32)"] is None


def test_a_blackwell_kernel_has_the_partition_that_issues_dots() -> None:
    seen = explained("blackwell")
    (function,) = seen.source
    dot = next(it.work for it in function.lines if "tl.dot" in it.text)
    assert "matrix multiply" in dot["mma"] and "TMA copy" in dot["producer"]
    ends = {it.name: (it.writers, it.readers) for it in seen.ring_ends}
    assert ends == {"ring0": (("producer",), ("mma",)), "tensor0": (("mma",), ("consumer",))}
    assert seen.candidates.predicted == ()  # the model knows Hopper only
    assert "Nothing is predicted" in Page(seen.to_html()).sections["candidates"]


def test_a_ring_is_drawn_with_its_slots_and_who_waits(explanation: Explanation, page: Page) -> None:
    (ring,) = explanation.rings
    (ends,) = explanation.ring_ends
    assert (ends.name, ends.slots, ends.slot_bytes) == (ring.name, ring.depth, ring.slot_bytes)
    assert (ends.writers, ends.readers) == (("producer",), ("consumer",))
    text = spaced(page.sections["rings"])
    assert f"consumer waits until a slot is full: 1 arrival, {ring.slot_bytes} bytes." in text
    assert "producer waits until a slot is empty: 1 arrival." in text


def test_the_timelines_on_a_page_are_those_of_the_explanation(explanation: Explanation, page: Page) -> None:
    panels = page.data["charts"]["timeline"]["panels"]
    assert [title for title, _ in explanation.timelines] == ["stock Triton", "Tawa"] and len(panels) == 2
    for (title, timeline), panel in zip(explanation.timelines, panels, strict=True):
        busy = summary(timeline).tensor_core_busy
        assert panel["title"] == f"{title}: {timeline.cycles:,} cycles, tensor cores busy {busy:.0%}"
        assert panel["rows"] == list(timeline.rows) and len(panel["spans"]) == len(timeline.spans)
        for row, causes in waits_by_cause(timeline).items():
            assert row in page.sections["timeline"]
            assert all(cause in page.sections["timeline"] for cause in causes)
    assert (
        "Guessed: 2048 for each size and number that is not given (a, b, c, K), 1056 programs."
        in page.sections["timeline"]
    )


def test_waits_by_cause_add_up_to_the_share_of_the_summary(explanation: Explanation) -> None:
    for _, timeline in explanation.timelines:
        shares = {row: sum(it.values()) / timeline.cycles for row, it in waits_by_cause(timeline).items()}
        assert shares == pytest.approx(summary(timeline).waiting)


def test_candidates_are_those_that_the_choice_of_a_launch_sees(explanation: Explanation, page: Page) -> None:
    predicted = explanation.candidates.predicted
    assert predicted[0].words == "stock Triton" and [it.compiled for it in predicted].count(True) == 1
    assert {it.words for it in predicted} >= {"as written, 1 group", "persistent, 1 group"}
    chart = page.data["charts"]["predicted"]
    assert [it["values"] for it in chart["series"]] == [
        [one.times_us[size] for one in predicted] for size in predicted[0].times_us
    ]


def test_memory_adds_up(explanation: Explanation, page: Page) -> None:
    parts = page.data["charts"]["shared"]["series"]
    assert sum(it["values"][0] for it in parts) == explanation.shared_bytes
    assert f"{explanation.rings[0].total_bytes:,} bytes" in page.sections["memory"]


def test_a_declined_kernel_shows_reason_and_cure_at_its_line() -> None:
    seen = explained("declined")
    page = Page(seen.to_html())
    assert not seen.applied and seen.location is not None
    assert tuple(page.sections) == tuple(it for it in SECTIONS if it not in ("plan", "rings"))
    (marked,) = [it["data-line"] for it in page.all("li") if it.get("class") == "marked"]
    assert marked == seen.location
    assert seen.reason in page.sections["source"] and seen.cure in spaced(page.sections["declined"])
    assert [it.name for it in seen.source] == [waiting.__name__]
    assert [title for title, _ in seen.timelines] == ["stock Triton"]


def test_a_refuted_protocol_has_its_run_step_by_step(refuted: Explanation) -> None:
    page = Page(refuted.to_html())
    assert refuted.verdict is not None
    steps = refuted.verdict["witness"]["steps"]
    assert page.faults == [] and page.data["steps"] == steps and len(steps) > 10
    text = page.sections["verdict"]
    assert "refuted" in text and refuted.verdict["message"] in spaced(text)
    assert "partition0 (producer)" in text and "default (consumer)" in text
    assert [it.name for it in refuted.source] == ["gemm", "consumer", "producer"]
    release = next(it for it in refuted.source[1].lines if "ring.consumed" in it.text)
    assert set(release.work) == {"consumer"}
    assert "the simulator cannot run the program" in page.sections["timeline"]
