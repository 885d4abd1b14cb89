"""`free_dims`: which dimension between two dots may stand in any order, and why one may not."""

from __future__ import annotations

from typing import Any

import pytest

from tawa.analysis.dims.free_dims import FreeDim, find_free_dims
from tawa.bridge.triton.generic_print import read_ttir
from tawa.dialects.tt import DotOp
from tests.cases.small import ordered_kernels as kernels
from tests.matrix.compiling import signature
from tests.support.fronts import front


def dims(kernel: Any, **sizes: Any) -> tuple[FreeDim, ...]:
    case = kernels.case(kernel, **sizes)
    made = front(case.kernel, signature(case), num_warps=case.num_warps)
    return find_free_dims(read_ttir(made.ttir, made.context))


def only(kernel: Any, **sizes: Any) -> FreeDim:
    (found,) = dims(kernel, **sizes)
    return found


def used(dim: FreeDim) -> set[str]:
    return {op.name for op, _, _ in dim.uses}


def test_it_begins_at_a_load_of_rows_and_ends_at_the_next_dot() -> None:
    found = only(kernels.plain)
    assert (found.size, found.reason, found.rounded, found.reads) == (64, "", None, ())
    assert [op.result.hint for op in found.loads] == ["s"] and [op.name for op in found.ends] == [DotOp.NAME]
    assert found.first is not found.ends[0]


def test_indices_and_masks_are_uses_of_values_computed_from_scalars() -> None:
    found = only(kernels.causal)
    assert found.reason == "" and {"arith.mulf", "arith.select"} <= used(found)


def test_a_branch_may_hand_it_on() -> None:
    found = only(kernels.branched)
    assert found.reason == "" and "arith.select" in used(found)


def test_a_sum_that_rounds_is_named() -> None:
    found = only(kernels.normalised)
    assert found.reason == "" and found.rounded is not None and found.rounded.name == "tt.reduce"


def test_a_load_through_pointers_may_run_along_it() -> None:
    found = only(kernels.scaled)
    assert found.reason == "" and [op.name for op in found.reads] == ["tt.load"]
    assert "tt.load" in used(found)  # its addresses and its mask


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (kernels.written, "tl.store has an effect along them"),
        (kernels.first_of_largest, "a reduction runs along them"),
        (kernels.read_twice, "a dot sums over them"),
    ],
)
def test_what_depends_on_the_order_is_named_with_its_place(kernel: Any, reason: str) -> None:
    found = only(kernel)
    assert found.reason == reason and found.place is not None and len(found.loads) == 1


def test_a_scan_ends_the_dimension_of_the_first_dot() -> None:
    assert dims(kernels.scanned) == ()
