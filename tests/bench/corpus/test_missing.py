"""What the most expensive kernels lack, from times and verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.corpus.report.missing import figures, missing, render, verdicts
from bench.harness import Row

CASE: dict[str, Any] = {
    "case": "pack: gemm M=64", "kernel": "gemm", "num_warps": 4, "stock_us": 20.0, "best": "persistent", "gain": 1.2,
    "warps_of_an_sm": [8, 8], "spilled": 0, "busy_us": {"latency": 9.0, "memory": 12.0},
    "verdicts": {"tawa": ["specialised"], "legal": ["specialised"]},
}  # fmt: skip


def case(**changed: Any) -> dict[str, Any]:
    return {**CASE, **changed}


def test_what_a_kernel_lacks_is_the_first_thing_in_its_way() -> None:
    assert missing(case()) == ""
    declined = {"tawa": ["barrier"], "legal": ["barrier"]}
    assert missing(case(verdicts=declined)) == "legality: barrier"
    assert missing(case(verdicts={"tawa": ["predicted-slower"], "legal": ["specialised"]})) == "choice"
    assert missing(case(gain=0.9, spilled=40)) == "registers"
    assert missing(case(gain=0.9, warps_of_an_sm=[8, 4])) == "warps"
    assert missing(case(gain=0.9)) == "a faster form"
    assert missing(case(gain=None)) == "a form"


def test_verdicts_are_the_ids_of_reasons_by_entry_kernel_and_mode(tmp_path: Path) -> None:
    told = [{"kernel": "gemm", "applied": applied, "reason": reason} for applied, reason in (
        (False, "the dot is not in a loop: there is no next tile to load meanwhile"), (True, "one producer"),
        (True, "one producer feeds two"),
    )]  # fmt: skip
    row = {"candidate": "tawa", "case": {"package": "pack", "entry": "gemm", "shape": {"M": 64}, "kernels": told}}
    crashed = {"candidate": "tawa", "case": {"package": "pack", "entry": "gemm", "shape": {"M": 128}}}
    file = tmp_path / "verdicts.jsonl"
    file.write_text(f"{json.dumps(row)}\n{json.dumps(crashed)}\n")
    assert verdicts(file) == {"tawa": {("pack: gemm M=64", "gemm"): ["dot-outside-loops", "specialised"]}}


def test_the_page_shows_kernels_that_lack_something() -> None:
    rows = [Row({**it, "missing": missing(it)}, "form") for it in (case(kernel="fast"), case(kernel="slow", gain=0.5))]
    text = render(rows)
    assert "`slow`" in text and "`fast`" not in text and "| memory |" in text


def test_gains_are_averaged_by_the_warps_that_compute() -> None:
    cases = [case(gain=2.0), case(gain=0.5, warps_of_an_sm=[8, 4]), case(gain=30.0), case(gain=0.1, spilled=4)]
    rows = [Row({**it, "missing": ""}, "form") for it in cases]
    assert figures(rows) == {"timed": "4", "latency": "0", "as_many": "2.00", "fewer": "0.50"}
