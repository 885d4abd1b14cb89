"""Words that have no effect are refused, and words that say what there is are not."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl

import tawa

pytestmark = pytest.mark.usefixtures("without_ptx")

OPERANDS = "a=tensordesc<fp16[64,64]>, b=tensordesc<fp16[64,64]>"
TYPES = f"{OPERANDS}, bias=tensordesc<fp16[64,64]>, rows=*fp32, last=*fp32, c=*fp16, K=i32:16"
GEMM = f"{OPERANDS}, c=*fp16, K=i32:16"


@triton.jit
def beside(a, b, bias, rows, last, c, K):
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        row = tl.load(rows + k + tl.arange(0, 64))
        acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc) * row[None, :]
    acc += bias.load([0, 0]) + tl.load(last + tl.arange(0, 64))[None, :]
    tl.store(c + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], acc.to(tl.float16))


@triton.jit
def product(a, b, c, K):
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc)
    tl.store(c + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], acc.to(tl.float16))


def made(text: str) -> Any:
    return tawa.explain(beside, TYPES, {}, num_warps=4, mapping=text)


ALONE = "feeds no dot through a ring, so the consumer loads it (test_unmet.py:"


@pytest.mark.parametrize(
    "text, cure",
    [
        *((f'[operands.{name}]\npath = "{path}"', 'path = "consumer" or "pointers"')
          for name in ("last", "rows") for path in ("cp.async", "registers")),
        *((f'[operands.bias]\npath = "{path}"', 'path = "consumer" or "tma"')
          for path in ("cp.async", "registers", "pointers")),
        ("[operands.last]\nhoisted = true", "leave it out, or one of rows, a, b"),
        ('[operands.bias]\ntransposed = "registers"', "leave it out, or one of rows, a, b"),
        ("[operands.bias]\nreordered = true", "leave it out, or one of rows, a, b"),
    ],
)  # fmt: skip
def test_a_word_about_an_operand_that_no_ring_carries_is_refused(text: str, cure: str) -> None:
    with pytest.raises(tawa.PlanError) as caught:
        made(text)
    said = str(caught.value)
    assert said.startswith(text.partition("\n")[0]) and f"(line 2 of the mapping): it {ALONE}" in said
    assert said.endswith(f"; cure: {cure}")


@pytest.mark.parametrize(
    "text, parts",
    [
        ('[operands.last]\npath = "tma"', ["last", "by TMA", "feeds no dot", 'cure: path = "pointers"']),
        ("[operands.bias]\nring = 2", ["bias", "test_unmet.py:", "no ring carries", "cure: leave it out, or one of"]),
        ('[operands.bias]\nring = "ring0"', ["ring, ring0, for bias", "test_unmet.py:", "no ring carries", "one of"]),
        ('[operands.a]\npath = "tma in kernel"', ["descriptor is an argument (test_unmet.py:", 'cure: path = "tma"']),
        ('[operands.b]\nrows = "for next dot"', ["b, loop k (", "for the next dot", 'cure: rows = "in order"']),
        ('[stores.c]\npath = "tma"', ["store c", "test_unmet.py:", "by TMA: no operand", 'cure: path = "pointers"']),
        ("[stores.c]\nstaged = true", ["stores through pointers (test_unmet.py:", "cure: leave it out"]),
        ("[kernel]\norder_group = 3", ["line 2 of the mapping", "beside (test_unmet.py:", "cure: persistent = true"]),
        ('[groups]\nsplit = "rows"', ["has one group; cure: count = 2"]),
        ("[groups]\nping_pong_sections = [[0, 0]]", ["has no ping-pong; cure: ping_pong = true"]),
        ("[loops.k]\njoined = true", ["joins loop k (", "no loop before it", "cure: joined = false"]),
    ],
)  # fmt: skip
def test_another_word_without_an_effect_is_refused(text: str, parts: list[str]) -> None:
    with pytest.raises(tawa.PlanError) as caught:
        made(text)
    assert not [part for part in parts if part not in str(caught.value)], caught.value


def test_strides_of_a_kernel_without_loads_through_pointers_are_refused() -> None:
    with pytest.raises(tawa.PlanError, match=r"product \(test_unmet.py:\d+\) has no loads through pointers; cure"):
        tawa.explain(product, GEMM, {}, num_warps=4, mapping='[kernel]\nunit_strides = ["K"]')


def test_a_loop_without_a_schedule_joins_no_other() -> None:
    with pytest.raises(tawa.PlanError, match=r"\[loops.k\] joined = true .* has no schedule .*; cure: joined = false"):
        tawa.explain(product, GEMM, {}, num_warps=4, mapping="[loops.k]\njoined = true")


@pytest.mark.parametrize(
    "text",
    [
        '[operands.last]\npath = "pointers"', '[operands.rows]\npath = "consumer"', '[operands.bias]\npath = "tma"',
        '[operands.bias]\npath = "consumer"\nhoisted = false\nrows = "in order"', '[operands."*"]\nring = 2',
        '[stores.c]\npath = "pointers"', '[stores."*"]\nstaged = true', "[operands.rows]\nprefetched = true",
    ],
)  # fmt: skip
def test_words_that_say_what_there_is_are_not(text: str) -> None:
    assert made(text).applied
