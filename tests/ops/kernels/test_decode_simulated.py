"""The decoding kernel: what Tawa makes of it, and that it is right on NumPy data, in the simulator."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tawa.bridge.triton.read_module import read_levels
from tawa.ops.kernels.attention import decode
from tawa.plan import PlanOptions
from tawa.sim import Descriptor as HostDescriptor
from tawa.sim import simulate
from tests.cases.attention.builders import SPECIALISED
from tests.cases.case import Descriptor, Number, Pointer, Specimen, Tensor
from tests.matrix.compiling import compile_and_report, specialised_levels
from tests.support.sample import sample

HEADS, KEY_HEADS, ROWS, BLOCK = 4, 2, 256, 64
OPTIONS = PlanOptions(only_if_faster=False, precision="relaxed")
LENGTHS = (200, 64, 0, 3)


def decode_case(page: int = 0, dim: int = 64, queries: int = 1, window: int = 0, block: int = BLOCK) -> Specimen:
    """Sequences of up to ROWS keys, in 2 splits, with partial outputs in float32."""
    batches, group = len(LENGTHS), HEADS // KEY_HEADS
    row = KEY_HEADS * dim  # (B, S, HK, D)
    shape, strides = (2**31 - 2**16, 2**31 - 2**16, KEY_HEADS, 2**30, dim), (2**34 - row, row, dim, row, 1)
    cache = (batches * ROWS, KEY_HEADS, dim)
    tensors = {
        "q": Tensor((batches * KEY_HEADS, group * queries, dim), "fp16"),
        "k": Tensor(cache, "fp16"),
        "v": Tensor(cache, "fp16"),
        "o": Tensor((2, batches * KEY_HEADS, group * queries, dim), "fp32", "nan"),
        "lse": Tensor((2, batches * KEY_HEADS, group * queries), "fp32", "nan"),
        "lengths": Tensor((batches,), "i32", "values", values=LENGTHS),
        "table": Tensor((batches, ROWS // (page or ROWS)), "i32", "zero"),
    }
    step = page or ROWS
    arguments = {
        "q_desc": Descriptor("q", (1, 64, dim)),
        "k_desc": Descriptor("k", (1, 1, 1, block, dim), shape, strides),
        "v_desc": Descriptor("v", (1, 1, 1, block, dim), shape, strides),
        "o_ptr": Pointer("o"),
        "lse_ptr": Pointer("lse"),
        "lengths_ptr": Pointer("lengths"),
        "table_ptr": Pointer("table"),
        "HK": Number(KEY_HEADS),
        "S": Number(0),
        "MORE": Number(0),
        "TABLE": Number(ROWS // step),
        "K_STEP": Number(step),
        "V_STEP": Number(step),
        "scale": Number(dim**-0.5),
        "softcap": Number(1.0),
        "DIM": Number(dim),
    }
    constexprs = {"SQ": queries, "R": group * queries, "BM": 64, "BN": block, "D": dim, "PAGE": page, "CAUSAL": True,
                  "WINDOW": window, "SOFTCAP": False}  # fmt: skip
    name, kernel = f"decode_page{page}_d{dim}", decode.attention_decode
    return Specimen(name, kernel, arguments, tensors, constexprs, {}, "rows", "", SPECIALISED, num_warps=4)


@functools.cache
def level(page: int, queries: int, window: int, block: int) -> Any:
    case = decode_case(page, queries=queries, window=window, block=block)
    return read_levels(specialised_levels(case, OPTIONS))[1]


@pytest.mark.parametrize(
    ("page", "queries", "window", "block"),
    [(0, 1, 0, 64), (0, 3, 0, 64), (0, 2, 40, 64), (64, 1, 0, 64), (16, 2, 0, 16)],
)
def test_it_is_right_amid_nan(page: int, queries: int, window: int, block: int) -> None:
    case = decode_case(page, queries=queries, window=window, block=block)
    numbers = np.random.default_rng(1)
    batches, dim, rows = len(LENGTHS), 64, HEADS // KEY_HEADS * queries
    q = numbers.standard_normal(case.shape("q")).astype(np.float16)
    step = page or ROWS
    places = numbers.permutation(batches * ROWS // step).reshape(batches, -1).astype(np.int32)
    if not page:
        places = np.arange(batches, dtype=np.int32)[:, None]
    keys, values = (numbers.standard_normal((batches, ROWS, KEY_HEADS, dim)).astype(np.float16) for _ in "kv")
    k, v = (np.full(case.shape("k"), np.nan, np.float16) for _ in "kv")
    for b, length in enumerate(LENGTHS):
        for n in range(length):
            row = places[b, n // step] * step + n % step
            k[row], v[row] = keys[b, n], values[b, n]
    o = np.full(case.shape("o"), np.nan, np.float32)
    lse = np.full(case.shape("lse"), np.nan, np.float32)
    arguments: dict[str, Any] = {name: it.value for name, it in case.arguments.items() if isinstance(it, Number)}
    for name, it in case.arguments.items():
        if isinstance(it, Descriptor):
            array = {"q": q, "k": k, "v": v}[it.tensor]
            shape, strides = it.shape, it.strides
            arguments[name] = HostDescriptor(array, shape, strides) if shape else HostDescriptor(array)  # type: ignore[arg-type]
    arguments |= {"o_ptr": o, "lse_ptr": lse, "lengths_ptr": np.array(LENGTHS, np.int32), "table_ptr": places}
    simulate(level(page, queries, window, block), arguments, (2, batches * KEY_HEADS, 1), "random", 0)
    for head in range(batches * KEY_HEADS):
        b, h = divmod(head, KEY_HEADS)
        length = LENGTHS[b]
        scores = q[head].astype(np.float64) @ keys[b, :length, h].astype(np.float64).T * dim**-0.5
        last = length - queries + np.arange(rows)[:, None] % queries
        seen = np.arange(length)[None, :] <= last
        if window:
            seen &= np.arange(length)[None, :] > last - window
        weights = np.where(seen, np.exp(scores), 0.0)
        total = weights.sum(1, keepdims=True)
        wanted = weights @ values[b, :length, h].astype(np.float64) / np.where(total == 0, 1.0, total)
        share = np.exp2(lse[:, head].astype(np.float64))
        found = (share[..., None] * o[:, head]).sum(0) / np.where(total == 0, 1.0, total)
        assert np.abs(found - wanted).max() < 2e-3
        assert np.abs(share.sum(0) - total[:, 0]).max() <= 1e-3 * max(1.0, total.max())
        assert not np.isnan(o[:, head]).any()


@pytest.mark.parametrize(("page", "block"), sample([(64, 64), (0, 64), (256, 64), (0, 128)], 4))
def test_many_bytes_are_on_their_way_and_nothing_spills(page: int, block: int) -> None:
    case = replace(decode_case(page, dim=128, block=block), num_stages=3)
    compiled, found = compile_and_report(case, OPTIONS)
    plan = compiled.metadata.tawa["plan"]
    of_a_cta = sum(ring["depth"] * ring["slot_bytes"] for ring in plan["rings"])
    assert of_a_cta * plan["ctas_per_sm"] >= 128 * 1024
    assert found.ptxas is not None and found.ptxas.spill_store_bytes == 0
    assert math.prod(ring["depth"] for ring in plan["rings"]) > 4
