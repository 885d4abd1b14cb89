"""The search for a witness: which numbers are tried, and what is said if none has a fault."""

from __future__ import annotations

import pytest

from tawa.ir import Module, parse_module
from tawa.verify.arefs import RUNS, check_credits
from tawa.verify.barriers import check_barriers
from tawa.verify.free.free_run import MOST
from tawa.verify.free.proof import Proof, prove
from tawa.verify.numbers.facts import Facts
from tawa.verify.numbers.search import Search
from tawa.verify.skeleton.compiler import compile_skeleton
from tawa.verify.verdict import Checked, Refuted, Unknown, Verdict
from tests.cases.programs.ttgir import LOCK, binary, compare, gemm_loop, kernel, op, scalar_load, store
from tests.support.verdicts import passes
from tests.verify import mutations_aref as change
from tests.verify.barriers.test_check import barrier, made, ops
from tests.verify.barriers.test_foreign import INVAL, LANDED
from tests.verify.barriers.test_foreign import kernel as foreign
from tests.verify.free.test_proof import specialised
from tests.verify.skeleton.counting import wait, waits


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
    assert (
        isinstance(verdict, Checked)
        and verdict.bound == f"{runs} run, of the tried numbers all with at most 0 trips in total"
    )


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


def invalidated_if(*lines: str) -> Verdict:
    """Of a barrier that is invalidated if %more holds, and again if %also holds."""
    once = f'"scf.if"(%more) ({{\n{INVAL}\n"scf.yield"() : () -> ()\n}}, {{\n}}) : (i1) -> ()'
    return check_barriers(foreign(*LANDED, *lines, once, once.replace("%more", "%also")))


def test_a_run_with_a_division_by_zero_is_no_witness() -> None:
    """(n / n) is 1, and if n is 0, no number."""
    lines = [binary("part", "divsi", "n", "n"), compare("more", "part", "zero", 4), compare("also", "n", "n", 1)]
    verdict = invalidated_if(*lines, compare("late", "part", "zero", 1).replace("%late", "%unused"))
    assert not isinstance(verdict, Refuted), verdict
    half = [
        binary("part", "divsi", "zero", "n"),
        compare("more", "part", "zero", 1),
        compare("also", "part", "zero", 1),
    ]
    found = invalidated_if(*half)
    assert isinstance(found, Checked) and "undefined" in found.bound, found


def test_numbers_that_are_computed_from_one_float_may_be_related() -> None:
    """Neither equal nor independent; one of them alone may be any number."""
    load = '%x = "tt.load"(%at_x) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<f32>) -> f32'
    cast = '%at_x = "tt.bitcast"(%counter) : (!tt.ptr<i32>) -> !tt.ptr<f32>'
    sums = [
        op("arith.addf", "%x, %x", "f32, f32", "%sum", "f32"),
        op("arith.mulf", "%sum, %x", "f32, f32", "%by", "f32"),
    ]
    numbers = [op("arith.fptosi", f"%{it}", "f32", f"%{it}_i", "i32") for it in ("sum", "by")]
    flags = [compare("more", "sum_i", "zero", 4), compare("also", "by_i", "zero", 4)]
    for flag in (flags[1], compare("also", "by_i", "zero", 3)):  # a proof that takes both for one would hold
        verdict = invalidated_if(cast, load, *sums, *numbers, flags[0], flag)
        assert isinstance(verdict, Unknown) and "may be related" in verdict.reason, verdict
    alone = invalidated_if(cast, load, *sums, *numbers, flags[0], compare("also", "sum_i", "zero", 4))
    assert isinstance(alone, Refuted), alone


WIDE = (
    '%address = "tt.bitcast"(%counter) : (!tt.ptr<i32>) -> !tt.ptr<i64>',
    '%both = "tt.load"(%address) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<i64>) -> i64',
    op("arith.trunci", "%both", "i64", "%other", "i32"),
)
ROW, TILE = "tensor<64x!tt.ptr<i32>>", "tensor<64xi32>"
FOLD = f'^bb0(%l: i32, %h: i32):\n{binary("most", "maxsi", "l", "h")}\n"tt.reduce.return"(%most) : (i32) -> ()'
LARGEST = (
    op("tt.splat", "%counter", "!tt.ptr<i32>", "%row", ROW),
    op("tt.load", "%row", ROW, "%tile", TILE, properties="operandSegmentSizes = array<i32: 1, 0, 0>"),
    f'%other = "tt.reduce"(%tile) <{{axis = 0 : i32}}> ({{\n{FOLD}\n}}) : ({TILE}) -> i32',
)


@pytest.mark.parametrize("lines", [WIDE, LARGEST], ids=["low half of 64 bits", "largest of a tile"])
def test_numbers_that_are_read_from_the_same_memory_may_be_related(lines: tuple[str, ...]) -> None:
    """The other number is the same one: never above 0 where it is not."""
    number = scalar_load("number", "counter")
    flags = compare("more", "number", "zero", 4), compare("also", "other", "zero", 3)
    verdict = invalidated_if(number, *lines, *flags)
    assert isinstance(verdict, Unknown) and "may be related" in verdict.reason, verdict
    alone = compare("more", "n", "zero", 4), flags[1]
    assert isinstance(invalidated_if(*lines, *alone), Refuted), "by itself it is any number"


def test_the_number_of_barriers_bounds_the_trips_of_a_ring_that_is_not_recognised() -> None:
    slots = (binary("s", "muli", "it", "it"), binary("s4", "andi", "s", "c3"), wait("s4", "zero"))
    program = waits(*slots, binary("more", "addi", "it", "c1"), carried={"it": ("zero", "more", "i32")}, depth=4)
    assert not program.lifted and Search(program, Facts(program, ()), 1, Proof(False)).most == 9
