"""When a launch with fewer than four warps gets a consumer of four, and what automatic mode leaves alone."""

from __future__ import annotations

import pytest

from tawa.errors import PlanError
from tawa.ir import Module, parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.warps import check_other_warps, consumer_warps, why_not_wider, widened
from tawa.remarks import Remark
from tests.cases.programs.ttir import fold, kernel, on_registers

SUM = fold('%p = "arith.addf"(%l, %r) : (f32, f32) -> f32')
LEGAL, MEASURED = PlanOptions(only_if_faster=False), PlanOptions(mode="measure")


def read(middle: str = "", rows: int = 128) -> Module:
    return parse_module(kernel(middle, rows=rows))


def refusal(module: Module, options: PlanOptions | None = None, pinned: bool = False) -> Remark | None:
    return why_not_wider(module, 2, options or PlanOptions(), pinned)


@pytest.mark.parametrize(("launched", "warps"), [(1, 4), (2, 4), (4, 4), (8, 8), (16, 16)])
def test_a_consumer_has_a_whole_warp_group(launched: int, warps: int) -> None:
    assert consumer_warps(launched) == warps


def test_a_kernel_of_dots_alone_may_have_more_warps_and_a_note_says_so() -> None:
    assert refusal(read()) is None
    note = widened(read(), 2)
    assert note is not None and note.kind == "note" and "num_warps=2" in note.reason
    assert widened(read(), 4) is None


def test_automatic_mode_keeps_the_order_of_a_sum() -> None:
    remark = refusal(read(SUM))
    assert remark is not None and remark.kind == "declined"
    assert remark.reason == (
        "num_warps=2: a consumer has at least 4 warps, and 4 warps add the elements of a reduction in another order"
    )
    assert str(remark.location) == "kernel.py:7"
    assert remark.cure == "launch with num_warps=4; only_if_faster=False specialises anyway"
    assert refusal(read(SUM), MEASURED) is not None
    assert why_not_wider(read(SUM), 4, PlanOptions(), False) is None


def test_a_user_who_asks_gets_the_other_order_and_a_note_with_its_line() -> None:
    assert refusal(read(SUM), LEGAL) is None
    assert refusal(read(SUM), pinned=True) is None
    note = widened(read(SUM), 2)
    assert note is not None and "in another order" in note.reason and str(note.location) == "kernel.py:7"


def test_fp8_products_are_added_with_fewer_bits_by_wgmma() -> None:
    module = parse_module(kernel().replace("xf16", "xf8E4M3FN"))
    remark = refusal(module)
    assert remark is not None and "fewer bits" in remark.reason
    assert refusal(module, LEGAL) is None


def test_a_tile_of_few_rows_has_no_wgmma_to_gain() -> None:
    remark = refusal(read(rows=32))
    assert remark is not None and "no dot has 64 rows" in remark.reason
    assert refusal(read(rows=32), LEGAL) is None


def test_the_number_of_a_thread_means_something_else_with_more_warps_for_every_user() -> None:
    module = read(on_registers("mov.u32 $0, %tid.x;"))
    for options in (PlanOptions(), LEGAL):
        remark = refusal(module, options)
        assert remark is not None and "number of a thread" in remark.reason and str(remark.location) == "kernel.py:6"


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (read(on_registers("shfl.sync.bfly.b32 $0, $1, 1, 31, -1;")), "assembly may depend on more than one thread"),
        (read(on_registers("mov.u32 $0, %laneid;")), "assembly may depend on more than one thread (kernel.py:6)"),
        (parse_module(kernel().replace("xf16", "xf8E4M3FN")), "with fewer bits than the instructions of fewer warps"),
        (read(), "wgmma and mma add products in other ways"),
    ],
)
def test_a_kernel_without_partitions_keeps_its_warps_where_results_depend_on_them(module: Module, why: str) -> None:
    with pytest.raises(PlanError) as raised:
        check_other_warps(module, 4, 2)
    assert why in str(raised.value) and "num_warps=2 in a launch with num_warps=4" in str(raised.value)


def test_layouts_tell_whether_a_sum_keeps_its_order_and_whole_warp_groups_multiply_alike() -> None:
    check_other_warps(read(SUM), 4, 8)
    check_other_warps(read(SUM, rows=32), 4, 2)
