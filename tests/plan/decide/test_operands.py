"""What a Plan says of each load that feeds a dot, and what it may say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.analysis.names import name_module, name_of
from tawa.analysis.rings.channels import find_channels
from tawa.analysis.rings.loads import DotLoadInfo, find_dot_loads
from tawa.errors import PlanError
from tawa.ir import Module
from tawa.plan import OperandPlan, Plan
from tawa.plan.decide.operands import check_sharing, moved_loads, names_in, operands_of, path_of, rings_of, stores_of
from tawa.plan.fields import Path
from tests.cases.programs import ttgir as programs
from tests.cases.small.pointer_kernels import ttgir


def program(text: str) -> tuple[Module, list[DotLoadInfo]]:
    module = programs.parse(text)
    name_module(module)
    return module, find_dot_loads(module)


def gate_up() -> tuple[Module, list[DotLoadInfo]]:
    return program(programs.gate_up())


def on_path(path: Path, argument: str | None = None) -> Plan:
    loop = None if argument is None else 0
    return Plan(operands=(OperandPlan(argument, loop, path=path),))


def moved(path: Path, argument: str | None = None) -> list[str | None]:
    """The arguments whose tiles a producer loads."""
    module, loads = gate_up()
    return [name_of(it.load.op)[0] for it in moved_loads(module, loads, on_path(path, argument))]


def test_what_is_left_to_the_consumer_is_not_moved() -> None:
    assert moved("host_descriptor") == ["a_desc", "b_desc", "c_desc"]
    assert moved("consumer", "b_desc") == ["a_desc", "c_desc"]
    with pytest.raises(PlanError, match="the producer has no work; cure: form='stock'"):
        moved("consumer")


@pytest.mark.parametrize("path", ["kernel_descriptor", "promoted", "cp.async", "pointers"])
def test_a_load_by_a_descriptor_of_the_host_goes_by_no_other_path(path: Path) -> None:
    with pytest.raises(PlanError, match=rf"a_desc, .* by {path}, but it is loaded by host_descriptor.*cure: path="):
        moved(path, "a_desc")


def test_pointers_for_all_loads_means_those_that_are_by_pointers() -> None:
    assert moved("pointers") == ["a_desc", "b_desc", "c_desc"]


def test_a_copy_by_cp_async_may_go_through_registers() -> None:
    module, loads = program(ttgir("wrapped"))
    assert [path_of(it, Plan()) for it in loads] == ["cp.async"] * 2
    argument, _, _ = name_of(loads[0].load.op)
    found = moved_loads(module, loads, on_path("registers", argument))
    assert [it.fill for it in found] == ["registers", "cp.async"]
    with pytest.raises(PlanError, match=r"by promoted, but it is loaded by cp\.async, because the tile is not a box"):
        moved_loads(module, loads, on_path("promoted", argument))


def rows_beside(tiles: str, more: str = "") -> tuple[Module, list[DotLoadInfo]]:
    """A row of scales through pointers, which B is multiplied by; `tiles` loads A and B. more: behind the dot."""
    row, pointers = "tensor<1x64xf16, #blocked>", "tensor<1x64x!tt.ptr<f16>, #blocked>"
    properties = "boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false"
    properties += ", operandSegmentSizes = array<i32: 1, 0, 0>"
    body = "\n".join(
        (
            tiles,
            programs.op("tt.splat", "%out", "!tt.ptr<f16>", "%places", pointers),
            programs.op("tt.load", "%places", pointers, "%row", row, properties=properties),
            programs.op("tt.broadcast", "%row", row, "%spread", programs.TILE),
            programs.binary("scaled", "mulf", "b", "spread", programs.TILE),
            programs.alloc("x", "a"),
            programs.alloc("y", "scaled"),
            programs.dot("next", "x", "y", "sum"),
            more,
        )
    )
    loop = programs.for_loop(body, carried={"sum": ("zeros", "next", programs.ACC)}, results="%acc")
    return program(programs.kernel(f"{loop}\n{programs.store()}"))


def test_a_row_through_pointers_stays_with_the_consumer_beside_tiles_by_tma() -> None:
    module, loads = rows_beside(f"{programs.load('a', 'a_desc')}\n{programs.load('b', 'b_desc')}")
    assert [name_of(it.load.op)[0] for it in loads] == ["a_desc", "b_desc", "out"]
    assert [name_of(it.load.op)[0] for it in moved_loads(module, loads, Plan())] == ["a_desc", "b_desc"]
    for path in ("registers", "pointers"):
        assert len(moved_loads(module, loads, on_path(path, "out"))) == 3


def test_a_row_that_the_loop_may_write_goes_with_the_tiles() -> None:
    """It is not loaded one iteration ahead, and the consumer would wait for it in each."""
    properties = "boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32"
    narrow = "tensor<1x64xf16, #blocked>"
    store = programs.op("tt.store", "%places, %row", f"{narrow.replace('xf16', 'x!tt.ptr<f16>')}, {narrow}",
                        properties=properties)  # fmt: skip
    module, loads = rows_beside(f"{programs.load('a', 'a_desc')}\n{programs.load('b', 'b_desc')}", store)
    assert len(moved_loads(module, loads, Plan())) == 3


def test_a_row_goes_with_tiles_that_the_producer_loads_through_pointers() -> None:
    pointers = "tensor<64x64x!tt.ptr<f16>, #blocked>"
    properties = "boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false"
    properties += ", operandSegmentSizes = array<i32: 1, 0, 0>"
    tile = "\n".join(
        (
            programs.op("tt.splat", "%out", "!tt.ptr<f16>", "%all", pointers),
            programs.op("tt.load", "%all", pointers, "%b", programs.TILE, properties=properties),
        )
    )
    module, loads = rows_beside(f"{programs.load('a', 'a_desc')}\n{tile}")
    assert len(moved_loads(module, loads, Plan())) == 3


def test_an_entry_has_the_path_the_ring_and_the_line_of_its_load() -> None:
    module, loads = program(programs.tile_gemm())
    made = operands_of(module, loads, find_channels(loads), Plan())
    assert made.operands == tuple(
        OperandPlan(name, 0, path="host_descriptor", ring="ring0", hoisted=False) for name in ("a_desc", "b_desc")
    )
    assert [it.line for it in made.operands] == ["kernel.py:10", "kernel.py:11"]
    left = operands_of(module, loads, find_channels(loads[:1]), Plan())
    assert [(it.path, it.ring) for it in left.operands] == [("host_descriptor", "ring0"), ("consumer", None)]


def test_loads_that_find_no_place_in_one_ring_are_refused() -> None:
    module, loads = gate_up()
    channels = find_channels(loads)
    check_sharing(module, channels)
    same = [replace(it, name="mine") for it in channels]
    with pytest.raises(PlanError, match=r"puts a_desc, loop 0 .* and b_desc, .* into mine: .*cure: separate rings"):
        check_sharing(module, same)


def test_the_rings_that_a_plan_names_are_those_of_its_loads() -> None:
    _, loads = gate_up()
    pins = Plan(operands=(OperandPlan("b_desc", 0, ring="mine"), OperandPlan("c_desc", 0)))
    assert rings_of(loads, pins) == {loads[1].load.op: "mine"}


def test_stores_by_tma_have_an_entry_and_all_have_a_name() -> None:
    module, _ = program(programs.tile_gemm())
    assert [(it.argument, it.path, it.staged, it.line) for it in stores_of(module)] == [
        ("c_desc", "host_descriptor", None, "kernel.py:20"),
    ]  # fmt: skip
    assert names_in(module) == ([("a_desc", 0, 0), ("b_desc", 0, 0)], [("c_desc", None, 0)])
    by_pointer, _ = program(ttgir("wrapped"))
    assert stores_of(by_pointer) == [] and len(names_in(by_pointer)[1]) == 1
