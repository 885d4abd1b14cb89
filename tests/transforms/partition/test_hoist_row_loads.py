"""`hoist_row_loads`: a row that feeds the dot of a tile is loaded right behind the tile, if nothing forbids it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.analysis.names import name_module
from tawa.errors import PlanError
from tawa.ir import Module
from tawa.plan import OperandPlan, Plan
from tawa.transforms.partition.hoist_row_loads import HoistRowLoads
from tawa.transforms.result import PassResult
from tests.cases.programs.ttgir import ACC, DESC, TILE, alloc, binary, dot, for_loop, kernel, load, op, parse, store

ROW = "tensor<1x64xf16, #blocked>"
ROW_DESC = "!tt.tensordesc<tensor<1x64xf16, #shared>>"
SCALES = OperandPlan("scales", 0, 0)


def scaled(between: str = "", at: str = "%k, %zero") -> Module:
    """B is computed on before its row of scales is loaded; `between` stands in front of that."""
    body = "\n".join(
        (
            load("a", "a_desc"),
            load("b", "b_desc"),
            op("arith.mulf", "%b, %b", f"{TILE}, {TILE}", "%square", TILE),
            between,
            load("s", "scales", at).replace(f"({DESC}", f"({ROW_DESC}").replace(TILE, ROW),
            op("tt.broadcast", "%s", ROW, "%spread", TILE),
            op("arith.mulf", "%square, %spread", f"{TILE}, {TILE}", "%product", TILE),
            alloc("x", "a"),
            alloc("y", "product"),
            dot("next", "x", "y", "sum"),
        )
    )
    loop = for_loop(body, carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    module = parse(kernel(f"{loop}\n{store()}", arguments={"scales": ROW_DESC}))
    name_module(module)
    return module


def order(module: Module) -> list[str]:
    """The results of the loop, in order."""
    loop = next(op for op in module.walk() if op.name == "scf.for")
    return [op.result.hint for op in loop.regions[0].block.ops if op.results][:4]


def hoisted(module: Module, plan: Plan = Plan()) -> PassResult:
    return HoistRowLoads(plan).run(module)


def test_the_row_is_loaded_beside_the_tile_and_the_plan_says_so() -> None:
    module = scaled()
    result = hoisted(module)
    assert result.changed and order(module) == ["a", "b", "s", "square"]
    assert result.decided == Plan(operands=(replace(SCALES, hoisted=True),))


def test_what_the_rows_index_is_computed_from_moves_in_front_of_it() -> None:
    module = scaled(binary("place", "muli", "k", "two"), at="%zero, %place")
    assert hoisted(module).changed and order(module) == ["a", "b", "place", "s"]


def test_a_store_in_between_keeps_the_row_in_its_place() -> None:
    module = scaled(op("tt.descriptor_store", "%c_desc, %square, %zero, %zero", f"{DESC}, {TILE}, i32, i32"))
    assert not hoisted(module).changed and order(module) == ["a", "b", "square", "s"]


def test_a_plan_may_keep_the_row_in_its_place() -> None:
    module = scaled()
    assert not hoisted(module, Plan(operands=(replace(SCALES, hoisted=False),))).changed
    assert order(module) == ["a", "b", "square", "s"]


def test_a_tile_for_another_dot_moves_up_to_the_first_of_the_ring_that_the_plan_gives_both() -> None:
    def loaded(*rings: str | None) -> list[str]:
        first = "\n".join((load("a", "a_desc"), load("b", "b_desc"), alloc("x", "a"), alloc("y", "b")))
        then = "\n".join((dot("one", "x", "y", "sum"), load("c", "c_desc"), alloc("z", "c")))
        last = dot("next", "x", "z", "one")
        loop = for_loop(f"{first}\n{then}\n{last}", carried={"sum": ("zeros", "next", ACC)}, results="%acc")
        module = parse(kernel(f"{loop}\n{store()}"))
        name_module(module)
        entries = zip(("b_desc", "c_desc"), rings, strict=True)
        hoisted(module, Plan(operands=tuple(OperandPlan(name, 0, ring=ring) for name, ring in entries)))
        return order(module)

    assert loaded("one", "one") == ["a", "b", "c", "x"]
    assert loaded("one", "two") == loaded(None, None) == ["a", "b", "x", "y"]


def test_a_plan_that_moves_what_must_stay_is_an_error_with_its_cure() -> None:
    module = scaled(op("tt.descriptor_store", "%c_desc, %square, %zero, %zero", f"{DESC}, {TILE}, i32, i32"))
    with pytest.raises(PlanError, match=r"hoists the load of scales, loop 0 .*cure: hoisted=false"):
        hoisted(module, Plan(operands=(replace(SCALES, hoisted=True),)))
