"""Loops whose step is known only at launch: a peeled iteration is one of the trips of the other partitions.

Two dots of an iteration that feed each other: the first iteration is peeled behind ``lower < upper``, and the loop goes
on from ``lower + step``. Each fault of these bounds is refuted by a run with numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from tawa.dialects.aref import ConsumedOp
from tawa.flow import Outcome
from tawa.ir import Builder, Module, Operation, Value, parse_module
from tawa.plan import LoopPlan, Plan, PlanOptions
from tawa.plan.decide.rings import Target
from tawa.verify.arefs import check_credits
from tawa.verify.assumptions import POSITIVE_STEP, positive_step
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.verdict import Checked, Proved, Refuted, Verdict
from tests.cases.programs.staged import attention_loop, kernel
from tests.cases.programs.ttgir import binary, for_loop, op, store
from tests.support.pipeline import specialise
from tests.support.verdicts import passes
from tests.verify.credits.test_check import named, with_numbers
from tests.verify.credits.test_check_mutations import wrong

OPTIONS = PlanOptions(aref_depth=2, mma_depth=1, only_if_faster=False)
PROGRAMS = op("tt.get_num_programs", "", "", "%programs", "i32", properties="axis = 0 : i32")
PID = op("tt.get_program_id", "", "", "%pid", "i32", properties="axis = 0 : i32")
BEFORE = "\n".join(
    (
        PROGRAMS,
        PID,
        binary("twice", "muli", "m", "two"),
        binary("one_more", "addi", "m", "one"),
        binary("next_program", "addi", "pid", "one"),
        binary("by_programs", "muli", "programs", "m"),
        binary("shorter", "subi", "n", "two"),
        op("arith.constant", "", "", "%seven", "i32", properties="value = 7 : i32"),
        op("arith.constant", "", "", "%below", "i32", properties="value = -5 : i32"),
        op("arith.constant", "", "", "%nothing", "i32", properties="value = 0 : i32"),
    )
)
STEPS = {
    "m": (positive_step("m"),),
    "programs": (),
    "twice": (positive_step("m"),),
    "one_more": (POSITIVE_STEP,),
    "next_program": (POSITIVE_STEP,),
    "by_programs": (POSITIVE_STEP,),
}
BOUNDS = [("zero", "n"), ("pid", "n"), ("below", "n"), ("below", "shorter"), ("pid", "seven"), ("below", "seven")]


@functools.cache
def levels(step: str, lower: str = "zero", upper: str = "n", around: bool = False) -> tuple[str, str]:
    """The aref and the barrier level of the loop; around: in a loop over tiles of the same step."""
    body = f"{attention_loop(upper=upper, lower=lower, step=step)}\n{store()}"
    tiles = for_loop(body, induction="tile", lower="pid", upper="n", step=step)
    source = kernel(f"{BEFORE}\n{tiles if around else body}")
    made = specialise(source, OPTIONS, Target(4, 3, 10**9), verification="off")
    assert made.applied, made.remarks
    return made.aref, made.barrier


def aref(step: str, *bounds: str, around: bool = False) -> Module:
    """The aref level; its first iteration is peeled."""
    module = parse_module(levels(step, *bounds, around=around)[0])
    assert any(guard(it) for it in named(module, "scf.if")), "nothing is peeled"
    return module


def guard(branch: Operation) -> bool:
    """Whether a branch guards a peeled iteration."""
    return any(it.name == "ttng.warp_group_dot" for it in branch.walk())


@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_peeled_iteration_is_tied_to_the_trips_of_a_loop_of_any_step(step: str, around: bool) -> None:
    assert check_credits(aref(step, around=around), effort="fast") == Proved(STEPS[step])


@pytest.mark.parametrize("bounds", BOUNDS[1:])
def test_a_peeled_loop_with_any_bounds_is_proved(bounds: tuple[str, str]) -> None:
    if bounds == ("below", "seven"):  # there is a trip for every step: no query
        assert check_credits(parse_module(levels("m", *bounds)[0])) == Proved(STEPS["m"])
        return
    assert check_credits(aref("m", *bounds)) == Proved(STEPS["m"])


def two_loops(steps: tuple[str, str], around: bool, joined: bool) -> Outcome:
    """Two loops in a row with these steps; around: in a loop over tiles."""
    loops = [attention_loop("first", step=steps[0]), attention_loop("acc", "_2", init="first", step=steps[1])]
    body = "\n".join((*loops, store()))
    source = kernel(f"{BEFORE}\n{for_loop(body, induction='tile', lower='pid', upper='m') if around else body}")
    plan = Plan(loops=(LoopPlan(2 if around else 1, joined=joined),))
    return specialise(source, OPTIONS, Target(4, 3, 10**9), plan, verification="off")


@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("steps", [("m", "programs"), ("one", "m"), ("m", "one"), ("twice", "two"), ("two", "one")])
@pytest.mark.parametrize("joined", [False, True])
def test_consecutive_loops_with_equal_bounds_and_different_steps_are_proved(
    steps: tuple[str, str], around: bool, joined: bool
) -> None:
    """One condition guards the peeled iterations of both; the second loop's are also in a joint iteration."""
    made = two_loops(steps, around, joined)
    assert made.applied, made.remarks
    module = parse_module(made.aref)
    assert sum(map(guard, named(module, "scf.if"))) == (3 if joined else 2)
    found = check_credits(module, effort="fast")
    assert isinstance(found, Proved), found


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("bounds", BOUNDS)
def test_the_search_with_numbers_alone_finds_no_fault(bounds: tuple[str, str], step: str) -> None:
    found = with_numbers(levels(step, *bounds)[0])
    assert isinstance(found, Checked), found


@pytest.mark.parametrize("fact", ["m >= 1", "m == 132", "m % 8 == 0 and m > 0"])
def test_a_fact_that_the_step_is_positive_replaces_the_language_s_assumption(fact: str) -> None:
    found = check_credits(aref("m"), assume=(fact,))
    assert isinstance(found, Proved)
    assert found.assumptions == tuple(fact.split(" and "))


def test_each_release_that_joined_loops_leave_out_is_refuted() -> None:
    """Where the first loop has no trip, the second has none either: nothing is executed there."""
    text = two_loops(("m", "one"), around=True, joined=True).aref
    places = [number for number, op in enumerate(named(parse_module(text), ConsumedOp.NAME)) if not in_an_else(op)]
    assert len(places) == 8
    for number in places:
        module = parse_module(text)
        named(module, ConsumedOp.NAME)[number].erase()
        assert isinstance(check_credits(module, effort="fast"), Refuted), number


def in_an_else(op: Operation) -> bool:
    return any(
        outer.name == "scf.if" and any(inner.parent in outer.regions[1].blocks for inner in (op, *op.ancestors()))
        for outer in op.ancestors()
    )


# -- faults ------------------------------------------------------------------------------------------------------------


def compared(module: Module) -> tuple[Operation, Builder]:
    """The comparison that controls the guard, and a builder before it."""
    branch = next(it for it in named(module, "scf.if") if guard(it))
    compare = branch.operands[0].defining_op
    assert compare is not None and compare.name == "arith.cmpi"
    return compare, Builder.before(compare)


def step_of(module: Module) -> Value:
    """The step of the rest of the loop, which is defined before the guard."""
    branch = next(it for it in named(module, "scf.if") if guard(it))
    return next(it for it in branch.walk() if it.name == "scf.for").operands[2]


def relation(predicate: int) -> Callable[[Module], None]:
    def change(module: Module) -> None:
        compared(module)[0].properties["predicate"] = f"{predicate} : i64"

    return change


def farther(by: Callable[[Module, Builder], Value]) -> Callable[[Module], None]:
    """``lower + by < upper``."""

    def change(module: Module) -> None:
        compare, builder = compared(module)
        lower = compare.operands[0]
        compare.set_operand(0, builder.create("arith.addi", (lower, by(module, builder)), ("i32",)).result)

    return change


def decided(value: int) -> Callable[[Module], None]:
    def change(module: Module) -> None:
        branch = next(it for it in named(module, "scf.if") if guard(it))
        branch.set_operand(0, Builder.before(branch).constant(value, "i1"))

    return change


def moved(which: Callable[[Operation], bool], bound: int, name: str) -> Callable[[Module], None]:
    """Moves one bound of a loop by a step."""

    def change(module: Module) -> None:
        loop = next(it for it in named(module, "scf.for") if which(it))
        at = Builder.before(loop).create(name, (loop.operands[bound], loop.operands[2]), ("i32",)).result
        loop.set_operand(bound, at)

    return change


def computes(loop: Operation) -> bool:
    return any(it.name == "ttng.warp_group_dot" for it in loop.walk())


def fills(loop: Operation) -> bool:
    return any(it.name == "aref.put" for it in loop.walk())


FAULTS: dict[str, Callable[[Module], None]] = {
    "lower <= upper": relation(3),
    "lower != upper": relation(1),
    "lower > upper": relation(4),
    "lower + 1 < upper": farther(lambda _, builder: builder.constant(1, "i32")),
    "lower + step < upper": farther(lambda module, _: step_of(module)),
    "always": decided(1),
    "never": decided(0),
    "the rest begins a step late": moved(computes, 0, "arith.addi"),
    "the rest begins a step early": moved(computes, 0, "arith.subi"),
    "the rest ends a step late": moved(computes, 1, "arith.addi"),
    "the rest ends a step early": moved(computes, 1, "arith.subi"),
    "the producer begins a step late": moved(fills, 0, "arith.addi"),
    "the producer ends a step late": moved(fills, 1, "arith.addi"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("bounds", [("zero", "n"), ("pid", "n")])
@pytest.mark.parametrize("step", ["m", "programs", "twice"])
def test_a_peeled_iteration_behind_another_condition_is_refuted(step: str, bounds: tuple[str, str], fault: str) -> None:
    module = aref(step, *bounds)
    FAULTS[fault](module)
    found = check_credits(module)
    assert isinstance(found, Refuted), found
    assert found.witness.kind in ("deadlock", "leftover credit", "order")


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_an_independent_interpreter_finds_the_same_faults(fault: str | None) -> None:
    module = aref("m")
    if fault is not None:
        FAULTS[fault](module)
    found = wrong(module, 2, steps=(1, 2, 3))
    assert bool(found) == (fault is not None), found


# -- the barrier level -------------------------------------------------------------------------------------------------


def at_barriers(step: str, *bounds: str) -> Verdict:
    return check_barriers(parse_module(levels(step, *bounds)[1]), effort="fast")


def test_a_step_of_zero_is_excluded_and_the_verdict_states_it() -> None:
    found = at_barriers("m")
    assert isinstance(found, Proved), found
    assert found.assumptions[0] == positive_step("m")
    above, below = (parse_module(text) for text in levels("m"))
    assert passes(check_refinement(above, below))


def test_a_constant_step_of_zero_is_not_proved() -> None:
    found = at_barriers("nothing")
    assert isinstance(found, Checked) and found.left == "a loop with a step of 0 or less", found


@pytest.mark.parametrize("fact", ["m == 132", "m >= 7"])
def test_a_fact_replaces_the_assumption_at_the_barrier_level_too(fact: str) -> None:
    found = check_barriers(parse_module(levels("m")[1]), assume=(fact,), effort="fast")
    assert isinstance(found, Proved) and found.assumptions[0] == fact, found


def test_a_fault_in_a_loop_whose_step_may_be_zero_is_refuted() -> None:
    module = parse_module(levels("m")[1])
    named(module, "ttng.wait_barrier")[0].erase()
    assert isinstance(check_barriers(module, effort="fast"), Refuted)
