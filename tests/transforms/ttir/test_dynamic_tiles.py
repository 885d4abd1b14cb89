"""`dynamic_tiles`: programs take their next tile from a counter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tawa.dialects import structure_rules
from tawa.dialects.parameters import TILE_COUNTER
from tawa.ir import Module, Value, parse_module, print_module, verify_structure
from tawa.sim import simulate
from tawa.transforms.result import PassResult
from tawa.transforms.ttir.dynamic_tiles import DynamicTiles
from tawa.transforms.ttir.make_persistent import MakePersistent
from tests.analysis.tile_programs import TileProgram
from tests.support.filecheck import brief, check


def made(module: Module) -> PassResult:
    """The result of the pass; checks the structure of the module and its round trip through text."""
    result = DynamicTiles().run(module)
    assert [str(error) for error in verify_structure(module, structure_rules())] == []
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    return result


Part = Callable[[TileProgram], Value]


def program(
    first: Part = lambda p: p.pid(0),
    tiles: Part = lambda p: p.args["n"],
    step: Part = lambda p: p.op("tt.get_num_programs", [], "i32", axis="0 : i32"),
    carried: int = 0,
    beside: Callable[[TileProgram], object] = lambda p: None,
) -> TileProgram:
    """A loop over tiles, each of which adds 1.0 to what is stored at its number."""
    p = TileProgram(a="!tt.ptr<f32>", sizes="!tt.ptr<i32>", n="i32")
    bounds = (first(p), tiles(p), step(p))
    beside(p)

    def body(args: list[Value]) -> list[Value]:
        place = p.add(p.args["a"], args[0])
        load = {"cache": "1 : i32", "evict": "1 : i32", "isVolatile": "false"}
        old = p.op("tt.load", [place], "f32", operandSegmentSizes="array<i32: 1, 0, 0>", **load)
        one = p.op("arith.constant", [], "f32", value="1.000000e+00 : f32")
        p.effect("tt.store", [place, p.op("arith.addf", [old, one], "f32", fastmath="#arith.fastmath<none>")])
        return args[1:]

    p.loop(bounds, [p.number(0)] * carried, body)
    return p


def test_each_tile_takes_one_ticket_and_the_last_ticket_resets_the_counter() -> None:
    module = program().finish()
    assert made(module).changed
    check(
        brief(module),
        """
        CHECK: [[FIRST:%\\w+]] = "tt.get_program_id"() <{axis = 0 : i32}>
        CHECK: [[PROGRAMS:%\\w+]] = "tt.get_num_programs"() <{axis = 0 : i32}>
        CHECK: [[LAST:%\\w+]] = "arith.subi"(%n_0,
        CHECK: "scf.while"([[FIRST]])
        CHECK: [[MORE:%\\w+]] = "arith.cmpi"([[TILE:%\\w+]], %n_0) <{predicate = 2 : i64}>
        CHECK-NEXT: "scf.condition"([[MORE]], [[TILE]])
        CHECK: "tt.store"
        CHECK-NEXT: [[TICKET:%\\w+]] = "tt.atomic_rmw"(%tawa_tile_counter_0, {{.*}})
        CHECK-SAME: <{atomic_rmw_op = 4 : i32, scope = 1 : i32, sem = 1 : i32}>
        CHECK-NEXT: [[RESET:%\\w+]] = "arith.cmpi"([[TICKET]], [[LAST]]) <{predicate = 0 : i64}>
        CHECK-NEXT: "tt.atomic_rmw"(%tawa_tile_counter_0, {{%\\w+}}, [[RESET]]) <{atomic_rmw_op = 10 : i32,
        CHECK-NEXT: [[NEXT:%\\w+]] = "arith.addi"([[TICKET]], [[PROGRAMS]])
        CHECK-NEXT: "scf.yield"([[NEXT]])
        """,
    )


def counts(module: Module, tiles: int, programs: int, seed: int) -> tuple[list[float], int]:
    """How often each tile was worked on, and the counter after two launches with it."""
    found, counter = np.zeros(tiles + 1, np.float32), np.zeros(1, np.int32)
    for launch in range(2):
        arguments = {"a": found, "sizes": np.zeros(1, np.int32), "n": tiles, TILE_COUNTER: counter}
        simulate(module, arguments, (programs,), seed=seed + launch, together=True)
    return found[:tiles].tolist(), int(counter[0])


@pytest.mark.parametrize("tiles", [0, 1, 2, 3, 4, 5, 17])
@pytest.mark.parametrize("programs", [1, 2, 4, 9])
def test_every_tile_is_worked_on_once_in_any_order_and_the_counter_is_zero_again(tiles: int, programs: int) -> None:
    module = program().finish()
    made(module)
    for seed in range(3):
        assert counts(module, tiles, programs, seed) == ([2.0] * tiles, 0)


def test_without_the_reset_the_next_launch_leaves_tiles_out() -> None:
    module = program().finish()
    made(module)
    reset = [op for op in module.walk() if op.name == "tt.atomic_rmw"][-1]
    reset.erase()
    worked, counter = counts(module, 5, 2, 0)
    assert worked != [2.0] * 5 and counter != 0


def test_a_persistent_form_takes_its_tiles_from_a_counter() -> None:
    p = TileProgram(a="!tt.ptr<f32>")
    one = p.op("arith.constant", [], "f32", value="1.000000e+00 : f32")
    p.effect("tt.store", [p.add(p.args["a"], p.add(p.pid(0), p.mul(p.pid(1), p.number(3)))), one])
    module = p.finish()
    assert MakePersistent().run(module).changed and made(module).changed
    stored, counter = np.zeros(12, np.float32), np.zeros(1, np.int32)
    sizes = {"tawa_grid_0": 3, "tawa_grid_1": 4}
    simulate(module, {"a": stored, **sizes, TILE_COUNTER: counter}, (5,), together=True)
    assert stored.tolist() == [1.0] * 12 and counter[0] == 0


def from_results(p: TileProgram) -> Value:
    return p.scalar_load(p.add(p.op("tt.bitcast", [p.args["a"]], "!tt.ptr<i32>"), p.number(8)))


FIT: dict[str, TileProgram] = {
    "as many tiles as memory says": program(tiles=lambda p: p.scalar_load(p.args["sizes"])),
    "as many as an argument and the programs say": program(
        tiles=lambda p: p.mul(p.args["n"], p.op("tt.get_num_programs", [], "i32", axis="0 : i32"))
    ),
}
UNFIT: dict[str, tuple[TileProgram, str]] = {
    "another first tile": (program(first=lambda p: p.add(p.pid(0), p.number(1))), "no loop"),
    "another axis": (program(first=lambda p: p.pid(1)), "no loop"),
    "another step": (program(step=lambda p: p.number(4)), "no loop"),
    "carried": (program(carried=1), "carries values"),
    "a second axis": (program(beside=lambda p: p.pid(1)), "axis 1"),
    "the id twice": (program(beside=lambda p: p.add(p.args["a"], p.pid(0))), "more than the first tile"),
    "tiles of its own": (program(tiles=lambda p: p.add(p.args["n"], p.pid(0))), "more than the first tile"),
    "a number of tiles that the kernel writes": (program(tiles=from_results), "may differ"),
    "an atomic": (
        program(beside=lambda p: p.op("tt.atomic_rmw", [p.args["n"]], "i32", sem="1 : i32", scope="1 : i32")),
        "may give programs an order",
    ),
}


@pytest.mark.parametrize("name", FIT)
def test_the_number_of_tiles_is_the_same_in_all_programs(name: str) -> None:
    assert made(FIT[name].finish()).changed


@pytest.mark.parametrize("name", UNFIT)
def test_a_loop_whose_programs_differ_stays_as_it_is(name: str) -> None:
    p, reason = UNFIT[name]
    module = p.finish()
    before = print_module(module)
    (remark,) = made(module).remarks
    assert remark.kind == "declined" and reason in remark.reason and remark.cure == "tiles='strided' in the Plan"
    assert print_module(module) == before


def test_a_loop_inside_of_a_loop_stays_as_it_is() -> None:
    p = TileProgram(n="i32")
    step = p.op("tt.get_num_programs", [], "i32", axis="0 : i32")

    def body(args: list[Value]) -> list[Value]:
        p.loop((p.pid(0), p.args["n"], step), [], lambda args: [])
        return []

    p.loop((p.number(0), p.args["n"], p.number(1)), [], body)
    (remark,) = made(p.finish()).remarks
    assert "no loop" in remark.reason
