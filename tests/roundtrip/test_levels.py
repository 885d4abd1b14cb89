"""Round trips through `tawa.ir` change nothing: at every level the PTX and the cubin are identical.

Triton prints a level in generic form, `tawa.ir` parses and prints it, and Triton parses the result and continues the
compile. This is the regression test for new releases of Triton.
"""

from __future__ import annotations

import functools

import pytest

pytest.importorskip("triton")

from tawa.ir import parse_module, print_module
from tests.cases.gemm.cases import CASES, find
from tests.roundtrip.levels import Level, Made, compile_through
from tests.support.sample import sample

pytestmark = pytest.mark.slow

# A selection for TTIR: fp16, fp8 and fp32 operands; layouts; loops in loops, in a row and under a branch;
# `while`; descriptors made in the kernel; an epilogue with pointers, masks and reductions; two dots.
TYPICAL = [
    "tile_fp32_tn",
    "persistent_flat_fp8e4nv",
    "persistent_while",
    "device_desc_nn",
    "two_loops",
    "gate_up",
    "epilogue_all_pointers",
    "if_accumulate_skip2",
    "early_return",
]
DECLINED = ["softmax_rows", "in_place_pointer"]
EVERY = sample([case.name for case in CASES], 25)
SPECIALISED = sample([case.name for case in CASES if case.expect.verdict == "specialised"], 20)


@functools.cache
def made(name: str, level: Level) -> Made:
    return compile_through(find(name), level)


@pytest.mark.parametrize(
    ("name", "level"),
    [*((name, "ttgir") for name in EVERY), *((name, "ttir") for name in [*sample(TYPICAL, 4), *DECLINED])],
)
def test_a_stock_kernel_read_and_printed_on_the_way_is_the_same_kernel(name: str, level: Level) -> None:
    stock, again = made(name, "none"), made(name, level)
    assert len(again.texts) == 1
    assert again.ptx == stock.ptx
    assert again.cubin == stock.cubin


@pytest.mark.parametrize("name", ["tile_fp32_tn", "gate_up"])
def test_a_pipelined_kernel_read_and_printed_on_the_way_is_the_same_kernel(name: str) -> None:
    stock, again = made(name, "none"), made(name, "back")
    assert (again.ptx, again.cubin) == (stock.ptx, stock.cubin)


@pytest.mark.parametrize("name", SPECIALISED)
def test_a_specialised_kernel_read_and_printed_once_more_is_the_same_kernel(name: str) -> None:
    once, twice = made(name, "barrier"), made(name, "barrier twice")
    assert "setmaxnreg" in once.ptx
    assert (twice.ptx, twice.cubin) == (once.ptx, once.cubin)


@pytest.mark.parametrize("name", ["gate_up", "early_return"])
def test_printing_is_a_fixed_point(name: str) -> None:
    (text,) = made(name, "ttgir").texts
    assert print_module(parse_module(text)) == text


def test_another_program_gives_other_bytes() -> None:
    """The comparison can fail."""
    assert made("two_loops", "none").cubin != made("gate_up", "none").cubin
    assert made("two_loops", "none").ptx != made("two_loops", "barrier").ptx
