"""Correct kernels with constants beyond the explored trip counts are still proved."""

from __future__ import annotations

from dataclasses import replace

import pytest
import triton
import triton.language as tl

from tawa.bridge.driver.data import Specialised
from tawa.bridge.driver.driver import specialise
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.signature import parse_signature
from tawa.plan import PlanOptions
from tawa.verify.verdict import Checked, Proved
from tests.cases.attention.cases import find
from tests.cases.case import Number, One, Specimen
from tests.matrix.compiling import attempted
from tests.support.fronts import front
from tests.support.verdicts import passes

LEGAL = PlanOptions(only_if_faster=False)


def with_ones(case: Specimen) -> Specimen:
    """The signature of a launch: arguments equal to 1 are constants."""
    ones = {
        name: One()
        for name, it in case.arguments.items()
        if isinstance(it, Number) and not isinstance(it.value, float) and case.size(it.value) == 1
    }
    return replace(case, arguments={**case.arguments, **ones})


@pytest.mark.parametrize(
    "name", ["two_loops_causal_1x1", "dq_causal_1x1", "one_loop_causal_200x1", "dkdv_causal_1x1", "dkdv_4warps"]
)
def test_attention_whose_bounds_never_reach_its_constants_is_proved(name: str) -> None:
    """max(min(x, 1), 0) // 128 is 0; whether the bounds differ by more than two blocks depends on the trip count."""
    found, _ = attempted(with_ones(find(name)), LEGAL)
    assert isinstance(found, Specialised) and passes(found.outcome.verdict)


@triton.jit
def listed(a, b, c, counts, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """FlexAttention without a mask computes its block count this way; no grid has that many programs."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.load(counts + tl.program_id(0) // 8388608)):
        acc = tl.dot(a.load([m, k * BK]), b.load([k * BK, n]), acc)
    c.store([m, n], acc.to(tl.float16))


@pytest.mark.parametrize("persistent", [False, True])
def test_a_quotient_that_only_a_huge_grid_makes_is_tried(persistent: bool) -> None:
    text = "a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,256]>, c=tensordesc<fp16[128,256]>, counts=*i32:16"
    signature = parse_signature(text, {"BM": 128, "BN": 256, "BK": 64}, listed.arg_names)
    made = front(listed, signature, num_warps=8, num_stages=3)
    request = Request(replace(LEGAL, persistent=persistent))
    with launched_by_us():
        found = specialise(made.job("listed"), request)
    assert isinstance(found, Specialised) and isinstance(found.outcome.verdict, Proved | Checked)
