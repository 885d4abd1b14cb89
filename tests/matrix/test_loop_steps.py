"""Loops with a runtime step are specialised, proved, and keep the bits of the unspecialised program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings

from tawa.bridge.driver.data import Specialised
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.ir import parse_module
from tawa.plan import PlanOptions
from tawa.sim.errors import EndlessLoop
from tawa.verify.free.questions import find_questions
from tawa.verify.skeleton.compiler import compile_skeleton
from tests.cases.case import Descriptor, Expectation, Number, Specimen, Tensor
from tests.cases.random.loops import Header, Loops, Nest, examine, programs, render
from tests.cases.random.programs import TILES_ON
from tests.cases.simulated import orders_with_other_bits, simulated, unspecialised
from tests.cases.small import loop_kernels as kernels
from tests.matrix.compiling import Levels, attempted
from tests.support.sample import examples, sample, simulated_once
from tests.support.verdicts import credits_proved, passes

KERNELS: tuple[Any, ...] = (
    kernels.written_out, kernels.unrolled, kernels.by_argument, kernels.below_zero, kernels.backwards, kernels.along_k,
    kernels.inside,
)  # fmt: skip
WARPS = [(4, 1), (8, 1), (8, 2)]
DEPTH = 2
TAKEN = "S > 0 (the step of a loop)"


def case_of(kernel: Any, warps: int) -> Specimen:
    """The kernel on two programs: 64 rows per group."""
    arguments = {
        "a_desc": Descriptor("a", ("BM", "BK")),
        "b_desc": Descriptor("b", ("BK", "BN")),
        "c_desc": Descriptor("c", ("BM", "BN")),
        "T": Number("T"),
        "S": Number("S"),
    }
    tensors = {
        "a": Tensor(("M", "K"), "fp16"),
        "b": Tensor(("K", "BN"), "fp16"),
        "c": Tensor(("M", "BN"), "fp16", "nan"),
    }
    constants = {"BM": 128 if warps == 8 else 64, "BN": 64, "BK": 32}
    sizes = {"T": 5, "S": 2, "PROGRAMS": 2, "M": 6 * constants["BM"], "K": 160}
    return Specimen(
        kernel.fn.__name__,
        kernel,
        arguments,
        tensors,
        constants,
        sizes,
        "programs",
        "",
        Expectation("specialised"),
        num_warps=warps,
    )


def compiled(case: Specimen, groups: int, pinned: bool) -> tuple[Specialised, Levels]:
    asked: dict[str, Any] = {"enable_warp_specialization": True} if pinned else {"only_if_faster": False}
    options = PlanOptions(num_consumer_groups=groups, aref_depth=DEPTH, mma_depth=1, **asked)
    found, levels = attempted(case, options)
    assert isinstance(found, Specialised), found.remarks
    return found, levels


@simulated_once
@pytest.mark.parametrize(("warps", "groups"), WARPS)
@pytest.mark.parametrize("kernel", sample(KERNELS, 4), ids=lambda it: it.fn.__name__)
def test_a_loop_of_any_step_is_proved_and_keeps_its_bits(kernel: Any, warps: int, groups: int) -> None:
    case = case_of(kernel, warps)
    found, levels = compiled(case, groups, pinned=False)
    verdict = found.outcome.verdict
    assert credits_proved(verdict), verdict
    certain = kernel in (kernels.written_out, kernels.unrolled, kernels.backwards, kernels.inside)
    assert verdict.assumptions == (() if certain else (TAKEN,)), verdict
    for tiles, step in ((0, 1), (DEPTH - 1, 2), (DEPTH, 1), (DEPTH + 1, 1), (2 * DEPTH + 1, 2), (2 * DEPTH + 1, 1)):
        launch = case.with_sizes(T=tiles, S=step, PROGRAMS=step)
        wanted = simulated(launch, unspecialised(launch, levels))
        assert orders_with_other_bits(launch, levels, wanted) == [], (tiles, step)


@pytest.mark.parametrize(("warps", "groups"), WARPS)
@pytest.mark.parametrize("kernel", [kernels.written_out, kernels.by_argument], ids=lambda it: it.fn.__name__)
def test_what_is_pinned_is_proved_as_well(kernel: Any, warps: int, groups: int) -> None:
    found, _ = compiled(case_of(kernel, warps), groups, pinned=True)
    assert passes(found.outcome.verdict)


def test_a_step_of_zero_that_a_launch_passes_matters_where_the_loop_begins() -> None:
    """With zero trips the step has no effect; otherwise the loop is endless, as in the unspecialised program."""
    case = case_of(kernels.by_argument, 8).with_sizes(S=0, PROGRAMS=1)
    _, levels = compiled(case, 1, pinned=False)
    empty, endless = case.with_sizes(T=0), case.with_sizes(T=1)
    assert orders_with_other_bits(empty, levels, simulated(empty, unspecialised(empty, levels))) == []
    for run in (lambda: simulated(endless, unspecialised(endless, levels)),
                lambda: orders_with_other_bits(endless, levels, {})):  # fmt: skip
        with pytest.raises(EndlessLoop, match="a loop with step 0 from 0 to 1 never ends"):
            run()


SELECTED = {
    "two nests that share a ring": Loops(
        (
            Nest((Header("pid", "T", "tl.num_programs(0)"),), 3, True, 1, False),
            Nest((Header("LO", "min(T, U)", "2 * S"), Header("-3", "t0 + 1", "S")), 2, False, 1, True),
        ),
        8, None, 2, False,
    ),
    "down around up": Loops(
        (Nest((Header("0", "U", "-2"), Header("pid * 2", "T.to(tl.int64)", "S.to(tl.int64)")), 1, False, 0, True),),
        8, 2, None, True,
    ),
    "between constants": Loops((Nest((Header("-3", "4", "S + 1"),), 2, False, 1, False),), 8, 1, 1, False),
    "three deep": Loops(
        (
            Nest(
                (Header("pid", "T", "pid + 1"), Header("LO + pid", "U", "S"), Header("0", "t1 + 1", "1")),
                2, True, 2, False,
            ),
        ),
        4, None, None, False,
    ),
}  # fmt: skip


@simulated_once
@pytest.mark.parametrize("name", SELECTED)
def test_loops_around_and_behind_each_other_are_proved_and_keep_their_bits(name: str, tmp_path: Path) -> None:
    found = examine(SELECTED[name], tmp_path)
    assert (found.status, found.reason) == ("specialised", ""), render(SELECTED[name])


@simulated_once
@pytest.mark.parametrize("name", SELECTED)
def test_loops_of_any_step_made_persistent_are_proved_and_keep_their_bits(name: str, tmp_path: Path) -> None:
    found = examine(SELECTED[name], tmp_path, TILES_ON)
    assert (found.status, found.reason) == ("specialised", ""), render(SELECTED[name])


@pytest.mark.parametrize("warps", [4, 8])
def test_the_size_of_a_grid_is_positive_without_an_assumption(warps: int) -> None:
    with launched_by_us():
        options = PlanOptions(persistent=True, only_if_faster=False, num_consumer_groups=1)
        found, _ = attempted(case_of(kernels.written_out, warps), options)
    assert isinstance(found, Specialised) and passes(found.outcome.verdict)
    assert found.outcome.verdict.assumptions == ()


@simulated_once
@given(programs())
@settings(max_examples=examples(10), derandomize=True, database=None, phases=(Phase.generate,),
          suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large))  # fmt: skip
def test_random_loops_are_proved_and_keep_their_bits(tmp_path_factory: pytest.TempPathFactory, program: Loops) -> None:
    note(render(program))
    found = examine(program, tmp_path_factory.mktemp("loops"))
    assert found.status != "failed" and not found.reason.startswith("not proved"), found.reason


def test_the_trips_of_a_range_that_starts_below_0_count_from_its_first() -> None:
    """`-1 … T` and `0 … T` are one range, which may have no trip: no query is about less than one trip."""
    _, levels = compiled(case_of(kernels.backwards, 4), 1, pinned=False)
    program = compile_skeleton(parse_module(levels.asm["aref"]))
    assert program is not None
    sites = [site for found in find_questions(program).sites for site in found.values()]
    assert min(site.start for site in sites) == 0 and len({site.unknown for site in sites}) == 1
