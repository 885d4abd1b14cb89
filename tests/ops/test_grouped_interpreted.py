"""Grouped products and mixtures of experts on the CPU, through Triton's interpreter: numbers without a GPU."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.ops import interpreted_grouped
from tests.ops.test_attention_interpreted import failures, pytestmark

__all__ = ["pytestmark"]


@pytest.mark.parametrize("name", interpreted_grouped.ALL)
@pytest.mark.parametrize("table", ["hopper", "elsewhere"])
def test_an_interpreted_product_gives_the_right_numbers(table: str, name: str) -> None:
    assert failures("interpreted_grouped")[table, name] == ""
