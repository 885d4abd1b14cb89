"""What the scheduler weighs: cycles of a partition and of the tensor cores, and registers of a value."""

from __future__ import annotations

import pytest

from tawa.analysis.loops.costs import (
    INNER_TRIPS,
    OpCost,
    carried_registers_of,
    cost_of,
    is_free,
    registers_at,
    registers_of,
    repacking_cycles,
    stays_in_registers,
)
from tawa.machine.machines import SM_90
from tawa.machine.nvidia import GLOBAL_CYCLES, SHARED_BYTES_PER_CYCLE
from tests.cases.programs import staged
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import ACC, BUFFER, TILE, TILE_BYTES, branch, kernel, op, ops_named, parse, the


def arithmetic(name: str, type: str, num_warps: int) -> OpCost:
    text = op(f"math.{name}", "%zeros", type, "%made", type)
    return cost_of(the(parse(kernel(text)), f"math.{name}"), num_warps)


def test_a_dot_keeps_the_tensor_cores_busy_and_is_only_issued_by_the_partition() -> None:
    cost = cost_of(the(parse(programs.tile_gemm()), "ttng.warp_group_dot"), 4)
    products, reads = 64**3 // SM_90.costs.fp16_fma_per_cycle, 2 * TILE_BYTES // SHARED_BYTES_PER_CYCLE
    assert (cost.tensor_cycles, cost.unit) == (max(products, reads), "tensor cores")
    assert cost.stream_cycles < cost.tensor_cycles


@pytest.mark.parametrize(("element", "factor"), [("f8E4M3FN", 2), ("i8", 2), ("bf16", 1), ("tf32", 0.5), ("f32", 0.5)])
def test_products_of_narrow_elements_are_faster(element: str, factor: float) -> None:
    assert SM_90.costs.fma_per_cycle(element) == factor * SM_90.costs.fp16_fma_per_cycle


def test_a_tile_takes_longer_where_fewer_warps_compute_it_and_no_less_with_more_than_one_group() -> None:
    one, four, eight = (arithmetic("exp2", ACC, warps).stream_cycles for warps in (1, 4, 8))
    assert one == 4 * four and eight == four > 0
    assert arithmetic("exp2", ACC, 4).unit == "special functions"


def test_a_loop_costs_its_body_as_often_as_it_may_run_and_a_branch_its_longer_side() -> None:
    work = op("math.exp2", "%zeros", ACC, "%made", ACC)
    once = arithmetic("exp2", ACC, 4).stream_cycles
    loop = the(parse(kernel(programs.for_loop(work))), "scf.for")
    assert cost_of(loop, 4).stream_cycles == INNER_TRIPS * once
    choice = branch(work, f"{work.replace('made', 'more')}\n{work.replace('made', 'most')}")
    assert cost_of(the(parse(kernel(choice)), "scf.if"), 4).stream_cycles == 2 * once


def test_what_becomes_no_instruction_is_free() -> None:
    module = parse(programs.tile_gemm())
    assert is_free(the(module, "scf.yield")) and all(map(is_free, ops_named(module, "arith.constant")))
    assert not is_free(the(module, "scf.for"))


def test_an_accumulator_that_becomes_an_operand_stays_in_registers() -> None:
    operand = the(parse(staged.attention()), "scf.for").regions[0].block
    inside = next(it for it in operand.ops if it.name == "ttg.convert_layout")
    outside = next(it for it in ops_named(parse(programs.tile_gemm()), "ttg.convert_layout"))
    assert stays_in_registers(inside) and cost_of(inside, 4) == OpCost()
    assert not stays_in_registers(outside) and cost_of(outside, 4).unit == "shared memory"


def test_threads_exchange_the_registers_of_an_8_bit_operand() -> None:
    loop = the(parse(staged.of_bytes(staged.attention())), "scf.for").regions[0].block
    convert = next(it for it in loop.ops if it.name == "ttg.convert_layout")
    words = 64 * 64 // 4
    assert stays_in_registers(convert)  # no shared memory
    assert cost_of(convert, 4) == OpCost(words // 32 + 2 * words // 64, 0, "cuda cores")


@pytest.mark.parametrize(
    ("element", "registers", "is_repacked"),
    [("f32", 32, False), ("bf16", 16, False), ("f8E5M2", 32, True), ("i8", 32, True), ("i1", 8, False)],
)
def test_a_loop_carries_8_bit_elements_in_a_register_each(element: str, registers: int, is_repacked: bool) -> None:
    type = ACC.replace("xf32", f"x{element}")
    assert carried_registers_of(type, 4) == registers
    assert (repacking_cycles(type, 4) > 0) is is_repacked


@pytest.mark.parametrize(
    ("type", "num_warps", "registers"),
    [
        (ACC, 4, 32), (ACC, 8, 16), (TILE, 4, 16), (BUFFER, 4, 0), ("i32", 4, 1), ("tensor<8xf32, #blocked>", 4, 1),
        ("tensor<128xf32, #ttg.slice<{dim = 1, parent = #mma}>>", 4, 4),
    ],
)  # fmt: skip
def test_a_thread_has_its_share_of_a_tile_and_four_threads_each_hold_a_row(
    type: str, num_warps: int, registers: int
) -> None:
    assert registers_of(type, num_warps) == registers


def test_a_row_of_sums_takes_the_registers_that_its_layout_gives_a_thread() -> None:
    """64 x 8 sums of which a thread has 2 x 2, and 64 sums of which four threads each have 2."""
    parts = (
        "#ttg.linear<{register = [[0, 0, 1], [8, 0, 0], [0, 1, 0], [0, 2, 0], [0, 4, 0]], lane = [[0, 0, 2], "
        "[0, 0, 4], [1, 0, 0], [2, 0, 0], [4, 0, 0]], warp = [[16, 0, 0], [32, 0, 0]], block = []}>"
    )
    by_columns = f"tensor<64x8xf32, #ttg.slice<{{dim = 1, parent = {parts}}}>>"
    by_rows = "tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>"
    for type, registers in ((by_columns, 4), (by_rows, 2), (ACC, 32)):
        made = the(parse(kernel(op("arith.negf", "%x", type, "%y", type), arguments={"x": type})), "arith.negf")
        assert registers_at(made, type, 4) == registers


def test_an_atomic_takes_the_time_of_a_load_only_if_its_result_is_used() -> None:
    alone = programs.atomic("old", "one")
    used = f"{alone}\n{programs.binary('more', 'addi', 'old', 'one')}"
    modules = [parse(kernel(text, arguments=programs.COUNTER)) for text in (alone, used)]
    unused, waited = (cost_of(the(module, "tt.atomic_rmw"), 4) for module in modules)
    assert waited.stream_cycles == GLOBAL_CYCLES > 4 * unused.stream_cycles
