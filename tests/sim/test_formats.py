"""Conversion of fp8 and bf16 arrays to and from floats."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.sim import from_floats, to_floats

FP8 = ["f8E4M3FN", "f8E5M2"]


@pytest.mark.parametrize("element", FP8)
def test_every_fp8_code_survives_a_round_trip(element: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    values = to_floats(codes, element)
    finite = np.isfinite(values)
    assert (from_floats(values, element)[finite] == codes[finite]).all()
    assert finite.sum() == {"f8E4M3FN": 254, "f8E5M2": 248}[element]


def test_known_codes() -> None:
    assert from_floats(np.array([1.0, -2.0, 448.0, 0.001953125]), "fp8e4nv").tolist() == [0x38, 0xC0, 0x7E, 0x01]
    assert from_floats(np.array([1.0, -2.0, 57344.0]), "fp8e5").tolist() == [0x3C, 0xC0, 0x7B]
    assert from_floats(np.array([1.0, -2.0, 3.140625]), "bf16").tolist() == [0x3F80, 0xC000, 0x4049]
