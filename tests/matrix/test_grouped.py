"""Programs that share a CTA keep their bits, also where the grid is no multiple of them or their trip counts differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.driver.tuning.every_form import search_of
from tawa.bridge.launch.added_arguments import launch_spec
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.generic_print import read_ttir
from tawa.bridge.triton.read_module import read_levels
from tawa.bridge.triton.structured import new_context
from tawa.dialects.scf import ForOp
from tawa.dialects.ttg import WarpSpecializeOp, WarpSpecializePartitionsOp
from tawa.dialects.ttng import ArriveBarrierOp
from tawa.errors import PlanError
from tawa.ir import Module, Operation, Region, parse_module, print_module
from tawa.plan import LoopPlan, Plan, PlanOptions
from tawa.symbolic.host.launch_spec import Grouped
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Refuted
from tests.cases.attention.builders import forward_case
from tests.cases.attention.cases import CASES as ATTENTION
from tests.cases.attention.cases import find
from tests.cases.case import Specimen
from tests.cases.gemm.cases import CASES as GEMMS
from tests.cases.simulated import orders_with_other_bits, simulated, unspecialised
from tests.matrix.compiling import report, signature
from tests.support.sample import sample, simulated_once
from tests.support.verdicts import credits_proved, passes

WARPS = (WarpSpecializeOp.NAME, WarpSpecializePartitionsOp.NAME)
THREE = Plan(groups=3, split="programs")
FIVE_PROGRAMS = {"SQ": 320, "SK": 384}  # of 64 rows
NO_REGISTERS = (LoopPlan(kept=()),)


def compiled(case: Specimen, plan: Plan, **options: Any) -> Any:
    request = Request(PlanOptions(**options), plan)
    launched = {"num_warps": case.num_warps, "num_stages": case.num_stages}
    with launched_by_us():
        return compile_kernel(case.kernel, signature(case), request, **launched)


def other_bits(case: Specimen, made: Any, tiles_on: int | None = None) -> list[str]:
    wanted = simulated(case, unspecialised(case, made))
    return orders_with_other_bits(case, made, wanted, tiles_on, launch_spec(made))


def attention(name: str, causal: bool, **more: Any) -> Specimen:
    return forward_case(name, dtype="bf16", causal=causal, tile=(64, 128, 4), **{**FIVE_PROGRAMS, **more})


@simulated_once
@pytest.mark.parametrize(("causal", "dim"), sample([(True, 64), (True, 96), (False, 96), (False, 64)], 6))
def test_three_programs_of_attention_are_proved_with_stages_and_do_not_spill(causal: bool, dim: int) -> None:
    case = attention("three", causal, dim=dim)
    if dim == 96:
        case = replace(case, constexprs={**case.constexprs, "BN": 64})
    made = compiled(case, replace(THREE, loops=NO_REGISTERS))
    record = made.metadata.tawa
    assert credits_proved(record["verdict"])
    assert launch_spec(made).grouped == Grouped(0, 3)
    assert {it.stages for it in Plan.of(record["plan"]).schedules} == {2}
    assert report(made).ptxas.spill_bytes == 0
    assert other_bits(case, made) == []


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize("causal", sample([True, False], 3))
def test_a_persistent_form_works_through_groups_of_programs(causal: bool) -> None:
    case = attention("persistent_three", causal)
    made = compiled(case, replace(THREE, form="persistent", loops=NO_REGISTERS))
    assert passes(made.metadata.tawa["verdict"])
    assert other_bits(case, made, tiles_on=2) == []


PAIRS = [
    case.name
    for case in (*ATTENTION, *GEMMS)
    if case.num_warps == 4 and case.expect.verdict == "specialised" and case.constexprs.get("WINDOW", 0) == 0
]


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize("name", sample(PAIRS, 28))
def test_a_pair_of_programs_gives_the_same_bits_or_says_what_it_does_not_share(name: str) -> None:
    case = next(it for it in (*ATTENTION, *GEMMS) if it.name == name)
    try:
        made = compiled(case, Plan(groups=2, split="programs"))
    except PlanError as error:
        assert any(text in str(error) for text in ("no axis of the grid", "depends on the group index", "an order"))
        return
    assert other_bits(case, made) == []


@pytest.mark.usefixtures("without_ptx")
def test_a_group_that_does_not_release_what_both_read_is_refuted() -> None:
    """Each release in the first loop of each group is left out once; for a change, of one tile in each group."""
    text = print_module(read_levels(compiled(attention("kept", True), Plan(groups=2, split="programs")))[1])
    assert passes(check_barriers(parse_module(text)))
    count = len(releases(parse_module(text)))
    assert count == 2 * 2
    for number in sample(range(count), 4):
        module = parse_module(text)
        releases(module)[number].erase()
        assert isinstance(check_barriers(module), Refuted), number


def releases(module: Module) -> list[Operation]:
    """The arrivals in the first loop with arrivals of each consumer group."""
    first: dict[Region, Operation] = {}
    found: list[Operation] = []
    for op in module.walk():
        loop = op.parent_op if op.name == ArriveBarrierOp.NAME else None
        if loop is not None and loop.name == ForOp.NAME and first.setdefault(group_of(loop), loop) is loop:
            found.append(op)
    return found


def group_of(op: Operation) -> Region:
    """The region of the warps that execute an operation."""
    block = next(it.parent for it in (op, *op.ancestors()) if it.parent_op and it.parent_op.name in WARPS)
    assert block is not None and block.parent is not None
    return block.parent


@pytest.mark.usefixtures("without_ptx")
def test_groups_of_different_lengths_refuse_to_alternate() -> None:
    with pytest.raises(PlanError, match="groups whose trip counts differ cannot alternate"):
        compiled(attention("ping_pong", causal=True), THREE, ping_pong=True)
    made = compiled(attention("ping_pong_full", causal=False), replace(THREE, loops=NO_REGISTERS), ping_pong=True)
    assert made.metadata.tawa["plan"]["ping_pong"]


def test_a_compile_that_is_not_for_a_launch_refuses_the_form() -> None:
    case = find("two_loops_tile64x64_4warps")
    with pytest.raises(PlanError, match="no launcher passes the size of the grid"):
        compile_kernel(case.kernel, signature(case), Request(PlanOptions(), THREE), num_warps=4)


@pytest.mark.usefixtures("without_ptx")
def test_the_form_is_told_to_the_user() -> None:
    made = compiled(attention("told", causal=False), THREE)
    assert "3 consumers, each a program of the grid" in made.metadata.tawa["reason"]
    told = {it["field"]: it["value"] for it in made.metadata.tawa["decisions"]}
    assert told["split"] == "programs" and told["groups"] == "3"


@pytest.mark.usefixtures("without_ptx")
def test_measurements_try_programs_that_share_a_cta() -> None:
    made = compiled(attention("measured", causal=True), Plan())
    with launched_by_us():
        search = search_of(read_ttir(made.asm["ttir"], new_context()), 4, 2)
    assert search is not None
    plans = [it.plan for it in search.ranked() if it.plan.split == "programs"]
    assert {plan.groups for plan in plans} == {2, 3} and {plan.form for plan in plans} == {"as_written", "persistent"}
    three = next(plan for plan in plans if plan.groups == 3 and plan.form == "as_written")
    assert launch_spec(compiled(attention("measured", causal=True), three)).grouped == Grouped(0, 3)


@simulated_once
@pytest.mark.parametrize("tile", sample([(128, 128, 64), (64, 256, 64)], 3))
def test_two_programs_of_a_persistent_gemm_store_beside_each_others_dots(tile: tuple[int, int, int]) -> None:
    """Each group has its own tile, accumulators and staging buffer, and both share the tiles of B in slots."""
    case = next(it for it in GEMMS if it.name == "plus_equals")
    sizes = dict(zip(("BM", "BN", "BK"), tile, strict=True))
    case = replace(case, constexprs={**case.constexprs, **sizes}, num_warps=4)
    made = compiled(case, Plan(form="persistent", groups=2, split="programs"))
    record = made.metadata.tawa
    assert passes(record["verdict"]) and report(made).ptxas.spill_bytes == 0
    found = Plan.of(record["plan"])
    assert (found.form, found.consumer_groups, found.mma_depth) == ("persistent", 2, 1)
    assert [ring.slots for ring in found.rings] == [3, 3]
    assert other_bits(case, made, 2) == []
