"""Rounding is that of the hardware, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.sim import to_floats
from tawa.sim.numbers import round_to, truncate_to_tf32, wrap

FP8 = ["f8E4M3FN", "f8E5M2"]

NARROW = [*FP8, "bf16", "f16"]


@pytest.mark.parametrize("element", NARROW)
def test_rounding_keeps_every_representable_number(element: str) -> None:
    bits = np.arange(65536, dtype=np.uint16) if "16" in element else np.arange(256, dtype=np.uint8)
    values = to_floats(bits, element)
    finite = np.isfinite(values)
    assert (round_to(values, element)[finite] == values[finite]).all()


@pytest.mark.parametrize("element", NARROW)
def test_rounding_is_to_nearest_and_ties_to_even(element: str) -> None:
    count = 0x7B00 if element == "f16" else 0x7F00 if element == "bf16" else 0x77
    bits = np.arange(count, dtype=np.uint16 if "16" in element else np.uint8)
    low = to_floats(bits, element).astype(np.float64)
    high = to_floats(bits + bits.dtype.type(1), element).astype(np.float64)
    keep = low >= np.finfo(np.float32).tiny  # below, float32 cannot hold the middle of two bf16 numbers
    low, high, bits = low[keep], high[keep], bits[keep]
    middle = (low + high) / 2
    below, above = (middle * (1 - 2.0**-23), middle * (1 + 2.0**-23))
    assert (round_to(middle, element) == np.where(bits % 2 == 0, low, high)).all()
    assert (round_to(below, element) == low).all()
    assert (round_to(above, element) == high).all()


@pytest.mark.parametrize(("element", "largest"), [("f8E4M3FN", 448.0), ("f8E5M2", 57344.0)])
def test_fp8_saturates_and_keeps_nan(element: str, largest: float) -> None:
    rounded = round_to(np.array([1e9, -np.inf, np.nan], np.float32), element)
    assert rounded[:2].tolist() == [largest, -largest] and np.isnan(rounded[2])


def test_fp16_and_bf16_overflow_to_infinity() -> None:
    assert round_to(65520.0, "f16") == np.inf
    assert round_to(np.float32(3.4e38), "bf16") == np.inf


def test_tf32_is_truncated_not_rounded() -> None:
    one = np.float32(1)
    assert truncate_to_tf32(np.nextafter(np.float32(1 + 2.0**-10), one)) == one
    assert truncate_to_tf32(np.float32(-1.75)) == np.float32(-1.75)


def test_integers_wrap() -> None:
    assert (wrap(2**31, "i32"), wrap(-1, "i1"), wrap(2**40 + 3, "i32")) == (-(2**31), 1, 3)
