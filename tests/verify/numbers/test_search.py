"""The search for a witness: which numbers are tried, and what is said if none has a fault."""

from __future__ import annotations

import pytest

from tawa.ir import Module, parse_module
from tawa.verify.arefs import RUNS, check_credits
from tawa.verify.barriers import check_barriers
from tawa.verify.free.proof import MOST, Proof, prove
from tawa.verify.numbers.facts import Facts
from tawa.verify.numbers.search import Search
from tawa.verify.skeleton.compiler import compile_skeleton
from tawa.verify.verdict import Checked, Refuted, Unknown, Verdict
from tests.cases.programs.ttgir import LOCK, compare, gemm_loop, kernel, scalar_load, store
from tests.support.verdicts import passes
from tests.verify import mutations_aref as change
from tests.verify.barriers.test_check import barrier, made, ops
from tests.verify.free.test_proof import specialised


def search(module: Module, budget: int = RUNS["full"], led: bool = False) -> tuple[Verdict, int]:
    """The verdict, and the number of runs. led: by what the proof found."""
    program = compile_skeleton(module)
    assert program is not None
    proof = prove(program, MOST) if led else Proof(False)
    found = Search(program, Facts(program, ()), budget, proof)
    return found.verdict(), found.runs


def test_a_right_program_is_checked_and_the_bound_says_how_many_trips() -> None:
    verdict, runs = search(parse_module(made("tile")[0]))
    assert isinstance(verdict, Checked)
    assert verdict.bound == f"{runs} runs with at most 5 trips of each loop"


def test_the_first_failing_vector_is_a_smallest_one() -> None:
    module = parse_module(made("tile", 3, 1)[0])
    assert change.drop(ops(module, "aref.consumed")[0])
    verdict, _ = search(module)
    assert isinstance(verdict, Refuted)
    (trips,) = verdict.witness.inputs.values()
    assert trips <= 2


def test_a_small_budget_covers_few_trips() -> None:
    verdict, runs = search(parse_module(made("tile")[0]), budget=50)
    assert isinstance(verdict, Checked) and verdict.bound == f"{runs} run with at most 0 trips in total"


def put_without_wait() -> Module:
    """The loop of the producer never waits: right for as many trips as there are slots, which are twelve."""
    module = parse_module(specialised(kernel(f"{gemm_loop()}\n{store()}"), 12, 1))
    for put in ops(module, "aref.put"):
        put.properties["fresh"] = "true"
    return module


def test_the_run_of_the_proof_leads_to_the_witness() -> None:
    led, few = search(put_without_wait(), led=True)
    blind, more = search(put_without_wait())
    assert isinstance(led, Refuted) and led.witness.inputs == {"n": 13}
    assert few < more / 4, (few, more, blind)


def test_a_bound_that_is_compared_before_its_loop_is_still_tried_for_the_loop() -> None:
    """Early puts compare n with 0 first: numbers that only decide this comparison would never fill the ring twice."""
    module = parse_module(specialised(kernel(f"{gemm_loop()}\n{store()}"), 4, 1))
    assert change.make_fresh(ops(module, "aref.put")[-1])
    verdict = check_credits(module)
    assert isinstance(verdict, Refuted) and verdict.witness.inputs == {"n": 5}


def loaded(masked: bool) -> str:
    """A loop up to a number in memory; masked: it is loaded only if n is positive, and 0 otherwise."""
    load = scalar_load("trips", "lock")
    if masked:
        load = load.replace("(%lock)", "(%lock, %some, %zero)").replace("(!tt.ptr<i32>)", "(!tt.ptr<i32>, i1, i32)")
        load = load.replace("array<i32: 1, 0, 0>", "array<i32: 1, 1, 1>")
    return kernel("\n".join((compare("some", "n", "zero", 4), load, gemm_loop(upper="trips"), store())), arguments=LOCK)


@pytest.mark.parametrize("masked", [False, True])
def test_a_number_in_memory_is_chosen_and_a_mask_before_it(masked: bool) -> None:
    module = parse_module(specialised(loaded(masked), 2, 1))
    assert passes(check_credits(module))
    assert change.drop(ops(module, "aref.consumed")[0])
    verdict = check_credits(module)
    assert isinstance(verdict, Refuted)
    assert len(verdict.witness.inputs) == (2 if masked else 1) and ("n" in verdict.witness.inputs) == masked


def test_trips_of_several_loops_that_memory_ends_are_unknown_if_they_must_differ() -> None:
    module = barrier("while_listed")
    loop = ops(module, "scf.while")[0]
    next(it for it in loop.walk() if it.name == "arith.cmpi").properties["predicate"] = "3 : i64"
    verdict = check_barriers(module)
    assert isinstance(verdict, Unknown) and "several loops" in verdict.reason, verdict
