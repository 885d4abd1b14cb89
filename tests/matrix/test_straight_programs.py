"""Kernels whose dots are in no loop: a loop over tiles is put around them, and several programs share an SM."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.gluon.emit import emit_gluon
from tawa.bridge.launch.added_arguments import launch_spec
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.read_module import read_levels
from tawa.errors import PlanError
from tawa.ir import Module, print_module
from tawa.plan import Plan, PlanOptions
from tests.cases.arrays import make_arrays, simulate_case
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find as find_gemm
from tests.cases.pointers.builders import chunk_case, states_case
from tests.cases.pointers.reference import numpy_reference
from tests.cases.simulated import ORDERS, errors, simulated, unspecialised
from tests.matrix.compiling import signature
from tests.support.sample import sample
from tests.support.verdicts import passes
from tests.verify.mutations_oracle import Oracle, Subject
from tests.verify.mutations_sweep import all_sites, judge, mutant_of

pytestmark = pytest.mark.usefixtures("without_ptx")

CHUNKS = chunk_case("chunks", steps=200)
CASES: dict[str, Specimen] = {
    "a chunk's output, with a barrier": CHUNKS,
    "a chunk's output in bf16": chunk_case("chunks_bf16", dtype="bf16"),
    "gradients from states": states_case("states_once", steps=200, values=64),
    "a product by descriptors": find_gemm("single_dot"),
}


@functools.cache
def compiled(name: str, plan: Plan | None = None, **options: Any) -> Any:
    case = CASES[name]
    request = Request(PlanOptions(**({"only_if_faster": False} | options)), plan)
    with launched_by_us():
        return compile_kernel(
            case.kernel, signature(case), request, num_warps=case.num_warps, num_stages=case.num_stages
        )


@pytest.mark.parametrize("name", sample(CASES, 3))
def test_it_becomes_persistent_is_proved_and_has_the_bits_of_the_kernel_as_written(name: str) -> None:
    made, case = compiled(name), CASES[name]
    record = made.metadata.tawa
    found, spec = Plan.of(record["plan"]), launch_spec(made)
    assert found.form == "persistent" and passes(record["verdict"]) and spec.axes
    assert spec.on_one == found.ctas_per_sm
    wanted = simulated(case, unspecialised(case, made))
    module = read_levels(made)[1]
    for programs, order in ((1, "eager"), (2, "late"), (3, "random"), *((4, it) for it in ORDERS)):
        arrays = simulated(case, module, order, programs, spec)
        assert [it for it in wanted if arrays[it].tobytes() != wanted[it].tobytes()] == [], (programs, order)


def test_the_chunks_are_right() -> None:
    made = compiled("a chunk's output, with a barrier")
    arrays = simulated(CHUNKS, read_levels(made)[1], "random", 2, launch_spec(made))
    assert errors(CHUNKS, arrays, numpy_reference).share <= 1


def test_several_programs_share_an_sm_since_each_waits_for_its_dots() -> None:
    spec = launch_spec(compiled("a chunk's output, with a barrier"))
    assert spec.on_one > 1
    assert spec.programs((4096, 2), 132) == 132 * spec.on_one and spec.programs((16, 2), 132) == 32


def test_the_plan_says_how_many_programs_an_sm_gets() -> None:
    name = "a chunk's output, with a barrier"
    assert launch_spec(compiled(name, Plan(ctas_per_sm=1))).on_one == 1
    with pytest.raises(PlanError, match="ctas_per_sm=9"):
        compiled(name, Plan(ctas_per_sm=9))


def test_a_loop_with_dots_in_flight_has_an_sm_to_itself_unless_a_plan_says_otherwise() -> None:
    case = find_gemm("tile_64x64")
    CASES["loop"] = case
    try:
        form = Plan(form="persistent")
        assert launch_spec(compiled("loop", form)).on_one == 1
        assert launch_spec(compiled("loop", Plan(ctas_per_sm=2).over(form))).on_one == 2
    finally:
        del CASES["loop"]


def test_nothing_is_predicted_of_it_so_that_only_launches_choose_it() -> None:
    record = compiled("a chunk's output, with a barrier", only_if_faster=None).metadata.tawa
    assert not record["applied"]
    assert (
        "in no loop but that over tiles, and hardly any such kernel has been timed yet"
        in record["remarks"][0]["reason"]
    )


def test_without_the_form_it_is_declined() -> None:
    record = compiled("a chunk's output, with a barrier", persistent=False).metadata.tawa
    assert not record["applied"] and "not in a loop" in record["remarks"][0]["reason"]


def test_an_emitted_launch_starts_as_many_programs() -> None:
    made = compiled("a chunk's output, with a barrier")
    assert f"min(x * y * z, {launch_spec(made).on_one} * processors)" in emit_gluon(made).text


def subject() -> Subject:
    made = compiled("a chunk's output, with a barrier")
    aref, barrier = map(print_module, read_levels(made))
    spec = launch_spec(made)

    def problem(module: Module, order: Any, seed: int) -> Any:
        arrays = make_arrays(CHUNKS)
        simulate_case(CHUNKS, module, arrays, order, seed, 2, spec)
        return arrays["o"].tobytes()

    return Subject("chunks", "barrier", barrier, {"two programs": problem}, aref)


@pytest.mark.parametrize("kind", sample(["drop", "flip parity", "one byte more", "next slot", "to the end"], 4))
def test_faults_are_refuted(kind: str) -> None:
    broken = subject()
    oracle = Oracle(broken)
    targets = {"ttng.wait_barrier", "ttng.arrive_barrier", "ttng.barrier_expect"}
    found = [site for site in all_sites(broken) if site.kind.name == kind and site.target in targets]
    mutants = [mutant for site in found[:: max(1, len(found) // 4)] if (mutant := mutant_of(broken, site)) is not None]
    fates = [judge(mutant, oracle) for mutant in mutants]
    assert {it.fate for it in fates} <= {"refuted", "equivalent"}, fates
    assert "refuted" in {it.fate for it in fates}
