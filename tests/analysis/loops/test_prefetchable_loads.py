"""Loads of a loop that can be done an iteration before their results are used."""

from __future__ import annotations

import pytest

from tawa.analysis.loops.prefetchable_loads import AheadLoads, bytes_ahead
from tawa.dialects.scf import ForOp
from tests.cases.programs.ttgir import binary, for_loop, kernel, op, parse, scalar_load, the

_POINTERS = {"lock": "!tt.ptr<i32>", "other": "!tt.ptr<i32>"}
_STORE = "boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32"


def moved(result: str, base: str, by: str) -> str:
    """A pointer to a number."""
    return op("tt.addptr", f"%{base}, %{by}", "!tt.ptr<i32>, i32", f"%{result}", "!tt.ptr<i32>")


def store(pointer: str) -> str:
    return op("tt.store", f"%{pointer}, %one", "!tt.ptr<i32>, i32", properties=_STORE)


def use(value: str) -> str:
    return binary(f"{value}_used", "addi", value, "one")


def ahead(*body: str, **carried: tuple[str, str, str]) -> list[str]:
    """The results of the loads of such a loop that can be done ahead."""
    results = "%last" if carried else ""
    loop = for_loop("\n".join(body), carried=carried, results=results)
    module = parse(kernel(loop, arguments=_POINTERS))
    return [load.op.result.hint for load in AheadLoads(ForOp(the(module, "scf.for"))).loads()]


def test_a_number_at_an_address_of_the_loop_variable_can_be_loaded_ahead() -> None:
    assert ahead(moved("at", "lock", "k"), scalar_load("it", "at"), use("it")) == ["it"]


def test_a_pointer_that_the_loop_moves_on_is_known_ahead() -> None:
    carried = {"walk": ("lock", "walk_next", "!tt.ptr<i32>")}
    assert ahead(scalar_load("it", "walk"), use("it"), moved("walk_next", "walk", "one"), **carried) == ["it"]


def test_an_address_that_is_loaded_itself_is_not_known_ahead() -> None:
    chased = (scalar_load("first", "lock"), moved("at", "other", "first"), scalar_load("second", "at"), use("second"))
    assert ahead(*chased) == ["first"]


@pytest.mark.parametrize(("wanted", "found"), [(("step", "it"), ["step", "it"]), (("it",), [])])
def test_a_place_that_a_prefetched_number_leads_to_is_known_ahead(wanted: tuple[str, ...], found: list[str]) -> None:
    walk = (scalar_load("it", "walk"), use("it"), moved("at", "lock", "k"), scalar_load("step", "at"))
    body = (*walk, moved("walk_next", "walk", "step"))
    loop = for_loop("\n".join(body), carried={"walk": ("other", "walk_next", "!tt.ptr<i32>")}, results="%last")
    loads = AheadLoads(ForOp(the(parse(kernel(loop, arguments=_POINTERS)), "scf.for")))
    assert [load.op.result.hint for load in loads.loads(lambda it: it.op.result.hint in wanted)] == found


@pytest.mark.parametrize(("target", "found"), [("lock", []), ("other", ["it"])])
def test_what_the_loop_may_write_is_not_loaded_ahead(target: str, found: list[str]) -> None:
    assert ahead(scalar_load("it", "lock"), use("it"), store(target)) == found


def test_a_barrier_keeps_all_loads_in_their_places() -> None:
    assert ahead(scalar_load("it", "lock"), use("it"), op("gpu.barrier", "", "")) == []


@pytest.mark.parametrize(("divisor", "found"), [("m", []), ("two", ["it"])])
def test_a_division_that_may_be_by_zero_is_not_done_once_too_often(divisor: str, found: list[str]) -> None:
    address = (binary("part", "divsi", "k", divisor), moved("at", "lock", "part"))
    assert ahead(*address, scalar_load("it", "at"), use("it")) == found


def test_a_load_that_is_volatile_or_that_nobody_uses_stays() -> None:
    assert ahead(scalar_load("it", "lock", volatile=True), use("it")) == []
    assert ahead(scalar_load("it", "lock")) == []


def test_a_thread_carries_its_share_of_a_row_and_no_less_than_a_register() -> None:
    properties = f"{_STORE}, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>"
    sizes: list[int] = []
    for size in (64, 1024):
        pointers = f"tensor<{size}x!tt.ptr<f32>, #blocked>"
        made = op("tt.splat", "%lock", "!tt.ptr<i32>", "%at", pointers)
        row = op("tt.load", "%at", pointers, "%row", f"tensor<{size}xf32, #blocked>", properties=properties)
        more = op("math.exp2", "%row", f"tensor<{size}xf32, #blocked>", "%more", f"tensor<{size}xf32, #blocked>")
        module = parse(kernel(for_loop("\n".join((made, row, more))), arguments=_POINTERS))
        (load,) = AheadLoads(ForOp(the(module, "scf.for"))).loads()
        sizes.append(bytes_ahead(load, 4))
    assert sizes == [4, 32]
