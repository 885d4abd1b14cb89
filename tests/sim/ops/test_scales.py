"""Scaled operands: the numbers of a row times the scales of their blocks, and scales in the order of tcgen05.cp."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.ir import MemDescType
from tawa.sim import to_floats
from tawa.sim.errors import UnsupportedOp
from tawa.sim.machine.values import Buffer, SharedView
from tawa.sim.ops.scales import rows_of, scaled

E4M3, E2M1 = 0, 4
FP4 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def view(bits: np.ndarray, element: str) -> SharedView:
    state = np.ones(bits.shape, np.uint32)
    return SharedView(Buffer("x", bits, state), bits, state, MemDescType(bits.shape, element, "#shared"), "x")


def test_fp4_numbers_share_bytes_and_an_exponent_scales_32_of_them() -> None:
    low, high = np.tile(np.arange(16, dtype=np.uint8), (2, 2)), np.tile(np.arange(16, dtype=np.uint8)[::-1], (2, 2))
    exponents = np.array([[127, 128], [126, 255]], np.uint8)
    values = scaled(view(low | high << 4, "i8"), E2M1, view(exponents, "i8"))
    signed = np.array([*FP4, *(-it for it in FP4)])
    row = np.stack([np.tile(signed, 2), np.tile(signed[::-1], 2)], axis=-1).reshape(-1)
    assert (values[0] == np.concatenate([row[:32], 2 * row[32:]])).all()
    assert (values[1, :32] == row[:32] / 2).all() and np.isnan(values[1, 32:]).all()


def test_fp8_numbers_scale_16_of_b() -> None:
    b, scales = np.full((32, 2), 0x38, np.uint8), np.array([[0x38, 0x40], [0x3C, 0x30]], np.uint8)
    values = scaled(view(b, "f8E4M3FN"), E4M3, view(scales, "f8E4M3FN"), turned=True)
    assert (values == np.repeat(to_floats(scales, "f8E4M3FN"), 16, axis=1)).all()


def test_scales_in_blocks_have_row_32_i_plus_j_in_the_bytes_of_row_j() -> None:
    blocks = np.random.default_rng(0).integers(0, 256, (2, 1, 32, 16)).astype(np.uint8)
    rows = rows_of(view(blocks, "i8"), MemDescType((256, 4), "i8", ""))
    for row in (0, 1, 32, 127, 128, 255):
        block, i, j = row // 128, row % 128 // 32, row % 32
        assert (rows[row] == blocks[block, 0, j, 4 * i : 4 * i + 4]).all()


def test_other_forms_are_refused() -> None:
    with pytest.raises(UnsupportedOp):
        rows_of(view(np.zeros((32, 16), np.uint8), "i8"), MemDescType((64, 4), "i8", ""))
    with pytest.raises(UnsupportedOp, match="kind 2"):
        scaled(view(np.zeros((2, 32), np.uint8), "i8"), 2, view(np.zeros((2, 1), np.uint8), "i8"))
