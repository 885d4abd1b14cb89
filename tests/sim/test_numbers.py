"""Rounding is that of the hardware, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.sim import from_floats, to_floats
from tawa.sim.numbers import cut_to_tf32, round_to, wrap
from tawa.sim.ops.constants import constant

FP8 = ["f8E4M3FN", "f8E5M2"]
NARROW = [*FP8, "bf16", "f16"]


@pytest.mark.parametrize("element", FP8)
def test_every_fp8_code_survives_a_round_trip(element: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    values = to_floats(codes, element)
    finite = np.isfinite(values)
    assert (from_floats(values, element)[finite] == codes[finite]).all()
    assert finite.sum() == {"f8E4M3FN": 254, "f8E5M2": 248}[element]


@pytest.mark.parametrize("element", NARROW)
def test_every_16_bit_or_8_bit_number_is_its_own_rounding(element: str) -> None:
    bits = np.arange(65536, dtype=np.uint16) if "16" in element else np.arange(256, dtype=np.uint8)
    values = to_floats(bits, element)
    finite = np.isfinite(values)
    assert (round_to(values, element)[finite] == values[finite]).all()


@pytest.mark.parametrize("element", NARROW)
def test_what_lies_between_goes_to_the_nearest_and_a_tie_to_the_even_one(element: str) -> None:
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


def test_known_codes() -> None:
    assert from_floats(np.array([1.0, -2.0, 448.0, 0.001953125]), "fp8e4nv").tolist() == [0x38, 0xC0, 0x7E, 0x01]
    assert from_floats(np.array([1.0, -2.0, 57344.0]), "fp8e5").tolist() == [0x3C, 0xC0, 0x7B]
    assert from_floats(np.array([1.0, -2.0, 3.140625]), "bf16").tolist() == [0x3F80, 0xC000, 0x4049]


@pytest.mark.parametrize(("element", "largest"), [("f8E4M3FN", 448.0), ("f8E5M2", 57344.0)])
def test_fp8_saturates_and_keeps_nan(element: str, largest: float) -> None:
    rounded = round_to(np.array([1e9, -np.inf, np.nan], np.float32), element)
    assert rounded[:2].tolist() == [largest, -largest] and np.isnan(rounded[2])


def test_fp16_and_bf16_overflow_to_infinity() -> None:
    assert round_to(65520.0, "f16") == np.inf
    assert round_to(np.float32(3.4e38), "bf16") == np.inf


def test_tf32_is_cut_off_not_rounded() -> None:
    one = np.float32(1)
    assert cut_to_tf32(np.nextafter(np.float32(1 + 2.0**-10), one)) == one
    assert cut_to_tf32(np.float32(-1.75)) == np.float32(-1.75)


def test_integers_wrap() -> None:
    assert (wrap(2**31, "i32"), wrap(-1, "i1"), wrap(2**40 + 3, "i32")) == (-(2**31), 1, 3)


def test_constants_are_read_as_mlir_spells_them() -> None:
    assert constant("0xFF800000 : f32", "f32") == -np.inf
    assert constant("-7 : i32", "i32") == -7
    assert constant("true", "i1") == 1
    tile = constant("dense<0xFF800000> : tensor<2x4xf32, #mma>", "tensor<2x4xf32, #mma>")
    assert tile.shape == (2, 4) and (tile == -np.inf).all()
    assert constant("dense<[1, 2]> : tensor<2xi32>", "tensor<2xi32>").tolist() == [1, 2]
