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

pytestmark = pytest.mark.usefixtures("without_cubin")

LEGAL = PlanOptions(only_if_faster=False)
LINE = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
ROUNDED = re.compile(r"\s*(?:@%p\d+ )?(fma|mul|add|sub)\.[a-z.]*f32\s+(%\w+), ([^;]*);")
ZERO = "0f00000000"


def products(made: Any) -> dict[int, set[str]]:
    """Sums with a product of f32 by line of the kernel's source: fused, or rounded separately. 0: of no line.

    Products with zero round nothing; the first trip of a loop that is peeled has them.
    """
    found: dict[int, set[str]] = defaultdict(set)
    line, multiplied = 0, set[str]()
    for text in made.asm["ptx"].splitlines():
        if place := LINE.match(text):
            line = int(place[1])
        elif (instruction := ROUNDED.match(text)) and ZERO not in text:
            name, result, operands = instruction.groups()
            if name == "mul":
                multiplied.add(result)
            elif name == "fma":
                found[line].add("fused")
            elif multiplied.intersection(operands.split(", ")):
                found[line].add("separate")
    return found


def as_in(stock: dict[int, set[str]], ours: dict[int, set[str]]) -> bool:
    """Whether each line has the same kinds; what one kernel has at no line, the other may have at any."""
    of_no_line = stock.pop(0, set()) | ours.pop(0, set())
    return all(stock[line] ^ ours[line] <= of_no_line for line in {*stock, *ours})


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
    assert as_in(products(stock), products(ours))


COMPILED = [
    case
    for case in (*OPERATIONS, *ATTENTION, *POINTERS)
    if case.expect.verdict == "specialised" and case.name != "grouped_anew"  # which stock Triton cannot compile
]


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in sample(COMPILED, 40)])
def test_a_case_is_fused_as_stock_triton_fuses_it(case: Specimen) -> None:
    stock, ours = (products(compile_case(case, options)) for options in (None, LEGAL))
    assert as_in(stock, ours)
