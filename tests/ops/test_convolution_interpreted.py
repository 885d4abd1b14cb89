"""The launches of `tawa.ops.conv2d` on the CPU, through Triton's interpreter: numbers without a GPU."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.ops import interpreted_convolution
from tests.ops.test_attention_interpreted import failures, pytestmark  # noqa: F401

PROBLEMS = [(name, kind) for name in interpreted_convolution.CASES for kind in interpreted_convolution.kinds_of(name)]


@pytest.mark.parametrize(("name", "kind"), PROBLEMS)
def test_an_interpreted_convolution_gives_the_right_numbers_in_every_form(name: str, kind: str) -> None:
    assert failures("interpreted_convolution")[name, f"{kind} float16"] == ""


@pytest.mark.parametrize("name", interpreted_convolution.IN_TF32)
def test_an_interpreted_convolution_of_float32_gives_the_right_numbers(name: str) -> None:
    kind = interpreted_convolution.KINDS[list(interpreted_convolution.CASES).index(name) % 2]
    assert failures("interpreted_convolution")[name, f"{kind} float32"] == ""


@pytest.mark.parametrize("name", interpreted_convolution.GRADIENTS)
def test_interpreted_gradients_are_right(name: str) -> None:
    assert failures("interpreted_convolution")[name, "gradients"] == ""
