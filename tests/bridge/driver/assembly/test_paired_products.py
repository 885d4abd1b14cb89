"""Sums of two products in vectors of LLVM IR are found, with how their operands are made."""

from __future__ import annotations

import pytest

from tawa.bridge.driver.assembly.paired_products import paired_products

PRODUCTS = """
  %1 = fmul <2 x float> %a, %b, !dbg !10
  %shift = shufflevector <2 x float> %1, <2 x float> poison, <2 x i32> <i32 1, i32 poison>, !dbg !11
"""
FIRST = f"{PRODUCTS}  %2 = fadd <2 x float> %shift, %1, !dbg !12\n"
SECOND = f"{PRODUCTS}  %2 = fadd <2 x float> %1, %shift, !dbg !13\n"


def test_the_order_of_the_two_products_is_told() -> None:
    first, second = paired_products(FIRST), paired_products(SECOND)
    assert sum(first.values()) == sum(second.values()) == 1 and first != second
    assert paired_products(FIRST.replace("%1", "%product").replace("!12", "!99")) == first


@pytest.mark.parametrize(
    "text",
    [
        "%p = fmul float %a, %b\n%q = fmul float %c, %d\n%s = fadd float %p, %q",
        "%p = fmul <2 x float> %a, %b\n%s = fadd <2 x float> %p, %c",
        "%p = fdiv <2 x float> %a, %b\n%s = fadd <2 x float> %p, %p",
        "%s = add <2 x i32> %p, %q",
    ],
    ids=["scalars", "one product", "quotients", "integers"],
)
def test_other_sums_are_not_told(text: str) -> None:
    assert not paired_products(text)


def test_each_element_of_a_vector_may_be_a_product() -> None:
    text = (
        "%p = fmul float %a, %b\n%v = insertelement <2 x float> poison, float %p, i64 0\n"
        "%n = fneg <2 x float> %v\n%s = fsub <2 x float> %n, %v"
    )
    (told,) = paired_products(text)
    assert told.startswith("fsub fneg(insertelement(fmul")
