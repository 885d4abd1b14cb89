"""A Plan that a compile reports, written as JSON and pinned, produces the same kernel."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("triton")

from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.report.record import plan_of
from tests.cases.attention import cases as attention
from tests.cases.compiled import compile_case
from tests.cases.gemm import cases as gemm
from tests.cases.pointers import cases as pointers
from tests.support.sample import sample

LEGAL = {"only_if_faster": False}
CASES = [
    (gemm, "tile_8warps_nt", {}),
    (gemm, "tile_8warps_nt", {"persistent": True}),
    (gemm, "epilogue_all", LEGAL),
    (gemm, "tile_8warps_128x128", {"num_consumer_groups": 2, "ping_pong": True}),
    (gemm, "two_loops", {"mma_depth": 0}),
    (attention, "two_loops_tile64x64_4warps", LEGAL),
    (attention, "two_loops_tile128x64_8warps", LEGAL),
    (attention, "dkdv_4warps", LEGAL),
    (pointers, "tutorial_8warps_nt", {}),
    (pointers, "tutorial_8warps_nt", {"pointer_loads": "cp.async", **LEGAL}),
    (pointers, "tutorial_8warps_nt", {"persistent": True}),
    (pointers, "weights_packed_strided", LEGAL),
    (pointers, "grouped", LEGAL),
    (pointers, "states", LEGAL),
]


@pytest.mark.parametrize(
    ("family", "name", "options"), sample([pytest.param(*it, id=f"{it[1]}-{'-'.join(it[2])}") for it in CASES], 7)
)
def test_a_plan_that_is_pinned_makes_the_kernel_that_it_was_taken_from(
    family: ModuleType, name: str, options: dict[str, Any]
) -> None:
    case = family.find(name)
    with launched_by_us(function=case.kernel):
        first = compile_case(case, **options)
        plan = plan_of(first.metadata.tawa)
        assert plan is not None
        again = compile_case(case, plan=plan.to_json())
    assert again.asm["ptx"] == first.asm["ptx"]
    assert plan_of(again.metadata.tawa) == plan
    assert _launch(again) == _launch(first)


def _launch(compiled: Any) -> dict[str, Any]:
    """The launch record without what was asked for: the options and the Plan."""
    told = compiled.metadata.tawa.get("launch") or {}
    return {name: value for name, value in told.items() if name not in ("options", "plan")}


def test_columns_that_are_split_are_in_the_plan() -> None:
    case = gemm.find("tile_8warps_128x128")
    made = compile_case(case, plan={"groups": 2, "split": "columns"})
    plan = plan_of(made.metadata.tawa)
    assert plan is not None and plan.split == "columns"
    assert compile_case(case, plan=plan).asm["ptx"] == made.asm["ptx"]
