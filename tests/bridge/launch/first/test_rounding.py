"""Only forms that round as stock Triton's kernel take part where launches learn."""

from __future__ import annotations

import pytest

from tawa.bridge.launch.first.rounding import other_rounding
from tawa.plan import PlanOptions
from tests.cases.gemm.cases import CASES
from tests.matrix.compiling import compile_case

_END = '#loc1 = loc("kernel.py":7:3)\n#loc2 = loc("acc"(#loc1))\n'
_FUSED = (
    "  %p = arith.mulf %a, %b : tensor<f32>\n  %s = arith.addf %p, %r : tensor<f32> loc(#loc2)\n",
    "  %p = arith.mulf %a, %b : tensor<f32>\n  %c = ttg.convert_layout %r : f32 -> f32\n"
    "  %s = arith.addf %p, %c : tensor<f32> loc(#loc2)\n",
)
_APART = (
    "  %p = arith.mulf %a, %b : tensor<f32>\n  %c = ttg.convert_layout %p : f32 -> f32\n"
    "  %s = arith.addf %c, %r : tensor<f32> loc(#loc2)\n"
)
_NO_PRODUCT = "  %p = arith.divf %a, %b : tensor<f32>\n  %s = arith.addf %p, %r : tensor<f32> loc(#loc2)\n"


@pytest.mark.parametrize("fused", _FUSED)
def test_a_conversion_between_a_product_and_a_sum_rounds_otherwise(fused: str) -> None:
    assert other_rounding(fused + _END, _APART + _END) == other_rounding(_APART + _END, fused + _END) != ""
    assert "kernel.py" in other_rounding(fused + _END, _APART + _END)


def test_a_product_of_an_earlier_iteration_rounds_by_itself() -> None:
    """The sum of a loop whose product is carried from one iteration to the next."""
    carried = "  %p = arith.mulf %a, %b : tensor<f32>\n  %s = arith.addf %arg, %r : tensor<f32> loc(#loc2)\n"
    assert other_rounding(_FUSED[0] + _END, carried + _END) and not other_rounding(carried + _END, _APART + _END)


def test_a_place_with_sums_of_both_kinds_says_nothing() -> None:
    both = _FUSED[0] + _NO_PRODUCT + _END
    assert not other_rounding(both, _APART + _END) and not other_rounding(both, _FUSED[0] + _END)


def test_what_is_the_same_in_both_kernels_rounds_the_same() -> None:
    assert not any(other_rounding(it + _END, it + _END) for it in (*_FUSED, _APART, _NO_PRODUCT))
    assert not other_rounding(_FUSED[0] + _END, _FUSED[1] + _END) and not other_rounding(_NO_PRODUCT, _APART + _END)


def test_a_body_that_was_duplicated_counts_once() -> None:
    assert not other_rounding(_FUSED[0] + _END, _FUSED[0] + _FUSED[0] + _END)
    assert other_rounding(_FUSED[0] + _END, _FUSED[0] + _APART + _END)


_PEELED = (
    "  %e = math.exp2 %a : tensor<f32>\n"
    '  %t = "tt.reduce"(%b) <{axis = 1 : i32}> ({\n'
    "  %s = arith.addf %e, %t : tensor<f32> loc(#loc2)\n"
)


def test_a_peeled_iteration_that_multiplies_by_one_rounds_the_same() -> None:
    """1 · exp2(a) + t: MLIR drops the product, and stock Triton's fused one rounds nothing before the sum."""
    assert not other_rounding(_FUSED[0] + _END, _PEELED + _FUSED[0] + _END)
    assert other_rounding(_FUSED[0] + _END, _PEELED + _APART + _END)
    assert other_rounding(_FUSED[0] + _END, _PEELED.replace("math.exp2 %a", "ttg.convert_layout %a") + _END)
    assert other_rounding(_PEELED + _END, _FUSED[0] + _END)


@pytest.mark.parametrize(
    "begin",
    [
        "  ^bb0(%p: f32 loc(#loc1), %b: f32 loc(#loc1)):\n",
        "  %1 = scf.for %i = %0 to %n step %c iter_args(%p = %init) -> (f32)  : i32 {\n",
        "  partition0(%p: f32 loc(unknown), %b: f32) num_warps(4) {\n",
    ],
)
def test_an_argument_with_the_name_of_a_product_elsewhere_is_none(begin: str) -> None:
    """Names begin anew in each region: in documents of FlexAttention an argument of a sum had that of a product."""
    product, added = "  %p = arith.mulf %a, %b : f32\n", "  %s = arith.addf %p, %b : f32 loc(#loc2)\n"
    other = begin.replace("%p", "%q") + added.replace("%p", "%q")
    assert not other_rounding(product + other + _END, product + begin + added + _END)
    assert other_rounding(product + other + _END, begin + product + added + _END)


@pytest.mark.usefixtures("without_ptx")
@pytest.mark.parametrize(("name", "same"), [("epilogue_all_pointers", False), ("epilogue_all", True)])
def test_it_finds_the_kernel_whose_bits_were_seen_to_differ(name: str, same: bool) -> None:
    """bench/results/bits.json: of all cases that were compared, only forms of the former have other bits."""
    case = next(it for it in CASES if it.name == name)
    stock = compile_case(case, PlanOptions(enable_warp_specialization=False))
    form = compile_case(case, PlanOptions(only_if_faster=False))
    assert form.metadata.tawa["applied"]
    assert (other_rounding(stock.asm["ttgir"], form.asm["ttgir"]) == "") is same
