"""Pieces of the table that an explanation prints."""

from __future__ import annotations

import pytest
from rich.text import Text

from tawa.plan import RingPlan
from tawa.plan.reasons import Decision
from tawa.runtime.explain.table import as_text, plan_table, plural


def test_the_tile_of_a_buffer_is_its_shape_and_element_type() -> None:
    ring = RingPlan("ring0", ("!ttg.memdesc<128x64xf16, #shared, #smem>", "scalar"), 3)
    assert ring.tiles == ("128x64xf16", "scalar")


def test_one_is_singular() -> None:
    assert [plural(count, "warp") for count in (0, 1, 2)] == ["0 warps", "1 warp", "2 warps"]


def test_text_has_no_colours_and_no_trailing_space() -> None:
    assert as_text(Text("bold", style="bold red")) == "bold"


def test_text_is_text_in_a_notebook_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert as_text(Text("plain")) == "plain"


def test_decisions_with_the_same_value_and_reason_share_a_row() -> None:
    same = [Decision(f"operands.{name}", "tma", "planner", "boxes") for name in ("a", "b")]
    text = as_text(plan_table([*same, Decision("groups", "2", "user", "")]))
    rows = [line for line in text.splitlines() if "tma" in line or "operands" in line]
    assert len(rows) == 2 and sum("tma" in row for row in rows) == 1
