"""The launches of matrix products on the CPU, through Triton's interpreter."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.ops import interpreted_products
from tests.ops.test_attention_interpreted import failures, pytestmark  # noqa: F401

CASES = [
    *interpreted_products.CASES,
    *interpreted_products.LAYOUTS,
    *(f"gradients_{it}" for it in interpreted_products.ACTIVATIONS),
]


@pytest.mark.parametrize("name", CASES)
def test_an_interpreted_product_gives_the_right_numbers(name: str) -> None:
    assert failures("interpreted_products")["products", name] == ""
