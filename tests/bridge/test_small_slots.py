"""Tiles so small that slots of a ring would begin where no TMA copy may: left to stock Triton, with the reason."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl

from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.triton.signature import parse_signature
from tawa.plan import PlanOptions

pytestmark = pytest.mark.usefixtures("without_ptx")


@triton.jit
def scaled(a_desc, b_desc, s_desc, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A row of scales for each block of K, through a descriptor."""
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([tl.program_id(0) * BM, k])
        b = b_desc.load([k, 0]) * s_desc.load([k // BK, 0])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * BN + columns[None, :], acc.to(tl.float16))


def compiled(columns: int) -> Any:
    text = (
        f"a_desc=tensordesc<fp16[64,64]>, b_desc=tensordesc<fp16[64,{columns}]>, "
        f"s_desc=tensordesc<fp16[1,{columns}]>, c_ptr=*fp16:16, K=i32:16"
    )
    signature = parse_signature(text, {"BM": 64, "BN": columns, "BK": 64}, scaled.arg_names)
    with attached():
        return compile_kernel(scaled, signature, Request(PlanOptions(only_if_faster=False)), num_warps=4)


@pytest.mark.parametrize(("columns", "applied"), [(32, False), (64, True), (128, True)])
def test_a_row_of_less_than_128_bytes_is_no_slot(columns: int, applied: bool) -> None:
    record = compiled(columns).metadata.tawa
    assert record["applied"] is applied, record["reason"]
    if not applied:
        assert "its tile has 64 bytes, and TMA fills slots that begin at multiples of 128" in record["reason"]
