"""Cases describe launches that make sense: names, signatures, sizes, expectations."""

from __future__ import annotations

import pytest

from tests.cases.case import Expectation
from tests.cases.gemm.cases import CASES, SPECIALISED, find


def test_unknown_name_is_told_with_close_ones() -> None:
    with pytest.raises(KeyError, match="gate_up"):
        find("gate_up_")
    with pytest.raises(KeyError, match="none"):
        find("no such case")


def test_an_empty_k_still_gives_tensors_a_descriptor_can_hold() -> None:
    case = find("tile_k_zero")
    assert case.size("K") == 0
    assert case.shape("a") == (384, 16)


def test_size_texts_multiply_and_divide() -> None:
    case = find("split_epilogue")
    assert case.size("BN/2") == 128
    assert find("split_k").size("M*N") == 384 * 512
    assert case.size(7) == 7


def test_other_sizes_leave_the_case_alone() -> None:
    case = find("tile_fp16_nn")
    assert case.with_sizes(K=64).size("K") == 64
    assert case.size("K") == 328


def test_divisibility_follows_the_sizes() -> None:
    names = find("tile_fp16_nn").kernel.arg_names
    k = (names.index("K"),)
    assert k not in find("tile_fp16_nn").attributes()
    assert k in find("tile_fp16_nn").with_sizes(K=320).attributes()


@pytest.mark.parametrize(
    ("expectation", "mma_depth", "releases", "waits"),
    [
        (Expectation("specialised"), 0, 1, [0]),
        (Expectation("specialised"), 1, 2, [0, 1]),
        (Expectation("specialised"), 2, 3, [0, 2]),
        (Expectation("specialised", payloads=(1, 1, 1), sites=3, dots=(2,)), 1, 6, [0, 2]),
        (Expectation("specialised", payloads=(1, 1, 1), sites=3, dots=(2,)), 0, 3, [0]),
        (Expectation("specialised", sites=2, dots=(1, 1)), 1, 4, [0, 0, 1, 1]),
        (Expectation("specialised", in_flight=False), 2, 1, [0]),
        (Expectation("specialised", payloads=(1, 1), sites=2, copied=1), 2, 4, [0, 2]),
        (Expectation("specialised", payloads=(1, 1), sites=2, copied=2), 1, 2, [0, 1]),
    ],
)
def test_expected_releases_and_waits(expectation: Expectation, mma_depth: int, releases: int, waits: list[int]) -> None:
    assert expectation.releases(mma_depth) == releases
    assert expectation.waits(mma_depth) == waits


def test_plans_leave_room_for_what_is_in_flight() -> None:
    assert all(depth >= mma_depth + 1 for case in CASES for depth, mma_depth in case.plans)


def test_only_declined_cases_may_have_no_reference() -> None:
    assert all(case.reference for case in SPECIALISED)
