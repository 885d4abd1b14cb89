"""Scaled, batched and weight-only products on the CPU, through Triton's interpreter: numbers without a GPU."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.ops import interpreted_quantised
from tests.ops.test_attention_interpreted import failures, pytestmark

__all__ = ["pytestmark"]


@pytest.mark.parametrize("name", interpreted_quantised.ALL)
@pytest.mark.parametrize("table", ["hopper", "elsewhere"])
def test_an_interpreted_product_gives_the_right_numbers(table: str, name: str) -> None:
    assert failures("interpreted_quantised")[table, name] == ""
