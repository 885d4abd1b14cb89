"""Statuses, summaries and tables out of answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.corpus.report.page import (
    NOTHING,
    entries_table,
    reasons_table,
    render,
    render_file,
)
from bench.corpus.report.result_file import from_rows, rows_of
from bench.corpus.report.results import Result, Verdict, geomean, judge, right
from bench.corpus.report.summary import summarise

ABOUT: dict[str, Any] = {"package": "pack", "name": "gemm", "shape": {"M": 64}, "backward": False}
APPLIED = Verdict("gemm", True, "one producer", None, 1, 1)
DECLINED = Verdict("fill", False, "no tl.dot in the kernel", "pack/fill.py:7", 1, 1)


def result(stock_ms: float = 0.0, tawa_ms: float = 0.0, status: str = "ok", **more: Any) -> Result:
    times = {"stock": (stock_ms, stock_ms, stock_ms), "tawa": (tawa_ms, tawa_ms, tawa_ms)} if stock_ms else {}
    kernels = more.pop("kernels", {"tawa": (APPLIED, DECLINED), "legal": (APPLIED,)})
    return Result(**ABOUT, status=status, times=times, kernels=kernels, **more)


@pytest.mark.parametrize(
    ("error", "stock", "bits", "wanted"),
    [
        (1.0, 0.1, False, True),
        (1.01, 0.1, False, False),
        (None, 0.1, False, False),  # infinite
        (2.1, 2.0, False, True),  # stock misses the tolerance too
        (2.3, 2.0, False, False),
        (1.01, None, False, False),
        (None, None, True, True),  # stock's very bits
    ],
)
def test_right_is_within_the_tolerance_or_no_worse_than_stock(error: Any, stock: Any, bits: bool, wanted: bool) -> None:
    assert right(error, stock, bits) is wanted


def test_a_tolerance_that_stock_misses_is_said_and_is_not_tawas_fault() -> None:
    modes = {mode: {"worst": 2.0, "peak": 1.0, "equal_bits": True, "kernels": []} for mode in ("stock", "tawa")}
    found = judge(ABOUT, {"status": "done", "modes": modes}, "")
    assert found.status == "ok"
    assert "stock Triton itself" in found.message


def test_a_configuration_that_is_off_is_wrong_though_it_was_not_chosen() -> None:
    fine = {"worst": 0.1, "peak": 1.0, "equal_bits": True, "kernels": []}
    off = {**fine, "compared": 7, "off": ["gemm with BLOCK: 64 moves from run to run"]}
    found = judge(ABOUT, {"status": "done", "modes": {"stock": fine, "tawa": off}}, "")
    assert (found.status, found.message, found.compared) == ("wrong", off["off"][0], 7)
    assert from_rows(rows_of(replace(found, kernels={"tawa": (APPLIED,)})))[0].compared == 7


def test_wrong_in_a_mode_that_is_not_the_default_is_wrong() -> None:
    fine = {"worst": 0.1, "peak": 1.0, "equal_bits": True, "kernels": []}
    modes = {"stock": fine, "tawa": fine, "legal": {**fine, "worst": None, "equal_bits": False}}
    found = judge(ABOUT, {"status": "done", "modes": modes}, "")
    assert found.status == "wrong"
    assert found.message == "in legal: error infinite of the tolerance"


@pytest.mark.parametrize(("peak", "status"), [(3.9, "ok"), (4.1, "wrong"), (None, "wrong")])
def test_one_element_far_off_is_wrong_however_good_the_mean_is(peak: Any, status: str) -> None:
    fine = {"worst": 0.1, "peak": 1.0, "equal_bits": True, "kernels": []}
    modes = {"stock": fine, "tawa": {**fine, "peak": peak, "equal_bits": False}}
    assert judge(ABOUT, {"status": "done", "modes": modes}, "").status == status


def test_the_mean_speedup_is_over_what_is_specialised_and_the_worst_over_all() -> None:
    declined = {"tawa": (DECLINED,), "legal": (APPLIED,)}
    found = summarise([result(2.0, 1.0), result(1.0, 2.0), result(1.0, 1.25, kernels=declined), result()])
    assert found.geomean == pytest.approx(1.0)
    assert found.worst == pytest.approx(0.5)
    assert (found.applied, found.legal, found.entries) == (3, 4, 4)
    assert not found.met()


@pytest.mark.parametrize("status", ["wrong", "crashed", "hung"])
def test_no_speed_makes_up_for_a_fault(status: str) -> None:
    assert summarise([result(2.0, 1.0)]).met()
    assert not summarise([result(2.0, 1.0), result(status=status)]).met()
    assert geomean([]) is None


def test_reasons_that_differ_in_numbers_only_are_counted_together() -> None:
    reasons = ["not expected to pay: 1 CTA would share", "not expected to pay: 3 CTAs would share"]
    verdicts = tuple(Verdict(f"k{at}", False, reason, None, 1, 1) for at, reason in enumerate(reasons))
    table = reasons_table([result(kernels={"tawa": (*verdicts, DECLINED)})])
    assert table.splitlines()[2].startswith("| 2 | not expected to pay: 1 CTA would share | pack: k0")


def test_a_reason_has_its_numbers_and_no_path() -> None:
    path = Verdict("k", False, "the load at /home/me/pack/gemm.py:151 may read 4 bytes", None, 1, 1)
    assert "| 1 | the load at … may read 4 bytes | pack: k |" in reasons_table([result(kernels={"tawa": (path,)})])


def test_the_page_holds_every_entry(tmp_path: Path) -> None:
    about = {
        "device": "NVIDIA H200",
        "driver": "570",
        "versions": {"torch": "2.11", "triton": "3.6.0", "tawa": "0.1.0"},
        "date": "2026-01-02T03:04:05+00:00",
        "configs": "all",
    }
    errors = {"stock": 0.2, "tawa": 0.25, "legal": None}
    bad = result(status="crashed", errors=errors, equal_bits={"tawa": False}, message="in legal: a | b")
    text = render(about, [result(2.0, 1.0), bad])
    assert "| gemm | M 64 | 1 of 2 |  |" in text  # the one without a dot needs no reason
    assert "| 2.000 / 1.000 | 2.00 |" in text
    assert "0.2 / 0.25 / ∞ | other |" in text
    assert "crashed: in legal: a \\| b" in text
    assert render_file(tmp_path / "none.json") == NOTHING


def test_an_entry_says_why_its_kernels_are_declined() -> None:
    why = Verdict("sum", False, "the loop at /home/me/pack/sum.py:7 has 3 ways out", None, 1, 1)
    text = entries_table([result(kernels={"tawa": (APPLIED, DECLINED, why)})])
    assert "| 1 of 3 | sum: the loop at … has 3 ways out |" in text
