"""Addresses that are not boxes: partial or repeated wraparound, masks of other iterations, 64-bit and 8-bit offsets."""

# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from tawa.symbolic.host.expr import Number
from tests.matrix.promoting import Launch, promoted, same_bits

BLOCKS = {"BM": 32, "BN": 16, "BK": 16}
TWICE, OTHERS, MASKED, BESIDE = range(4)


@triton.jit
def wrapped(
    a_ptr, b_ptr, c_ptr, M, L, stride, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FORM: tl.constexpr
):  # fmt: skip
    """Sums over all rows of a product, so that every row affects the result. FORM: which rows are read."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    ks = tl.arange(0, BK)
    inside = tl.full((BM,), 1, tl.int1)
    at = rows * stride
    if FORM == 0:
        at = ((rows % M) % L) * stride
    if FORM == 1:
        at = tl.where(tl.where(rows < M, rows, 1000) < L, rows, 0) * stride
    if FORM == 2:
        inside = rows % M < M
    if FORM == 3:
        at = (rows % M) * stride + rows * 16
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, 32, BK):
        a = tl.load(a_ptr + at[:, None] + (k + ks)[None, :], mask=inside[:, None], other=0.0)
        b = tl.load(b_ptr + (k + ks)[:, None] * BN + columns[None, :])
        acc = tl.dot(a, b, acc)
    if FORM == 1:
        tl.store(c_ptr + rows[:, None] * BN + columns[None, :], acc, mask=(rows < L)[:, None])
    else:
        tl.store(c_ptr + tl.program_id(0) * BN + columns, tl.sum(acc, 0))


@triton.jit
def late(a_ptr, b_ptr, c_ptr, M, rounds, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The next iteration stores the loop-carried result, with its own mask."""
    columns = tl.arange(0, BN)
    ks = tl.arange(0, BK)
    before = tl.zeros((BM, BN), dtype=tl.float32)
    for lap in range(rounds):
        rows = ((lap + 1) % 2) * BM + tl.arange(0, BM)
        tl.store(c_ptr + rows[:, None] * BN + columns[None, :], before, mask=(rows < M)[:, None])
        before = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, 32, BK):
            a = tl.load(a_ptr + tl.where(rows < M, rows, 0)[:, None] * 32 + (k + ks)[None, :])
            b = tl.load(b_ptr + (k + ks)[:, None] * BN + columns[None, :])
            before = tl.dot(a, b, before)


@triton.jit
def wide(
    a_ptr, b_ptr, c_ptr, places_ptr, stride, many, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    FORM: tl.constexpr,
):  # fmt: skip
    """Batch offsets or a mask condition that need 64 bits."""
    z = tl.program_id(0)
    rows = tl.arange(0, BM)
    columns = tl.arange(0, BN)
    ks = tl.arange(0, BK)
    inside = rows >= 0
    place = z.to(tl.int64) * 2048
    if FORM == "far":
        place = z * 16777216
    if FORM == "memory":
        place = tl.multiple_of(tl.load(places_ptr + z), 64)
    if FORM == "condition":
        place = z * 0
        inside = inside & (z.to(tl.int64) * many < 8589934592)
    if FORM == "narrow":
        place = (z * 100).to(tl.int8).to(tl.int32) * 16 + 2048
        place = place + rows[:, None] * 0
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, 32, BK):
        a = tl.load(a_ptr + place + rows[:, None] * stride + (k + ks)[None, :], mask=inside[:, None], other=0.0)
        b = tl.load(b_ptr + (k + ks)[:, None] * BN + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + (z * BM + rows)[:, None] * BN + columns[None, :], acc)


def values(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-8, 9, count).astype(np.float16)


def launch(kernel: Any, programs: int, numbers: dict[str, Any], **constants: Any) -> Launch:
    arguments = {"a_ptr": values(1 << 14), "b_ptr": values(512, 1), "c_ptr": np.zeros(1 << 13, np.float32)}
    return Launch(kernel, {**arguments, **numbers}, {**BLOCKS, **constants}, (programs,))


@pytest.mark.parametrize("form", [TWICE, OTHERS, MASKED, BESIDE])
def test_rows_that_wrap_around_irregularly_stay_pointer_loads(form: int) -> None:
    sizes = {"M": 20, "L": 50} if form == OTHERS else {"M": 128, "L": 64}
    found = same_bits(launch(wrapped, 6, {**sizes, "stride": 64}, FORM=form), "host", 1)
    assert "its index wraps around or is clamped, and " in found.reasons()


def test_a_clamped_row_that_reaches_a_store_of_the_next_iteration_stays() -> None:
    found = same_bits(launch(late, 1, {"M": 40, "rounds": 2}), "host", 1)
    assert "its index wraps around or is clamped, and scf.yield in line " in found.reasons()


def wide_launch(form: str, programs: int) -> Launch:
    places = np.arange(16, dtype=np.int64) * 128
    return launch(wide, programs, {"places_ptr": places, "stride": 32, "many": (1 << 30) + 64}, FORM=form)


def test_distant_batches_are_a_dimension_of_their_own() -> None:
    """As part of the row index they would exceed TMA's 32-bit coordinates."""
    for form, stride in (("product", 2048), ("far", 1 << 24)):
        found = promoted(wide_launch(form, 1), "host")
        assert found.result.promoted == 2
        assert found.result.launch.descriptors[0].strides[0] == Number(stride)
        assert len(found.result.launch.descriptors[0].strides) == 3
    same_bits(wide_launch("product", 3), "host", 2)


def test_a_loaded_64_bit_offset_is_no_tma_coordinate() -> None:
    found = same_bits(wide_launch("memory", 2), "host", 1)
    assert "TMA limits strides: 2 >= 16" in found.reasons()


@pytest.mark.parametrize("make", ["host", "kernel"])
def test_a_condition_is_decided_in_64_bits(make: Any) -> None:
    same_bits(wide_launch("condition", 12), make, 2)


def test_a_number_of_8_bits_may_wrap_around() -> None:
    found = same_bits(wide_launch("narrow", 3), "host", 1)
    assert "may be negative" in found.reasons()
