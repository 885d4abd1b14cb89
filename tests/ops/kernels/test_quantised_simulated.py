"""The specialised kernels of scaled, batched and weight-only products are right on NumPy data, in the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.ops.products import tile_choice
from tests.cases.arrays import make_arrays
from tests.ops.kernels.quantised_cases import (
    SPAN,
    batched_case,
    floats,
    foreign_case,
    run_simulated,
    scaled_case,
    weights_case,
)
from tests.support.sample import sample


def near(found: Any, exact: Any, tolerance: float) -> None:
    assert np.abs(found - exact).max() <= tolerance * np.abs(exact).max()


SCALES = [(2, 3, True), (2, 3, False), (0, 3, False), (2, 2, False), (2, 2, True), (1, 1, False)]
"""Kinds of A and B, and whether scales of neighbouring rows of A are neighbours."""


@pytest.mark.parametrize(("of_a", "of_b", "unit"), [SCALES[0], *sample(SCALES[1:], 3)], ids=str)
@pytest.mark.parametrize(("number", "K"), [(0, 272), (0, 784), (1, 272)])
def test_scaled_products_are_right(number: int, K: int, of_a: int, of_b: int, unit: bool) -> None:
    kinds, tile = (of_a, of_b), tile_choice.SCALED_BLOCKS[number]
    case = scaled_case(tile, kinds, (136, 160, K), bias=number == 1, out="fp32", tma=number == 0, unit=unit)
    arrays = make_arrays(case)
    run_simulated(case, arrays)
    if unit:
        arrays["scale_a"] = arrays["scale_a"].T[: case.shape("a")[0]]
    wide: list[Any] = []
    for name, kind in zip("ab", kinds, strict=True):
        values, scale = floats(arrays[name], "fp8e4nv"), arrays[f"scale_{name}"].astype(np.float64)
        rows, columns = values.shape
        scale = np.repeat(scale, SPAN, 0)[:rows] if kind == 3 else np.broadcast_to(scale, (rows, scale.shape[1]))
        wide.append(values * (np.repeat(scale, SPAN, 1)[:, :columns] if kind >= 2 else scale))
    near(arrays["c"], wide[0] @ wide[1].T + (arrays["bias"] if number == 1 else 0.0), 1e-5)


@pytest.mark.parametrize("rows", [(True, True), (False, True), (True, False)], ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [("bf16", 5e-3), ("fp32", 2e-3)])
def test_batched_products_are_right(dtype: str, tolerance: float, rows: tuple[bool, bool]) -> None:
    if dtype == "fp32":
        rows = True, False
    tile = (tile_choice.BATCHED_TF32 if dtype == "fp32" else tile_choice.BATCHED)[1]
    case = batched_case(tile, dtype, rows, one=not rows[0])
    arrays = make_arrays(case)
    run_simulated(case, arrays)
    a, b = (floats(arrays[name], dtype) for name in "ab")
    a, b = (x if plain else x.swapaxes(1, 2) for x, plain in zip((a, b), rows, strict=True))
    near(floats(arrays["c"], dtype), a @ b, tolerance)


def numbers_of(case: Any, high: int) -> tuple[dict[str, Any], Any]:
    """Arrays of a case, with random words and whole zeros below `high`; and the random generator."""
    arrays, random = make_arrays(case), np.random.default_rng(3)
    arrays["w"] = random.integers(-(2**31), 2**31, case.shape("w")).astype(np.int32)
    if arrays["zeros"].dtype == np.int32:
        arrays["zeros"] = random.integers(-(2**31), 2**31, case.shape("zeros")).astype(np.int32)
    else:
        arrays["zeros"] = random.integers(0, high, case.shape("zeros")).astype(arrays["zeros"].dtype)
    arrays["scales"] = (0.5 + random.random(case.shape("scales"))).astype(np.float16)
    return arrays, random


@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.parametrize(("bits", "span"), sample([(4, 128), (4, 32), (8, 128)], 3))
def test_weights_in_few_bits_are_right(bits: int, span: int, splits: int) -> None:
    case = weights_case(tile_choice.WEIGHTS[0], int(bits == 8), sizes=(20, 72, 1040), span=span, splits=splits)
    arrays, _ = numbers_of(case, 1 << bits)
    run_simulated(case, arrays)
    planes, K = 16 // bits, 1040
    words = arrays["w"].view(np.uint32).reshape(72, -1, 32)
    codes = [
        np.stack([(words >> (16 * half + bits * plane)) & ((1 << bits) - 1) for half in range(2)], 3)
        for plane in range(planes)
    ]
    codes = np.stack(codes, 2).reshape(72, -1)[:, :K].astype(np.float64)
    check_weights(arrays, codes, arrays["zeros"].astype(np.float64), span)
    assert not arrays["semaphores"].any()


@pytest.mark.parametrize("awq", [False, True], ids=["gptq", "awq"])
@pytest.mark.parametrize("splits", [1, 2])
def test_weights_as_gptq_and_awq_pack_them_are_right(awq: bool, splits: int) -> None:
    case = foreign_case(tile_choice.WEIGHTS[0], awq, splits=splits)
    arrays, _ = numbers_of(case, 16)
    run_simulated(case, arrays)
    places = (0, 4, 1, 5, 2, 6, 3, 7) if awq else range(8)

    def along(words: Any, axis: int) -> Any:
        parts = [(words.view(np.uint32) >> (4 * place)) & 15 for place in places]
        shape = [size * (8 if at == axis else 1) for at, size in enumerate(words.shape)]
        return np.stack(parts, axis + 1).reshape(shape).astype(np.float64)

    check_weights(arrays, along(arrays["w"], 1 if awq else 0).T, along(arrays["zeros"], 1), SPAN)


def check_weights(arrays: dict[str, Any], codes: Any, zeros: Any, span: int) -> None:
    group = np.arange(codes.shape[1]) // span
    weights = (codes - zeros.T[:, group]) * arrays["scales"].astype(np.float64).T[:, group]
    exact = arrays["x"].astype(np.float64) @ weights.T
    rounded = (arrays["x"].astype(np.float64) @ weights.astype(np.float16).astype(np.float64).T).astype(np.float16)
    allowed = 2 * np.abs(rounded - exact).max()
    assert np.abs(arrays["y"].astype(np.float64) - exact).max() <= allowed
