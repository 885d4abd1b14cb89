"""What launches have learned, among the choices that the report judges."""

from __future__ import annotations

import pytest

from bench.regret import command
from bench.regret.report import groups_of_rows


def test_a_choice_that_is_slower_than_stock_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    times = {"a": (1.0, 1.05), "b": (1.0, 0.8), "c": (1.0, 1.0)}
    rows = [
        {"candidate": name, "median_ms": ms, "case": {"kernel": kernel, "case": kernel}}
        for kernel, (stock, learned) in times.items()
        for name, ms in (("stock", stock), ("learned", learned), ("model 1: best", 0.8))
    ]
    command.print_report(groups_of_rows("own", rows))
    told = capsys.readouterr().out
    assert "learned: 1 of 3 below 0.98 of stock Triton, the worst at 0.952" in told
    own = next(line for line in told.splitlines() if line.startswith("own"))
    assert own.split()[-3:-1] == ["1.179", "1.312"]  # the geometric mean of 1.3125, 1 and 1.25, and the worst
