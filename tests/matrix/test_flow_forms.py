"""Forms of control flow that are specialised: proved, and with the bits of the unspecialised program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tawa.bridge.driver.data import Specialised
from tawa.dialects.tt import StoreOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.flow import Outcome
from tawa.ir import parse_module
from tawa.plan import Plan, PlanOptions
from tests.cases.case import Descriptor, Expectation, Number, Pointer, Specimen, Tensor
from tests.cases.simulated import orders_with_other_bits, simulated, unspecialised
from tests.cases.small import flow_kernels as kernels
from tests.matrix.compiling import Levels, attempted
from tests.support.sample import simulated_once
from tests.support.verdicts import passes

DEPTH = 2
PARTS = 2 * DEPTH + 1
Lists = tuple[tuple[int, ...], ...]
LEGAL = PlanOptions(only_if_faster=False, aref_depth=DEPTH)


def case_of(
    kernel: Any,
    numbers: tuple[int, ...] = (0,),
    warps: int = 4,
    trips: int = PARTS,
    rows: int = 64,
    pointer: bool = False,
) -> Specimen:
    """The kernel on two programs. numbers: in memory, for each program as many. pointer: to the result, in fp32."""
    arguments = {
        "a_desc": Descriptor("a", ("BM", "BK")),
        "b_desc": Descriptor("b", ("BK", "BN")),
        **({"c_ptr": Pointer("c")} if pointer else {"c_desc": Descriptor("c", ("BM", "BN"))}),
        "numbers_ptr": Pointer("numbers"),
        "T": Number("T"),
    }
    tensors = {
        "a": Tensor(("M", "K"), "fp16"),
        "b": Tensor(("K", "BN"), "fp16"),
        "c": Tensor(("M", "BN"), "fp32" if pointer else "fp16", "nan"),
        "numbers": Tensor((len(numbers),), "i32", "values", values=numbers),
    }
    constants = {"BM": rows, "BN": 32, "BK": 32}
    sizes = {"T": trips, "PROGRAMS": 2, "M": 2 * rows, "K": PARTS * 32}
    expected = Expectation("specialised")
    return Specimen(
        kernel.fn.__name__, kernel, arguments, tensors, constants, sizes, "programs", "", expected, num_warps=warps
    )


def specialised(case: Specimen, options: PlanOptions = LEGAL) -> tuple[Plan, Levels]:
    """The Plan of a case and its levels; it must be specialised and proved."""
    found, levels = attempted(case, options)
    assert isinstance(found, Specialised), found.remarks
    assert passes(found.outcome.verdict) and found.outcome.plan is not None
    return found.outcome.plan, levels


def assert_same_bits(case: Specimen, levels: Levels) -> None:
    assert orders_with_other_bits(case, levels, simulated(case, unspecialised(case, levels))) == []


@simulated_once
@pytest.mark.parametrize("warps", [1, 2])
def test_a_launch_of_fewer_warps_than_a_wgmma_gets_a_consumer_of_four(warps: int) -> None:
    plan, levels = specialised(case_of(kernels.plain, warps=warps))
    assert [part.num_warps for part in plan.partitions] == [1, 4]
    assert WarpGroupDotOp.NAME in levels.asm["barrier"]
    for trips in (0, 1, DEPTH, PARTS):
        assert_same_bits(case_of(kernels.plain, warps=warps, trips=trips), levels)


NUMBERS: tuple[tuple[Any, Lists], ...] = (
    (kernels.trips_in_memory, ((0, PARTS), (1, DEPTH))),
    (kernels.bits_counted, ((0, 2**PARTS - 1), (256, 0b1010))),
    (kernels.bits_visited, ((0, 2**PARTS - 1), (0b10000, 0b1010))),
    (kernels.mask_summed, ((0,) * 8 + (1, 1, 0, 1, 0, 0, 1, 1), (0, 0, 0, 0, 1, 0, 0, 0) + (1, 1) + (0,) * 6)),
    (kernels.float_sum_before, ((0,) * 8 + (1, 2, 3, 0, 0, 0, 1, 1), (0, 0, 0, 0, 1, 0, 0, 0) + (2, 1) + (0,) * 6)),
    (kernels.longest_row, ((0,) * 8 + (1, 2, PARTS, 0, 0, 0, 1, 1), (0, 0, 0, 0, 1, 0, 0, 0) + (2, 1) + (0,) * 6)),
)

IN_LOOPS: tuple[tuple[Any, tuple[int, ...]], ...] = (
    (kernels.sum_of_each_tile, (1, 1, 0, 1, 0, 0, 1, 1) + (0,) * 8),
    (kernels.parts_in_use, (0, 3, 0, 0, 1, 1, 0, 0, 1, 0)),
    (kernels.bits_of_each_tile, (0b10110, 0b01000)),
)


@simulated_once
@pytest.mark.parametrize(("kernel", "lists"), NUMBERS, ids=lambda it: getattr(it, "__name__", ""))
def test_trips_from_memory_from_bits_and_from_tiles_are_the_same_in_every_partition(kernel: Any, lists: Lists) -> None:
    trips = 0 if kernel is kernels.longest_row else PARTS
    for numbers in lists:
        case = case_of(kernel, numbers, trips=trips)
        _, levels = specialised(case)
        assert_same_bits(case, levels)


@simulated_once
@pytest.mark.parametrize(("warps", "groups"), [(4, 1), (8, 1), (8, 2)])
@pytest.mark.parametrize(("kernel", "numbers"), IN_LOOPS, ids=lambda it: getattr(it, "__name__", ""))
def test_a_producer_computes_numbers_from_tiles_in_its_loops(
    kernel: Any, numbers: tuple[int, ...], warps: int, groups: int
) -> None:
    case = case_of(kernel, numbers, warps=warps, rows=64 * warps // 4)
    plan, levels = specialised(case, replace(LEGAL, num_consumer_groups=groups))
    tiles = kernel is not kernels.bits_of_each_tile
    assert plan.partitions[0].num_warps == (4 if tiles else 1)
    assert_same_bits(case, levels)


MASK = (1, 0, 2, 1, 1, 0, 0, 0)
FORMS: tuple[tuple[Any, tuple[int, ...]], ...] = (
    (kernels.loops_in_a_row, (0, 2, 0)),
    (kernels.loops_in_a_row, (DEPTH + 2, 0, 1)),
    (kernels.sums_under_branches, MASK),
    (kernels.added_under_a_branch, MASK),
    (kernels.stored_every_few_trips, (0,)),
)


@simulated_once
@pytest.mark.parametrize(("kernel", "numbers"), FORMS, ids=lambda it: getattr(it, "__name__", ""))
def test_loops_in_a_row_and_sums_under_branches_keep_their_bits(kernel: Any, numbers: tuple[int, ...]) -> None:
    _, levels = specialised(case_of(kernel, numbers))
    for trips in (1, DEPTH, PARTS):
        assert_same_bits(case_of(kernel, numbers, trips=trips), levels)


DECLINED = (
    (kernels.second_loop_reads_the_first, "a descriptor's store writes through argument 'c_desc', which the load at"),
    (
        kernels.float_sum_of_each_tile,
        "depends on a reduction, which adds floats in an order that depends on the number",
    ),
    (kernels.sum_of_what_it_writes, "tl.store writes through argument 'numbers_ptr', which the load at"),
    (kernels.sum_of_the_accumulator, "depends on tl.dot, which only the consumer computes"),
    (kernels.lanes_counted, "the run depends on a number that the partitions may compute differently"),
)


@pytest.mark.parametrize(("kernel", "reason"), DECLINED, ids=lambda it: getattr(it, "__name__", ""))
def test_a_number_that_only_the_consumer_has_declines(kernel: Any, reason: str) -> None:
    found, _ = attempted(case_of(kernel, (0,) * 16), LEGAL)
    assert isinstance(found, Outcome) and not found.applied
    assert reason in found.remarks[0].reason, found.remarks[0]


STORED = (
    (kernels.stored_by_pointers, 2, (0,)),
    (kernels.rows_by_a_table, 1, tuple(reversed(range(256)))),
    (kernels.rows_by_a_table, 2, tuple(reversed(range(256)))),
)


@simulated_once
@pytest.mark.parametrize(("kernel", "groups", "numbers"), STORED, ids=lambda it: getattr(it, "__name__", ""))
def test_fp32_results_are_stored_from_the_layout_of_the_dot(kernel: Any, groups: int, numbers: tuple[int, ...]) -> None:
    case = case_of(kernel, numbers, warps=8, rows=128, pointer=True)
    _, levels = specialised(case, replace(LEGAL, num_consumer_groups=groups))
    stores = [it for it in parse_module(levels.asm["barrier"]).walk() if it.name == StoreOp.NAME]
    assert len(stores) == groups and all("#mma" in it.operands[0].type for it in stores)
    assert_same_bits(case, levels)
