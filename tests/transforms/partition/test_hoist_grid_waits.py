"""`hoist_grid_waits`: one wait for earlier grids, in front of everything; the signal to the next grid stays."""

from __future__ import annotations

import pytest

from tawa.dialects.effects import waits_for_grids
from tawa.dialects.inline.code import ElementwiseInlineAsmOp
from tawa.dialects.tt import FuncOp
from tawa.dialects.warp import find_groups
from tawa.ir import Module, Operation
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.transforms.partition.early_puts import EarlyPuts
from tawa.transforms.partition.hoist_grid_waits import HoistGridWaits
from tests.cases.programs.ttgir import (
    branch,
    column,
    compare,
    for_loop,
    gemm_loop,
    guarded_gemm,
    kernel,
    op,
    parse,
    persistent_gemm,
    store,
)
from tests.support.passes import after
from tests.support.pipeline import specialise
from tests.support.verdicts import passes


def assembly(text: str, line: int = 3) -> str:
    properties = f'asm_string = "{text}", constraints = "=r", packed_element = 1 : i32, pure = false'
    return op("tt.elementwise_inline_asm", "", "", f"%dummy{line}", "i32", line=line, properties=properties)


WAIT = assembly("griddepcontrol.wait; // dummy $0")
AGAIN = assembly("griddepcontrol.wait;", 4)
SIGNAL = assembly("griddepcontrol.launch_dependents;", 5)
WORK = f"{gemm_loop()}\n{store()}"

PLACES = {
    "before the loop": f"{column('n')}\n{WAIT}\n{WORK}",
    "behind the loop": f"{gemm_loop()}\n{WAIT}\n{store()}",
    "in a loop": for_loop(f"{WAIT}\n{WORK}", induction="tile", upper="m"),
    "in a branch": f"{branch(WAIT)}\n{WORK}",
    "around a guard": f"{WAIT}\n{branch(WORK)}",
    "in a guard": branch(f"{WAIT}\n{WORK}"),
    "as Triton 3.9 spells it": for_loop(
        f"{op('tt.grid_dependency_wait', '', '')}\n{WORK}", induction="tile", upper="m"
    ),
    "twice": f"{WAIT}\n{gemm_loop()}\n{AGAIN}\n{store()}",
}


def body(module: Module) -> list[Operation]:
    return next(view for it in module.body.ops if (view := FuncOp.of(it))).body.ops


def waits(module: Module) -> list[Operation]:
    return [it for it in module.walk() if waits_for_grids(it)]


@pytest.mark.parametrize("place", PLACES)
def test_one_wait_comes_first(place: str) -> None:
    module = parse(kernel(PLACES[place]))
    assert HoistGridWaits().run(module).changed
    assert waits(module) == [body(module)[0]]
    assert not HoistGridWaits().run(module).changed


def test_a_kernel_without_a_wait_stays_as_it_is() -> None:
    assert not HoistGridWaits().run(parse(kernel(f"{WORK}\n{SIGNAL}"))).changed


@pytest.mark.parametrize("place", PLACES)
def test_the_wait_precedes_all_partitions_and_their_early_puts(place: str) -> None:
    module, _ = after(EarlyPuts, kernel(PLACES[place]), early_puts=2)
    (wait,) = waits(module)
    assert wait in body(module)
    before = body(module)[: body(module).index(wait)]
    assert {it.name for it in before} <= {"aref.create", "arith.constant"}
    assert find_groups(module)


def test_a_guard_beside_a_wait_stays_outside_of_the_partitions() -> None:
    text = guarded_gemm()
    at = text.index(compare("go", "zero", "m", 2))
    module, _ = after(EarlyPuts, f"{text[:at]}{WAIT}\n{text[at:]}")
    assert waits(module) == [body(module)[0]]
    assert all(any(it.name == "scf.if" for it in group.op.ancestors()) for group in find_groups(module))


def test_the_signal_to_the_next_grid_stays_with_the_consumer_in_its_place() -> None:
    module, _ = after(EarlyPuts, kernel(f"{WAIT}\n{gemm_loop()}\n{SIGNAL}\n{store()}"))
    holders = {
        group.role: [it for it in group.op.walk() if ElementwiseInlineAsmOp.of(it)] for group in find_groups(module)
    }
    assert not holders["producer"] and len(holders["consumer"]) == 1
    ops = find_groups(module)[-1].body.ops
    places = [
        ops.index(holders["consumer"][0]),
        next(n for n, it in enumerate(ops) if it.name == "tt.descriptor_store"),
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("text", [kernel(f"{WAIT}\n{WORK}\n{SIGNAL}"), persistent_gemm()])
def test_such_a_kernel_is_specialised_and_proved(text: str) -> None:
    at = text.index('"scf.for"')
    start = text.rindex("\n", 0, at) + 1
    text = text if "griddep" in text else f"{text[:start]}{WAIT}\n{text[start:]}"
    made = specialise(text, PlanOptions(only_if_faster=False), Target(4, 3), pinned=True)
    assert made.applied and passes(made.verdict)
    assert made.barrier.index("griddepcontrol.wait") < made.barrier.index("ttg.warp_specialize")
    assert made.barrier.count("griddepcontrol.wait") == 1
