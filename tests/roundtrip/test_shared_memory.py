"""The planner's estimate of shared memory against Triton's allocation."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from tawa.analysis.loops.corrections import find_correction
from tawa.analysis.resources import SLACK_BYTES
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.data import Specialised
from tawa.bridge.driver.request import Request
from tawa.bridge.driver.stock_overflow import _allocated
from tawa.bridge.triton.structured import new_context
from tawa.flow import Flow, run
from tawa.ir import parse_module, print_module
from tawa.machine.machines import SM_90, SM_100, Machine
from tawa.pipeline import RINGS
from tawa.plan import Plan, PlanOptions
from tawa.plan.decide.rings import Target, budget_of
from tawa.plan.fields import RingPlan
from tests.cases.attention.cases import CASES as ATTENTION
from tests.cases.attention.cases import find
from tests.cases.case import Specimen
from tests.cases.gemm.cases import CASES as GEMM
from tests.cases.operations.cases import CASES as OPERATIONS
from tests.cases.pointers.cases import CASES as POINTERS
from tests.cases.simulated import unspecialised
from tests.matrix.compiling import attempted, signature
from tests.support.sample import EVERY_CASE, sample

pytestmark = pytest.mark.slow

CAPABILITY = 90
PART = 10
"""Scratch memory that the estimate may have too much: a tenth of what is allocated."""
ONE_GROUP = "two_loops_tile64x64_4warps"
EVERY = [it for cases in (GEMM, ATTENTION, POINTERS, OPERATIONS) for it in cases if it.expect.verdict == "specialised"]
CASES = EVERY if EVERY_CASE else list({it.kernel: it for it in reversed(EVERY)}.values())
"""For a change, the first of each kernel."""
CHOSEN = sample([pytest.param(it, None, id=it.name) for it in CASES], 7)
GROUPED = [it for it in CASES if it.num_warps == 8]
SPLIT = sample([pytest.param(it, groups, id=f"{it.name}-{groups}") for it in GROUPED for groups in (1, 2)], 13)
BIASED = [pytest.param(it, None, id=it.name) for it in ATTENTION if it.name.startswith("biased")]

TRIED_AGAIN = "one_loop_alibi_full"
"""Spills with its first Plan: what ptxas says decides which one it gets."""


def estimate(ttgir: str, plan: Plan, num_stages: int, machine: Machine = SM_90) -> int:
    """Bytes of one CTA with the rings of a Plan, from the kernel with layouts."""
    warps = next(it.num_warps for it in plan.partitions if it.role == "consumer")
    target = Target(warps, num_stages, groups=plan.consumer_groups, machine=machine)
    flow = Flow(parse_module(ttgir), plan, PlanOptions(), target)
    assert run(flow, RINGS) is None and flow.facts is not None
    correction = find_correction(flow.module) if plan.correction else None
    assert not isinstance(correction, str)
    budget = budget_of(flow.module, flow.facts, target, plan, correction).with_in_flight(plan.mma_depth)
    return budget.shared.total(sum(ring.total_bytes for ring in plan.rings))


@pytest.mark.parametrize(("case", "groups"), [*CHOSEN, *SPLIT, *BIASED])
def test_the_estimate_is_never_too_small_and_hardly_too_large(case: Specimen, groups: int | None) -> None:
    """Too small an estimate accepts depths that do not fit; too large an estimate rejects depths that fit."""
    options = PlanOptions(only_if_faster=False, num_consumer_groups=groups)
    found, levels = attempted(case, options, verification="off")
    if not isinstance(found, Specialised):
        assert groups == 2, found.remarks
        return
    plan = found.outcome.plan
    assert plan is not None
    allocated = _allocated(found.results["ttgir"].value.text, new_context(), CAPABILITY)
    assert allocated is not None
    estimated = estimate(levels.asm["ttgir"], plan, case.num_stages)
    assert allocated <= estimated <= allocated + allocated // PART + 2 * SLACK_BYTES


@pytest.mark.parametrize(
    ("name", "correction", "depth"),
    [
        (ONE_GROUP, None, None),
        (ONE_GROUP, True, 9),
        (ONE_GROUP, False, None),
        ("two_loops_tile128x64_4warps", None, None),  # the weights are in tensor memory
        ("biased_4warps", None, None),  # tiles of the consumer beside those of the correction
        (TRIED_AGAIN, True, None),  # its Plan depends on what ptxas spills
    ],
)
def test_the_estimate_for_blackwell_counts_what_the_correction_is_sent(
    name: str, correction: bool | None, depth: int | None, request: pytest.FixtureRequest
) -> None:
    if name != TRIED_AGAIN:
        request.getfixturevalue("without_ptx")
    case, rings = find(name), (RingPlan("factor0", depth=depth),) if depth else ()
    asked = Request(PlanOptions(only_if_faster=False), Plan(correction=correction, rings=rings))
    made = compile_kernel(
        case.kernel, signature(case), asked, num_warps=case.num_warps, num_stages=case.num_stages, target=SM_100
    )  # fmt: skip
    plan = Plan.from_data(made.metadata.tawa["plan"])
    layouts = print_module(unspecialised(case, made))
    allocated, estimated = made.metadata.shared, estimate(layouts, plan, case.num_stages, SM_100)
    assert allocated <= estimated <= allocated + allocated // PART + 2 * SLACK_BYTES
    sent = [ring.total_bytes for ring in plan.rings if ring.has_factors]
    assert bool(sent) is (correction is not False)
    if depth:
        assert sent == [depth * 4 * case.size("BM")]


def test_a_tile_that_comes_beside_k_and_v_leaves_every_ring_two_slots() -> None:
    """Its layout is that of the scores as soon as it is read, and queries in registers leave no memory behind."""
    found, _ = attempted(find("biased_d128"), PlanOptions(only_if_faster=False))
    assert isinstance(found, Specialised) and found.outcome.plan is not None
    assert [ring.depth for ring in found.outcome.plan.rings] == [2, 2, 2]
    depths = {name: why for name, why in found.outcome.why.items() if name.endswith(".depth")}
    assert depths == {f"rings.ring{at}.depth": "the largest D that fits" for at in range(3)}
