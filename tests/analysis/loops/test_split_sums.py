"""`split_sums`: loops whose sums programs can compute in shares."""

from __future__ import annotations

from typing import Any

import pytest

from tawa.analysis.loops.split_sums import SplitSums, find_split_sums
from tawa.ir import Value
from tawa.remarks import Remark
from tests.analysis.tile_programs import TileProgram as Program
from tests.transforms.ttir.test_split_k import product


def test_a_loop_has_sums_and_values_that_are_affine_in_the_iteration() -> None:
    found = find_split_sums(product())
    assert isinstance(found, SplitSums)
    assert found.sums == (0,) and sorted(found.steps) == [1, 2] and found.bytes == 16 * 16 * 4
    assert [it.type for it in found.steps.values()] == ["tensor<16x16xi32>", "i32"]


def stores_number(p: Program, k: Value) -> None:
    p.effect("tt.store", [p.args["c"], p.op("arith.constant", [], "f32", value="1.000000e+00 : f32")])
    del k


UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "a sum from one": ({"init": "1.000000e+00"}, "neither a sum of float32 from zero nor affine"),
    "a sum that is multiplied": ({"scaled": True}, "neither a sum of float32 from zero nor affine"),
    "a store in the loop": ({"body": stores_number}, "executed by several programs"),
    "a store before the loop": ({"more": lambda p: stores_number(p, p.args["end"])}, "executed by several programs"),
    "a counter behind the loop": ({"after": True}, "is used behind the loop"),
    "a barrier": ({"more": lambda p: p.effect("gpu.barrier", [])}, "every program that shares a tile"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_loop_that_programs_cannot_share_is_declined_with_the_reason(name: str) -> None:
    options, reason = UNFIT[name]
    remark = find_split_sums(product(**options))
    assert isinstance(remark, Remark) and reason in remark.reason and remark.cure == "split_k=1 in the Plan"
