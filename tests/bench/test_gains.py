"""The tables of what users gain: ratios, misses, and runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import gains
from bench.gains import Gain
from bench.harness import Row


def test_a_line_counts_the_misses_and_says_what_the_worst_lacks() -> None:
    found = [Gain("pack: a", 2.0), Gain("pack: b", 0.5, "warps"), Gain("pack: c", 0.98, "registers")]
    assert gains._line("kernels", found, "H200", "pack") == (
        "kernels", "3", "0.99", "0.50", "1", "b: warps", "H200"
    )  # fmt: skip


def test_what_is_no_miss_lacks_nothing() -> None:
    assert gains._line("kernels", [Gain("a", 1.0, "warps")], "H200")[5] == "a"


def test_of_two_runs_only_that_of_the_date_is_named() -> None:
    earlier = {"device": "NVIDIA H100 80GB HBM3", "date": "2026-11-20T10:00", "versions": {"tawa": "0.1.0"}}
    about = {"device": "NVIDIA H200", "date": "2026-11-22T10:00", "versions": {"tawa": "0.2.0"}, "earlier": [earlier]}
    assert gains._measured(about, "2026-11-20T10:00") == "H100, Tawa 0.1.0, 2026-11-20"
    assert gains._measured(about) == "H100 and H200, Tawa 0.1.0 and 0.2.0, 2026-11-20 to 2026-11-22"


def test_a_step_that_was_not_timed_shows_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = {"model": "GLA", "package": "fla 1", "kind": "training", "layers": 1, "sequences": 2, "tokens": 3}
    rows = [Row(case, "stock", 2.0, 2.0, 2.0), Row(case, "Tawa, installed", error="OutOfMemoryError")]
    about = {"device": "NVIDIA H200", "date": "2026-11-22", "versions": {"tawa": "0.2.0"}}
    (tmp_path / "decoder.json").write_text(json.dumps({**about, "rows": [_plain(row) for row in rows]}))
    monkeypatch.setattr(gains, "RESULTS", tmp_path)
    assert "| Tawa, installed | – | – | OutOfMemoryError |" in gains.models()[3]


def _plain(row: Row) -> dict[str, object]:
    return {name: getattr(row, name) for name in ("case", "candidate", "median_ms", "p10_ms", "p90_ms", "error")}
