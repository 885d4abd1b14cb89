"""The aref check: correct programs are proved for all trip counts; each kind of fault is refuted by a run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.errors import AssumptionError
from tawa.ir import Module, Operation, ValueMap, clone_op, parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.verify.arefs import RUNS, check_credits
from tawa.verify.assumptions import parse_assumptions
from tawa.verify.effort import Effort
from tawa.verify.free.proof import Proof
from tawa.verify.numbers.facts import Facts
from tawa.verify.numbers.search import Search
from tawa.verify.skeleton.compiler import compile_skeleton
from tawa.verify.verdict import Checked, Proved, Refuted, Unknown, Verdict
from tawa.verify.witness import describe
from tests.cases.programs import ttgir as programs
from tests.cases.programs.nests import Statement, nests, text
from tests.cases.programs.ttgir import ACC, LOCK, binary, for_loop, gemm_loop, iteration, kernel, scalar_load, store
from tests.support.pipeline import specialise
from tests.support.sample import examples, sample
from tests.support.verdicts import passes
from tests.verify import mutations_aref as change

DATA = Path(__file__).parents[2] / "data"
PROGRAMS: dict[str, Callable[[], str]] = {
    "tile": programs.tile_gemm,
    "persistent": programs.persistent_gemm,
    "two_loops": programs.two_loops,
    "gate_up": programs.gate_up,
    "branching": programs.branching_gemm,
    "while": programs.while_gemm,
    "nested": programs.nested_loops,
    "guarded": programs.guarded_gemm,
    "while_sum": programs.while_sum,
    "while_listed": programs.while_listed,
    "searched": programs.searched,
    "dynamic": programs.dynamic_gemm,
    "dynamic_by_tile": lambda: programs.dynamic_gemm(by_tile=True),
}
PLANS = [(depth, p) for depth in range(1, 5) for p in range(3) if depth > p]


@functools.cache
def aref(name: str, depth: int = 3, mma_depth: int = 1) -> str:
    options = PlanOptions(aref_depth=depth, mma_depth=mma_depth)
    made = specialise(PROGRAMS[name](), options, Target(num_warps=4, num_stages=3))
    assert made.applied, made.remarks
    return made.aref


def verdict(text: str, mutate: Callable[[Module], object] | None = None, **options: object) -> Verdict:
    module = parse_module(text)
    if mutate is not None:
        assert mutate(module) is not False
    return check_credits(module, **options)  # type: ignore[arg-type]


def with_numbers(of: str | Module, assume: Sequence[str] = (), budget: int = RUNS["full"]) -> Verdict:
    """The verdict of the search with numbers, which normally runs only if unconstrained trip counts prove nothing."""
    program = compile_skeleton(parse_module(of) if isinstance(of, str) else of)
    assert program is not None
    return Search(program, Facts(program, parse_assumptions(assume)), budget, Proof(False)).verdict()


def refuted(found: Verdict) -> Refuted:
    assert isinstance(found, Refuted), found
    return found


def named(module: Module, name: str) -> list[Operation]:
    return [op for op in module.walk() if op.name == name]


# -- right programs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "mma_depth"), sample(PLANS, 3))
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_pipeline_s_output_is_proved_for_all_trip_counts(name: str, depth: int, mma_depth: int) -> None:
    assert verdict(aref(name, depth, mma_depth)) == Proved()


@pytest.mark.parametrize("file", sorted(DATA.glob("*.mlir")), ids=lambda file: file.stem)
def test_real_kernels_are_proved(file: Path) -> None:
    made = specialise(file.read_text(), PlanOptions(enable_warp_specialization=True), Target(4, 3))
    if made.applied:
        assert check_credits(parse_module(made.aref), effort="fast") == Proved()


def test_a_module_without_rings_is_proved() -> None:
    assert verdict(programs.tile_gemm()) == Proved()


@given(nests(), st.sampled_from([(1, 0), (2, 1), (3, 2)]))
@settings(max_examples=examples(25))
def test_random_nests_of_loops_and_branches_are_proved(nest: tuple[Statement, ...], plan: tuple[int, int]) -> None:
    options = PlanOptions(aref_depth=plan[0], mma_depth=plan[1])
    made = specialise(text(nest), options, Target(4, 3, 10**9), verification="off")
    assert made.applied, made.remarks
    found = check_credits(parse_module(made.aref), effort="fast")
    assert passes(found) or (isinstance(found, Unknown) and "budget" in found.reason), describe(found)


SIX = "\n".join((binary("four", "addi", "two", "two"), binary("six", "addi", "four", "two")))


def window(lower: str = "lo") -> str:
    loop = for_loop(iteration(), lower=lower, upper="hi", carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    return f"{loop}\n{store()}"


def ends(*of: str) -> str:
    """%hi is the minimum of two numbers, %lo is %hi − 6."""
    return "\n".join((SIX, binary("hi", "minsi", *of), binary("lo", "subi", "hi", "six")))


def for_each_tile(body: str) -> str:
    return kernel(for_loop(body, induction="tile", upper="m"))


COMPUTED: dict[str, Callable[[], str]] = {
    "loaded": lambda: kernel(
        "\n".join((scalar_load("trips", "lock"), gemm_loop(upper="trips"), store())), arguments=LOCK
    ),
    "window": lambda: kernel(f"{ends('n', 'm')}\n{window()}"),
    "up to the tile": lambda: for_each_tile(f"{ends('n', 'tile')}\n{window('zero')}"),
    "window of the tile": lambda: for_each_tile(f"{ends('n', 'tile')}\n{window()}"),
}


def computed(name: str) -> str:
    made = specialise(COMPUTED[name](), PlanOptions(only_if_faster=False), Target(4, 3), verification="off")
    assert made.applied, made.remarks
    return made.aref


@pytest.mark.parametrize("effort", ["fast", "full"])
@pytest.mark.parametrize("name", COMPUTED)
def test_loops_with_computed_bounds_are_proved(name: str, effort: Effort) -> None:
    assert check_credits(parse_module(computed(name)), effort=effort) == Proved()
    assert passes(with_numbers(computed(name)))


@pytest.mark.parametrize("name", ["loaded", "window"])
def test_an_extra_put_that_does_not_wait_is_refuted(name: str) -> None:
    def one_more(module: Module) -> None:
        split = next(op for op in named(module, "arith.select") if op.result.hint.startswith("split"))
        constant = split.operands[1].owner.operands[1].owner  # type: ignore[union-attr]
        constant.properties["value"] = "5 : i32"  # type: ignore[union-attr]

    found = refuted(verdict(computed(name), one_more))
    assert found.witness.kind == "write before release"


# -- what goes wrong, with its name ------------------------------------------------------------------------------------


def test_a_ring_of_p_slots_deadlocks_and_the_message_names_the_depth() -> None:
    witness = refuted(verdict(aref("persistent", 2, 1), change.one_slot)).witness
    assert witness.kind == "deadlock"
    assert "D = 1" in witness.message and "D ≥ 2 is needed" in witness.message
    assert {step.partition for step in witness.steps} == {"producer", "consumer"}


def test_a_release_before_the_wgmma_is_done_is_refuted_at_its_line() -> None:
    def move(module: Module) -> object:
        return change.before_the_wait(named(module, "aref.consumed")[0])

    witness = refuted(verdict(aref("tile", 3, 1), move)).witness
    assert witness.kind == "write before release"
    assert "while a wgmma in flight reads it" in witness.message
    assert witness.steps[-1].action == "consumed 0"


def test_a_read_after_the_release_is_refuted() -> None:
    def release_first(module: Module) -> None:
        dot, consumed = named(module, "ttng.warp_group_dot")[0], named(module, "aref.consumed")[0]
        block, at = change.place(dot)
        consumed.detach()
        block.insert(at, consumed)

    witness = refuted(verdict(aref("nested", 2, 0), release_first)).witness
    assert witness.kind == "write before release"


def test_a_dropped_release_is_a_deadlock_or_a_leftover_credit() -> None:
    for number, kind in ((0, "deadlock"), (-1, "leftover credit")):
        text = aref("tile", 3, 1)
        found = refuted(verdict(text, lambda module, at=number: named(module, "aref.consumed")[at].erase()))
        assert found.witness.kind in (kind, "leftover credit")


def test_a_witness_has_the_smallest_failing_trip_counts() -> None:
    found = refuted(verdict(aref("persistent", 3, 1), change.consumer_counts_by_two))
    assert sum(found.witness.inputs.values()) == 2
    assert "leftover" in describe(found) or "refuted" in describe(found)


def test_a_step_of_a_witness_has_its_source_line() -> None:
    module = parse_module(aref("tile"))
    for op in module.walk():
        op.loc = 'loc("kernel.py":12:4)'
    change.consumer_counts_by_two(module)
    witness = refuted(check_credits(module)).witness
    assert str(witness.steps[-1].location) == "kernel.py:12"
    assert witness.steps[-1].slot is not None


def test_two_writers_are_refuted() -> None:
    assert "2 writers" in refuted(verdict(aref("persistent"), change.a_second_writer)).witness.message


def test_a_reader_that_never_releases_is_refuted() -> None:
    text = aref("persistent")
    assert verdict(text, change.a_second_reader) == Proved()
    refuted(verdict(text, change.a_second_reader_never_releases))


# -- token rings and crossed order -------------------------------------------------------------------------------------


def tokens(body: str) -> str:
    """Two partitions and two rings, %a and %b, of one slot without payload (tokens)."""
    rings = "\n".join(
        f'%{ring} = "aref.create"() <{{name = "{ring}"}}> : () -> !aref.ring<1 x ()>\n'
        f'%{ring}0 = "aref.first"(%{ring}) : (!aref.ring<1 x ()>) -> !aref.index<1>'
        for ring in "ab"
    )
    return programs.kernel(f"{rings}\n{body}")


def access(kind: str, ring: str) -> str:
    region = ' ({\n"aref.filled"() : () -> ()\n})' if kind == "put" else ""
    return f'"aref.{kind}"(%{ring}, %{ring}i){region} : (!aref.ring<1 x ()>, !aref.index<1>) -> ()'


def partition(name: str, *accesses: tuple[str, str], upper: str = "n") -> str:
    steps = [access(kind, ring) for kind, ring in accesses]
    steps += [f'%{ring}n = "aref.advance"(%{ring}i) : (!aref.index<1>) -> !aref.index<1>' for ring in "ab"]
    carried = {f"{ring}i": (f"{ring}0", f"{ring}n", "!aref.index<1>") for ring in "ab"}
    loop = programs.for_loop("\n".join(steps), upper=upper, carried=carried, results=f"%{name}:2")
    return (
        f'"warp.group"() <{{partition = "{name}", role = "consumer", num_warps = 4 : i32}}> ({{\n'
        f'{loop}\n"warp.end"() : () -> ()\n}}) : () -> ()'
    )


def pairs(upper: str, before: str = "") -> str:
    """One partition puts one token per trip; the other takes two per trip, in a loop of step two."""
    second = '%a2 = "aref.advance"(%ai) : (!aref.index<1>) -> !aref.index<1>'
    steps = [access("get", "a"), access("consumed", "a"), second]
    steps += [access(kind, "a").replace("%ai", "%a2") for kind in ("get", "consumed")]
    steps.append('%an = "aref.advance"(%a2) : (!aref.index<1>) -> !aref.index<1>')
    carried = {"ai": ("a0", "an", "!aref.index<1>")}
    loop = programs.for_loop("\n".join(steps), upper=upper, carried=carried, results="%taken")
    taker = (
        '"warp.group"() <{partition = "two", role = "consumer", num_warps = 4 : i32}> ({\n'
        f'{loop.replace("%one", "%two", 1)}\n"warp.end"() : () -> ()\n}}) : () -> ()'
    )
    return tokens("\n".join((before, partition("one", ("put", "a"), upper=upper), taker)))


GIVE_A, GIVE_B = ("put", "a"), ("put", "b")
TAKE_A, TAKE_B = (("get", "a"), ("consumed", "a")), (("get", "b"), ("consumed", "b"))


def test_partitions_that_exchange_tokens_are_proved() -> None:
    text = tokens(partition("one", GIVE_A, *TAKE_B) + "\n" + partition("two", *TAKE_A, GIVE_B))
    assert verdict(text) == Proved()


def test_a_token_that_is_never_put_is_a_deadlock() -> None:
    text = tokens(partition("one", GIVE_A, *TAKE_B) + "\n" + partition("two", *TAKE_A))
    assert refuted(verdict(text)).witness.kind == "deadlock"


def test_a_cyclic_wait_for_tokens_is_refuted() -> None:
    text = tokens(partition("one", *TAKE_B, GIVE_A) + "\n" + partition("two", *TAKE_A, GIVE_B))
    witness = refuted(verdict(text)).witness
    assert witness.kind == "deadlock"
    assert "each waits" in witness.message


def test_rings_of_one_slot_read_in_crossed_order_deadlock() -> None:
    twice = (GIVE_A, GIVE_B)
    late = (("get", "b"), ("get", "a"), ("consumed", "a"), ("consumed", "b"))
    assert verdict(tokens(partition("one", *twice) + "\n" + partition("two", *late))) == Proved()
    text = tokens(partition("one", GIVE_A, GIVE_B) + "\n" + partition("two", *late))
    # a is filled twice before the first put of b: one slot of a is too few.
    crossed = text.replace(access("put", "a"), access("put", "a") + "\n" + _again("put"), 1)
    crossed = crossed.replace(access("consumed", "a"), access("consumed", "a") + "\n" + _again("get", "consumed"), 1)
    witness = refuted(verdict(crossed)).witness
    assert witness.kind == "deadlock"
    assert "crossed order" in witness.message


def _again(*kinds: str) -> str:
    """The second access of a pair to ring a, at the next count."""
    advance = '%a2 = "aref.advance"(%ai) : (!aref.index<1>) -> !aref.index<1>'
    return "\n".join((advance, *(access(kind, "a").replace("%ai", "%a2") for kind in kinds)))


def test_a_partition_that_runs_longer_than_the_other_is_refuted() -> None:
    text = tokens(partition("one", GIVE_A, *TAKE_B) + "\n" + partition("two", *TAKE_A, GIVE_B, upper="m"))
    found = refuted(verdict(text))
    assert sorted(found.witness.inputs) == ["m", "n"]
    assert sum(found.witness.inputs.values()) == 1


# -- assumptions, budgets, what it does not know -----------------------------------------------------------------------


def test_an_assumption_excludes_trip_counts_and_the_verdict_states_it() -> None:
    """Without its first release the kernel is correct for zero trips only."""

    def drop(module: Module) -> None:
        named(module, "aref.consumed")[-1].erase()

    text = aref("tile", 3, 0)
    refuted(verdict(text, drop))
    found = verdict(text, drop, assume=("n <= 0",))
    assert found == Proved(("n <= 0",))


@pytest.mark.parametrize(("fact", "right"), [("n % 2 == 0", True), ("n >= 2 and n % 2 == 0", True), ("n >= 2", False)])
def test_an_assumption_with_a_modulus_excludes_the_trip_counts_in_between(fact: str, right: bool) -> None:
    """One partition puts a token per trip, the other takes two per trip: an odd trip count lacks one token."""
    found = check_credits(parse_module(pairs("n")), assume=(fact,))
    assert passes(found) if right else isinstance(found, Refuted), describe(found)
    assert found.assumptions == tuple(fact.split(" and "))


def test_an_assumption_about_an_argument_constrains_bounds_computed_from_it() -> None:
    """ceil(n / 64) trips: an even number if n is a multiple of 128."""
    rounded = "\n".join((
        '%c63 = "arith.constant"() <{value = 63 : i32}> : () -> i32',
        '%c64 = "arith.constant"() <{value = 64 : i32}> : () -> i32',
        programs.binary("up", "addi", "n", "c63"),
        programs.binary("trips", "divsi", "up", "c64"),
    ))  # fmt: skip
    module = parse_module(pairs("trips", rounded))
    found = check_credits(module, assume=("n % 128 == 0",))
    assert passes(found) and found.assumptions == ("n % 128 == 0",)
    assert isinstance(check_credits(module, assume=("n % 64 == 0",)), Refuted)


def test_the_kernel_s_own_assumption_is_used_and_stated_with_its_line() -> None:
    condition = "\n".join((
        programs.binary("rest", "remsi", "n", "two"),
        programs.compare("even", "rest", "zero", 0),
        '"llvm.intr.assume"(%even) : (i1) -> () loc("kernel.py":7:4)',
    ))  # fmt: skip
    assert isinstance(check_credits(parse_module(pairs("n"))), Refuted)
    found = check_credits(parse_module(pairs("n", condition)))
    assert passes(found) and found.assumptions == ("tl.assume at kernel.py:7",)


@pytest.mark.parametrize("stated", ["trips", "n"])
def test_the_kernel_s_own_assumption_may_be_about_what_several_arguments_give(stated: str) -> None:
    condition = "\n".join((
        programs.binary("trips", "subi", "n", "m"),
        programs.binary("rest", "remsi", stated, "two"),
        programs.compare("even", "rest", "zero", 0),
        '"llvm.intr.assume"(%even) : (i1) -> () loc("kernel.py":7:4)',
    ))  # fmt: skip
    assert passes(check_credits(parse_module(pairs("trips", condition)))) == (stated == "trips")


def test_an_assumption_about_an_unused_argument_is_not_stated() -> None:
    assert with_numbers(aref("tile"), ("m >= 3", "n >= 1")).assumptions == ("n >= 1",)


@pytest.mark.parametrize("fact", ["n >= 5", "n >= 1000000", "n % 2 == 0", "n == 3"])
def test_a_proof_that_needs_no_assumption_states_none(fact: str) -> None:
    assert verdict(aref("tile"), assume=(fact,)) == Proved()


@pytest.mark.parametrize("swapped", [False, True])
def test_loops_with_a_common_bound_and_different_steps_are_tried_at_every_trip_count_of_both(swapped: bool) -> None:
    """For either order of the partitions: in steps of two alone, no odd trip count would be tried."""
    module = parse_module(pairs("n"))
    if swapped:
        giver = named(module, "warp.group")[0]
        block = giver.parent
        assert block is not None
        giver.detach()
        block.insert(len(block.ops) - 1, giver)
    witness = refuted(check_credits(module)).witness
    assert witness.inputs == {"n": 1}


def test_unsatisfiable_assumptions_prove_nothing() -> None:
    found = with_numbers(aref("tile"), ("n > 3", "n < 3"))
    assert isinstance(found, Unknown) and "no numbers satisfy" in found.reason


def test_trip_counts_too_large_to_be_tried_are_unknown() -> None:
    found = with_numbers(aref("tile"), ("n >= 1000000",))
    assert isinstance(found, Unknown) and "larger numbers than can be tried" in found.reason


@pytest.mark.parametrize(
    ("fact", "right"), [("n <= 3", True), ("n == 2", True), ("n < 4 and n >= 1", True), ("n <= 4", False)]
)
def test_an_assumed_upper_limit_is_part_of_the_proof(fact: str, right: bool) -> None:
    """A put that never waits is correct for as many trips as there are slots."""

    def never_wait(module: Module) -> None:
        for put in named(module, "aref.put"):
            put.properties["fresh"] = "true"

    found = verdict(aref("tile", 3, 1), never_wait, assume=(fact,))
    assert isinstance(found, Proved if right else Refuted), describe(found)
    assert found.assumptions == tuple(fact.split(" and "))


def test_an_assumption_about_an_unknown_argument_lists_the_arguments() -> None:
    with pytest.raises(AssumptionError, match=r"no integer argument L\. Its integer arguments: n, m"):
        verdict(aref("tile"), assume=("L >= 1",))


def test_an_exhausted_budget_is_unknown() -> None:
    found = verdict(aref("two_loops"), budget=10)
    assert isinstance(found, Unknown) and "budget" in found.reason


def test_a_small_budget_checks_a_smaller_bound() -> None:
    found = with_numbers(aref("two_loops", 4, 2), budget=3000)
    assert isinstance(found, Checked) and found.bound.endswith(" trips in total")


def test_an_unknown_access_is_unknown_with_its_location() -> None:
    def spoil(module: Module) -> None:
        named(module, "aref.consumed")[0].name = "aref.steal"

    found = verdict(aref("tile"), spoil)
    assert isinstance(found, Unknown) and "aref.steal" in found.reason


def test_loops_of_two_partitions_share_a_trip_count_only_if_their_bounds_are_equal() -> None:
    def other_bound(module: Module) -> None:
        loop = [op for op in module.walk() if op.name == "scf.for"][-1]
        arguments = named(module, "tt.func")[0].regions[0].block.args
        loop.set_operand(1, arguments[5])

    witness = refuted(verdict(aref("tile"), other_bound)).witness
    assert {"m", "n"} <= set(witness.inputs)


def test_a_detached_clone_of_a_partition_does_not_affect_the_verdict() -> None:
    module = parse_module(aref("tile"))
    group = named(module, "warp.group")[0]
    clone_op(group, ValueMap())  # detached: not part of the module
    assert check_credits(module) == check_credits(module) == Proved()
