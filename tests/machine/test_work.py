"""What an operation asks of the units of an SM."""

from __future__ import annotations

import pytest

from tawa.analysis.loops.costs import OpCost, cost_of
from tawa.ir import Block, Builder, Operation, Region, Value
from tawa.machine.classes import BARRIERS, COPIES, DOTS, FENCES, FORKS, FREE, LOADS, STORES
from tawa.machine.work import (
    NOTHING,
    REPACKING_SLOTS,
    Work,
    exchanged_registers,
    is_carried_singly,
    repacking_slots,
    work_of,
)
from tawa.sim.time.cost import Cost, cycles
from tests.analysis.tile_programs import TileProgram
from tests.cases.programs.ttgir import parse, the, tile_gemm

TILE = "tensor<64x32xf32>"
ELEMENTS = 64 * 32


def work(name: str, type: str = TILE, like: str = TILE, operands: int = 1) -> Work:
    p = TileProgram(x=like)
    return work_of(Builder.at_end(p.block).create(name, [p.args["x"]] * operands, (type,)))


def reduction() -> Work:
    p = TileProgram(x=TILE)
    op = Builder.at_end(p.block).create("tt.reduce", [p.args["x"]], ("tensor<64xf32>",))
    op.add_region(_sum())
    return work_of(op)


def _sum() -> Region:
    block = Block(["f32", "f32"])
    total: Value = Builder.at_end(block).create("arith.addf", list(block.args), ("f32",)).result
    Builder.at_end(block).create("tt.reduce.return", [total], ())
    return Region([block])


def test_a_power_of_two_is_a_special_function_and_e_takes_a_product_more() -> None:
    assert work("math.exp2") == Work(special=ELEMENTS)
    assert work("math.exp") == Work(special=ELEMENTS, slots=ELEMENTS)


@pytest.mark.parametrize(
    ("element", "expected"), [("f16", Work(conversions=ELEMENTS)), ("f8E4M3FN", Work(narrow=ELEMENTS))]
)
def test_conversions_to_8_bits_are_counted_apart(element: str, expected: Work) -> None:
    assert work("arith.truncf", f"tensor<64x32x{element}>") == expected


def test_integers_are_counted_apart_from_floats_and_a_division_takes_more() -> None:
    whole = TILE.replace("f32", "i32")
    assert work("arith.addf", operands=2) == Work(slots=ELEMENTS)
    assert work("arith.addi", whole, whole, operands=2) == Work(integers=ELEMENTS)
    assert work("arith.divf", operands=2).slots > 5 * ELEMENTS


def test_a_reduction_takes_its_combiner_for_each_element_and_a_round_of_shuffles() -> None:
    assert reduction() == Work(slots=ELEMENTS, shuffles=1)


@pytest.mark.parametrize("name", ["tt.broadcast", "tt.splat", "arith.bitcast", "tt.trans"])
def test_views_are_free(name: str) -> None:
    assert work(name) == NOTHING


def test_scalars_are_free() -> None:
    assert work("arith.addf", "f32", "f32", operands=2) == NOTHING


@pytest.mark.parametrize(("element", "singly"), [("f32", False), ("f16", False), ("f8E4M3FN", True), ("i1", False)])
def test_tiles_of_bytes_are_carried_one_by_one_and_masks_are_not(element: str, singly: bool) -> None:
    tile = f"tensor<64x32x{element}>"
    assert is_carried_singly(tile) is singly
    assert repacking_slots(tile) == (REPACKING_SLOTS * ELEMENTS if singly else 0)
    assert exchanged_registers(tile) == (ELEMENTS / 4 if singly else 0)


def test_a_scalar_is_not_repacked() -> None:
    assert not is_carried_singly("i8") and repacking_slots("i8") == 0


def test_works_add_up() -> None:
    assert Work(slots=1, narrow=2) + Work(slots=3, shuffles=1) == Work(slots=4, narrow=2, shuffles=1)


def halves(shift: bool = True) -> list[Operation]:
    """``extui %x | extui %x << 16`` on tiles of 16 bits; shift: as halves of a word, else plainly added."""
    p = TileProgram(x="tensor<64x32xi16>")
    builder = Builder.at_end(p.block)
    word = "tensor<64x32xi32>"
    low, high = (builder.create("arith.extui", [p.args["x"]], (word,)) for _ in range(2))
    if not shift:
        return [low, high, builder.create("arith.ori", [low.result, high.result], (word,))]
    moved = builder.create("arith.shli", [high.result, low.result], (word,))
    return [low, high, moved, builder.create("arith.ori", [low.result, moved.result], (word,))]


def test_two_halves_of_a_register_are_joined_for_nothing() -> None:
    assert [work_of(it) for it in halves()] == [NOTHING] * 4
    assert all(work_of(it) == Work(integers=ELEMENTS) for it in halves(shift=False)[2:])


def test_an_operation_is_of_one_class() -> None:
    names = [name for names in (FREE, BARRIERS, FENCES, FORKS, LOADS, STORES, DOTS, COPIES) for name in names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["ttg.memdesc_index", "ttng.warp_group_dot_wait", "tt.broadcast", "arith.constant"])
def test_what_is_free_for_the_scheduler_is_free_for_the_clock(name: str) -> None:
    op = Builder.at_end(Block()).create(name, [], ("i32",))
    assert cost_of(op, 4) == OpCost() and cycles(op) == Cost()


def test_the_scheduler_and_the_clock_know_one_dot() -> None:
    dot = the(parse(tile_gemm()), "ttng.warp_group_dot")
    assert cost_of(dot, 4).tensor_cycles == cycles(dot).busy_cycles > 0
