"""Proofs for unconstrained trip counts: attention kernels are proved, and faulty programs never are.

A mutant that is proved so must be right in every run that the search with numbers, and an interpreter that shares
nothing with either, can find.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tawa.ir import Module, Operation, parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.verify.arefs import check_credits
from tawa.verify.free.free_run import MOST
from tawa.verify.free.proof import prove
from tawa.verify.skeleton.compiler import compile_skeleton
from tawa.verify.skeleton.program import MAIN, UnsupportedError
from tawa.verify.verdict import Checked, Proved, Refuted
from tests.cases.programs.nests import Statement, nests, text
from tests.cases.programs.ttgir import ACC, binary, for_loop, gemm_loop, iteration, kernel, op, store
from tests.support.pipeline import specialise
from tests.support.sample import examples, sample
from tests.support.verdicts import passes
from tests.verify.credits.test_check import PROGRAMS, aref, named, pairs, with_numbers
from tests.verify.credits.test_check_mutations import wrong
from tests.verify.mutations_aref import mutants

PLANS = [(1, 0), (2, 1), (3, 2)]
BOUNDS = ("zero", "two", "n", "m", "least", "half")


def proved(module: Module, budget: int = MOST) -> bool:
    """Whether the check reports two writers of a ring, or an unknown operation, before any run."""
    try:
        program = compile_skeleton(module)
    except UnsupportedError:
        return False
    assert program is not None
    writers = [[name for name in ring.writers if name != MAIN] for ring in program.rings]
    return all(len(names) < 2 for names in writers) and prove(program, budget).holds


def in_a_row(bounds: list[tuple[str, str]]) -> str:
    """Loops from bound to bound over one accumulator, as attention has for full and for masked blocks."""
    parts = [
        binary("least", "minsi", "n", "m"),
        binary("half", "divsi", "least", "two"),
    ]
    for at, (lower, upper) in enumerate(bounds):
        carried = {"sum": (f"sum{at}" if at else "zeros", "next", ACC)}
        parts.append(for_loop(iteration(), lower=lower, upper=upper, carried=carried, results=f"%sum{at + 1}"))
    return "\n".join((*parts, store(f"sum{len(bounds)}")))


def specialised(source: str, depth: int, mma_depth: int) -> str:
    options = PlanOptions(aref_depth=depth, mma_depth=mma_depth, only_if_faster=False)
    made = specialise(source, options, Target(4, 3, 10**9), verification="off")
    assert made.applied, made.remarks
    return made.aref


def splits(module: Module) -> list[Operation]:
    return [op for op in named(module, "arith.select") if op.result.hint.startswith("split")]


# -- what is right -----------------------------------------------------------------------------------------------------

ROWS = {
    "full and masked": [("zero", "half"), ("half", "m")],
    "masked, full, masked": [("half", "least"), ("least", "m"), ("m", "n")],
    "the same twice": [("zero", "n"), ("zero", "n")],
    "from another place": [("half", "m"), ("least", "m")],
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", ROWS)
def test_consecutive_loops_are_proved_within_a_small_budget(name: str, plan: tuple[int, int]) -> None:
    assert proved(parse_module(specialised(kernel(in_a_row(ROWS[name])), *plan)), 4000)


@pytest.mark.parametrize("name", ROWS)
def test_consecutive_loops_in_a_loop_over_tiles_are_proved(name: str) -> None:
    tiles = for_loop(in_a_row(ROWS[name]).replace("%m,", "%tile,"), induction="tile", upper="m")
    assert proved(parse_module(specialised(kernel(tiles), 2, 1)))


@given(
    st.lists(st.tuples(st.sampled_from(BOUNDS), st.sampled_from(BOUNDS[2:])), min_size=1, max_size=4),
    st.sampled_from(PLANS),
)
@settings(max_examples=examples(12))
def test_consecutive_loops_with_any_bounds_are_proved(bounds: list[tuple[str, str]], plan: tuple[int, int]) -> None:
    assume(not any({("zero", upper), ("two", upper)} <= set(bounds) for upper in BOUNDS))
    module = parse_module(specialised(kernel(in_a_row(bounds)), *plan))
    assert check_credits(module, effort="fast") == Proved()


# -- what is not -------------------------------------------------------------------------------------------------------


def test_a_protocol_that_relies_on_a_relation_of_unknowns_is_left_to_the_search() -> None:
    """One partition puts a token per trip, the other takes two per trip."""
    module = parse_module(pairs("n"))
    assert not proved(module)
    found = check_credits(module, assume=("n % 2 == 0",))
    assert passes(found) and found.assumptions == ("n % 2 == 0",)


def test_a_relation_between_trip_counts_of_two_loops_is_left_to_the_search() -> None:
    """If the first loop has no trip after the early puts, the second has none either."""
    module = parse_module(specialised(kernel(in_a_row([("zero", "n"), ("two", "n")])), 1, 0))
    assert not proved(module)
    assert isinstance(check_credits(module), Checked)


@pytest.mark.parametrize("name", ["while", "while_sum", "while_listed", "searched"])
def test_a_while_is_proved_with_an_unconstrained_trip_count(name: str) -> None:
    assert proved(parse_module(aref(name)))


@pytest.mark.parametrize("place", [0, 1])
def test_whiles_with_different_conditions_have_different_trip_counts(place: int) -> None:
    module = parse_module(aref("while_listed"))
    loop = named(module, "scf.while")[place]
    next(it for it in loop.walk() if it.name == "arith.cmpi").properties["predicate"] = "3 : i64"
    assert not proved(module)


# -- control flow without accesses -------------------------------------------------------------------------------------


def searching(one: str = "", other: str = "") -> Module:
    """A kernel with a binary search before its loop. one, other: what the search of the last partition has instead."""
    before, _, behind = aref("searched", 2, 1).rpartition(one or "module")
    assert before, one
    return parse_module(before + (other or "module") + behind)


def test_the_iterations_of_a_loop_without_accesses_are_no_states() -> None:
    """Each has a load, and each would double the states."""
    assert proved(searching(), 4000)
    assert check_credits(searching(), effort="fast") == Proved()


@pytest.mark.parametrize("place", range(3))
def test_a_release_that_is_missing_behind_a_search_is_refuted(place: int) -> None:
    module = searching()
    found = [*named(module, "aref.consumed"), *named(module, "aref.put")]
    found[place].erase()
    assert not proved(module)
    assert isinstance(check_credits(module), Refuted)


UNLIKE = {
    "predicate = 3 : i64": "predicate = 2 : i64",  # looks for larger numbers
    '"tt.addptr"(%lock_0, %mid_2)': '"tt.addptr"(%lock_0, %both_2)',  # reads elsewhere
    '"tt.addptr"(%lock_0, %mid_2) ': '"tt.addptr"(%lock_0, %low_2) ',
    '"scf.while"(%zero_2, %n_0)': '"scf.while"(%one_2, %n_0)',  # starts elsewhere
    '"scf.while"(%zero_2, %n_0) ': '"scf.while"(%zero_2, %m_0) ',  # ends elsewhere
    '"arith.cmpi"(%number_2, %m_0)': '"arith.cmpi"(%number_2, %n_0)',
    '"arith.addi"(%mid_2, %one_2)': '"arith.addi"(%mid_2, %two_2)',  # in a branch
    '"scf.yield"(%low_2)': '"scf.yield"(%mid_2)',
    "%less_2, %high_2, %mid_2)": "%less_2, %mid_2, %high_2)",  # the same operands in other roles
    '"scf.yield"(%low_next_2, %high_next_2)': '"scf.yield"(%high_next_2, %low_next_2)',
    'scf.for"(%zero_2, %found_2#0': 'scf.for"(%zero_2, %found_2#1',  # another result
}


@pytest.mark.parametrize("one", UNLIKE)
def test_searches_that_differ_anywhere_have_different_results(one: str) -> None:
    """Also the lower and the upper end, which a search ends with at one place: that is not derived."""
    assert not proved(searching(one, UNLIKE[one]))


def test_a_search_in_memory_that_may_change_has_another_result_in_each_partition() -> None:
    volatile = searching()
    for load in named(volatile, "tt.load"):
        load.properties["isVolatile"] = "true"
    assert not proved(volatile)
    text = aref("searched", 2, 1)
    cached = "cache = 1 : i32, evict = 1 : i32"
    stored = op("tt.store", "%lock_0, %zero_3", "!tt.ptr<i32>, i32", properties=cached)
    written = parse_module(text.replace("    %acc_narrow_0 =", f"    {stored}\n    %acc_narrow_0 ="))
    assert len(named(written, "tt.store")) == 1
    assert not proved(written)


def long_loop(trips: int) -> str:
    """One tile, with a constant trip count."""
    many = op("arith.constant", "", "", "%many", "i32", properties=f"value = {trips} : i32")
    return specialised(kernel(f"{many}\n{gemm_loop(upper='many')}\n{store()}"), 3, 1)


def test_a_large_constant_trip_count_costs_as_much_as_an_unknown_one() -> None:
    module = parse_module(long_loop(4096))
    assert proved(module, 1000)
    named(module, "aref.consumed")[0].erase()
    assert not proved(module)


@pytest.mark.parametrize("change", ["one more", "another end", "another comparison"])
def test_a_split_is_recognised_only_in_the_form_that_early_puts_compute(change: str) -> None:
    module = parse_module(specialised(kernel(in_a_row(ROWS["full and masked"])), 2, 1))
    [split] = splits(module)
    condition, near = (split.operands[at].owner for at in (0, 1))
    assert isinstance(condition, Operation) and isinstance(near, Operation)
    assert proved(module)
    match change:
        case "one more":  # than there are slots
            constant = near.operands[1].owner
            assert isinstance(constant, Operation)
            constant.properties["value"] = "3 : i32"
        case "another end":
            split.set_operand(2, near.operands[0])
        case _:
            less = condition.operands[0].owner
            assert isinstance(less, Operation)
            less.properties["predicate"] = "4 : i64"
    assert not proved(module)


# -- against numbers, and against an interpreter -----------------------------------------------------------------------


@pytest.mark.parametrize("name", sample(PROGRAMS, 6))
def test_no_mutant_with_a_fault_is_proved(name: str) -> None:
    missed: list[str] = []
    kept = 0
    for mutant in mutants(aref(name, 2, 1)):
        if not proved(mutant.module):
            continue
        kept += 1
        if "second" not in mutant.kind and mutant.kind != "does not wait" and (reason := wrong(mutant.module, 2)):
            missed.append(f"{mutant}: {reason}")
        if isinstance(found := with_numbers(mutant.module, budget=15_000), Refuted):
            missed.append(f"{mutant}: {found.witness.message}")
    assert missed == []
    assert kept > 2


def hold_against_numbers(aref: str, first: int) -> None:
    """Three mutants, one after the other from `first` on."""
    for mutant in itertools.islice(mutants(aref), first, first + 3):
        if proved(mutant.module):
            assert not isinstance(with_numbers(mutant.module, budget=15_000), Refuted), str(mutant)


@given(nests(), st.sampled_from(PLANS), st.integers(0, 60))
@settings(max_examples=examples(8))
def test_no_mutant_with_a_fault_of_a_random_nest_is_proved(
    nest: tuple[Statement, ...], plan: tuple[int, int], lot: int
) -> None:
    hold_against_numbers(specialised(text(nest), *plan), lot)


@given(
    st.lists(st.tuples(st.sampled_from(BOUNDS), st.sampled_from(BOUNDS[2:])), min_size=1, max_size=3),
    st.sampled_from(PLANS),
    st.integers(0, 60),
)
@settings(max_examples=examples(8))
def test_no_mutant_with_a_fault_of_consecutive_loops_is_proved(
    bounds: list[tuple[str, str]], plan: tuple[int, int], lot: int
) -> None:
    hold_against_numbers(specialised(kernel(in_a_row(bounds)), *plan), lot)
