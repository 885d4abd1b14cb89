"""Exact means exact: a specialised kernel fuses products and sums into one rounding where stock Triton's kernel does.

LLVM fuses a product with a sum or a difference if it sees both, and how often each is used. Passes that change uses may
therefore change the last bit of a result, although they keep the value of every operation. The simulator does not fuse;
these tests compare the PTX.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import pytest
import triton
import triton.language as tl

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.triton.signature import parse_signature
from tawa.plan import PlanOptions
from tests.cases.attention.cases import CASES as ATTENTION
from tests.cases.case import Specimen
from tests.cases.operations.cases import CASES as OPERATIONS
from tests.cases.pointers.cases import CASES as POINTERS
from tests.matrix.compiling import compile_case
from tests.support.sample import sample

LEGAL = PlanOptions(only_if_faster=False)
LINE = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
SUM = re.compile(r"\s*(?:@%p\d+ )?(fma|add|sub)\.[a-z.]*f32\b(?!.*\b0f00000000\b)")
"""Not with a product with zero, as in the first trip of a loop that is peeled: it rounds nothing."""


def sums(made: Any) -> dict[int, set[str]]:
    """The sums and differences of f32, fused or not, by line of the kernel's source."""
    found: dict[int, set[str]] = defaultdict(set)
    line = 0
    for text in made.asm["ptx"].splitlines():
        if place := LINE.match(text):
            line = int(place[1])
        elif instruction := SUM.match(text):
            found[line].add(instruction[1])
    return dict(found)


@triton.jit
def masked(q, k, v, o, S, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Attention in FlexAttention's order: scores are scaled, masked, and then multiplied by log2(e)."""
    m = tl.program_id(0) * BM
    rows = m + tl.arange(0, BM)
    most = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    x = q.load([m, 0])
    for n in range(0, S, BN):
        s = tl.dot(x, k.load([n, 0]).T) * scale
        s = tl.where(rows[:, None] >= n + tl.arange(0, BN)[None, :], s, float("-inf")) * 1.44269504
        new = tl.maximum(most, tl.max(s, 1))
        shift = tl.where(new == float("-inf"), 0.0, new)
        p = tl.exp2(s - shift[:, None])
        alpha = tl.exp2(most - shift)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.bfloat16), v.load([n, 0]), acc * alpha[:, None])
        most = new
    o.store([m, 0], (acc / total[:, None]).to(tl.bfloat16))


def test_a_masked_softmax_is_fused_as_stock_triton_fuses_it() -> None:
    boxes = {"q": "128,128", "k": "64,128", "v": "64,128", "o": "128,128"}
    text = ", ".join(f"{name}=tensordesc<bf16[{box}]>" for name, box in boxes.items()) + ", S=i32, scale=fp32"
    signature = parse_signature(text, {"BM": 128, "BN": 64, "D": 128}, masked.arg_names)
    stock, ours = (
        compile_kernel(masked, signature, request, num_warps=8, num_stages=3) for request in (None, Request(LEGAL))
    )
    assert not ours.asm["aref"].startswith("//")
    assert sums(ours) == sums(stock)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name)
        for case in sample(
            [it for it in (*OPERATIONS, *ATTENTION, *POINTERS) if it.expect.verdict == "specialised"], 40
        )
    ],
)
def test_a_case_is_fused_as_stock_triton_fuses_it(case: Specimen) -> None:
    stock, ours = (sums(compile_case(case, options)) for options in (None, LEGAL))
    assert ours == stock
