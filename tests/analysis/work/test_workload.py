"""What each block computes and moves."""

from __future__ import annotations

import pytest

from tawa.analysis.work.workload import BlockWork, find_workload
from tawa.ir import Module
from tests.cases.programs.workloads import by_descriptors, by_pointers, chained, workload


def loop_of(module: Module) -> BlockWork:
    return next(work for work in workload(module).blocks.values() if work.dots)


def around(module: Module) -> BlockWork:
    return next(iter(workload(module).blocks.values()))


def test_the_loop_of_a_matrix_product_has_one_dot_and_its_operands() -> None:
    work = loop_of(by_descriptors(128, 256, 64))
    (dot,) = work.dots
    assert (dot.rows, dot.columns, dot.inner, dot.bits) == (128, 256, 64, 16)
    assert work.operand_bytes == (128 + 256) * 64 * 2
    assert all(it.tma and it.operand for it in work.loads)
    assert work.depth == 1


def test_rows_of_operands_are_counted_in_pieces_of_a_swizzle() -> None:
    assert sum(it.rows for it in loop_of(by_descriptors(128, 256, 64)).loads) == 128 + 64 * 256 * 2 // 128


def test_a_store_and_the_conversion_before_it_are_around_the_loop() -> None:
    work = around(by_descriptors(128, 256, 64))
    assert (work.stored_bytes, work.pointer_stored_bytes) == (128 * 256 * 2, 0)
    assert work.work.conversions == 128 * 256
    assert around(by_pointers(128, 256, 64)).pointer_stored_bytes == 128 * 256 * 4


def test_addresses_of_operands_are_no_work_of_consumers() -> None:
    work = loop_of(by_pointers())
    assert work.work.slots == work.work.integers == 0
    assert work.addresses.integers > 0
    assert not any(it.tma for it in work.loads)


def test_a_tile_whose_neighbours_lie_apart_goes_through_registers_one_element_at_a_time() -> None:
    dense, apart = (loop_of(by_pointers(stride=stride)).loads[0] for stride in (1, 2))
    assert (dense.fill, dense.pieces) == ("cp.async", 128 * 64 / dense.vector)
    assert (apart.fill, apart.pieces, apart.vector) == ("registers", 128 * 64, 1)
    assert apart.runs == 64 * apart.rows and dense.runs == dense.rows


def test_a_load_that_only_makes_a_mask_serves_the_operand() -> None:
    mask, *operands = loop_of(by_pointers(masked=True)).loads
    assert (mask.operand, mask.serves) == (False, True)
    assert [(it.operand, it.serves) for it in operands] == [(True, False)] * 2


@pytest.mark.parametrize(("rows", "unit"), [(64, "wgmma"), (16, "mma")])
def test_a_dot_of_few_rows_is_made_by_mma_sync(rows: int, unit: str) -> None:
    assert loop_of(by_descriptors(rows)).dots[0].unit == unit


def test_a_dot_of_the_result_of_another_is_chained_and_reads_registers() -> None:
    first, second = loop_of(chained()).dots
    assert (first.chained, first.computed, second.chained, second.computed) == (False, False, True, True)
    assert loop_of(chained(128, 64, 128)).work.special == 128 * 64


@pytest.mark.parametrize(
    ("element", "transposed", "transposed_bytes"),
    [("f16", False, 0), ("f16", True, 0), ("f8E4M3FN", False, 256 * 64), ("f8E4M3FN", True, 0)],
)
def test_only_an_operand_of_8_bits_whose_inner_dimension_is_not_innermost_is_transposed(
    element: str, transposed: bool, transposed_bytes: int
) -> None:
    assert loop_of(by_descriptors(element=element, transposed=transposed)).dots[0].transposed_bytes == transposed_bytes


def test_a_module_of_two_functions_has_no_workload() -> None:
    module = by_descriptors()
    module.body.append(by_descriptors().body.ops[0].detach())
    assert find_workload(module) is None
