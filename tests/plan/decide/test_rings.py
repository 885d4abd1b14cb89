"""The decisions about a kernel with layouts: what is moved, and the rings, or why nothing is done."""

from __future__ import annotations

from typing import Any

import pytest

from tawa.analysis.names import name_module
from tawa.errors import PlanError, ResourceError
from tawa.ir import Module
from tawa.machine.coefficients import ErrorInfo
from tawa.machine.nvidia import REGISTERS
from tawa.plan import LoopPlan, OperandPlan, Plan, PlanOptions, RingPlan
from tawa.plan.decide.rings import WOULD_DECLINE, Decided, Facts, Target, budget_of, decide_rings, find_facts
from tawa.plan.search.prediction import Expectation
from tawa.remarks import Remark
from tests.cases.programs import ttgir as programs

TARGET = Target(num_warps=4, num_stages=3)
LEGAL = PlanOptions(only_if_faster=False)


def found(text: str, pins: Plan | None = None) -> tuple[Module, Facts]:
    module = programs.parse(text)
    name_module(module)
    facts = find_facts(module, TARGET, pins or Plan())
    assert isinstance(facts, Facts), facts
    return module, facts


class Slower:
    """Stands for a space: every Plan is expected to take twice the time of stock Triton's kernel."""

    def expected(self, _: Plan) -> Expectation:
        return Expectation(10.0, 20.0, ErrorInfo(0.05, 9), "dots")


def decided(
    text: str,
    options: PlanOptions = LEGAL,
    pins: Plan | None = None,
    target: Target = TARGET,
    space: Any = None,
) -> Decided | Remark:
    plan = pins or Plan()
    return decide_rings(*found(text, plan), options, target, plan, plan, pins is not None, space)


def test_facts_are_the_loads_the_moved_ones_and_their_channels() -> None:
    _, facts = found(programs.gate_up())
    assert facts.loads == facts.moved and [it.name for it in facts.channels] == ["ring0", "ring1", "ring2"]
    _, facts = found(programs.gate_up(), Plan(operands=(OperandPlan("c_desc", 0, path="consumer"),)))
    assert (len(facts.loads), len(facts.moved), len(facts.channels)) == (3, 2, 2)


def test_a_kernel_without_a_dot_is_declined() -> None:
    refused = find_facts(programs.parse(programs.kernel("")), TARGET, Plan())
    assert isinstance(refused, Remark) and refused.kind == "declined" and refused.reason


def test_what_is_decided_has_rings_operands_and_reasons() -> None:
    made = decided(programs.tile_gemm())
    assert isinstance(made, Decided)
    assert [(ring.name, ring.depth) for ring in made.plan.rings] == [("ring0", made.plan.rings[0].slots)]
    assert [it.argument for it in made.plan.operands if it.argument] == ["a_desc", "b_desc"]
    assert made.why["rings.ring0.depth"]


def test_what_is_not_expected_to_pay_is_declined_and_done_with_a_note_where_it_is_asked_for() -> None:
    refused = decided(programs.tile_gemm(), PlanOptions(), space=Slower())
    assert isinstance(refused, Remark)
    assert refused.reason.startswith(
        "not expected to pay: 20.0 us predicted for the specialised kernel, 10.0 us for stock Triton's: 0.50 times"
    )
    assert isinstance(decided(programs.tile_gemm(), PlanOptions()), Decided)
    made = decided(programs.tile_gemm(), space=Slower())
    assert isinstance(made, Decided)
    assert [it.reason.partition(":")[0] for it in made.notes] == [WOULD_DECLINE]


@pytest.mark.parametrize("depth", [1, 2])
def test_a_ring_without_a_name_gives_the_depth_of_every_ring(depth: int) -> None:
    by_plan = decided(programs.tile_gemm(), pins=Plan(rings=(RingPlan(depth=depth),)))
    by_option = decided(programs.tile_gemm(), PlanOptions(aref_depth=depth))
    assert isinstance(by_plan, Decided) and isinstance(by_option, Decided)
    assert [ring.depth for ring in by_plan.plan.rings] == [depth]
    assert by_plan.plan == by_option.plan


def test_rings_that_do_not_fit_are_declined_or_an_error_where_they_are_asked_for() -> None:
    small = Target(4, 3, shared_bytes=1000)
    refused = decided(programs.tile_gemm(), PlanOptions(), target=small)
    assert isinstance(refused, Remark) and refused.kind == "declined"
    with pytest.raises(ResourceError):
        decided(programs.tile_gemm(), PlanOptions(aref_depth=3), target=small)
    with pytest.raises(PlanError, match="the Plan does not fit, with rings for a_desc, loop 0"):
        decided(programs.gate_up(), pins=Plan(rings=(RingPlan("ring0", depth=30),)))


def test_a_plan_that_names_what_the_kernel_does_not_have_is_refused() -> None:
    with pytest.raises(PlanError, match="the Plan names loop 7"):
        decided(programs.tile_gemm(), pins=Plan(loops=(LoopPlan(7, mma_depth=1),)))


def test_a_cap_on_registers_of_the_kernel_is_in_the_budget() -> None:
    module, facts = found(programs.tile_gemm())
    assert budget_of(module, facts, TARGET).max_registers is None
    module.op.attributes["ttg.maxnreg"] = "128 : i32"
    assert budget_of(module, facts, TARGET).max_registers == 128


def limited(limit: int, pins: Plan | None = None, num_warps: int = 4, pinned: bool = False) -> Decided | Remark:
    """The decisions for a launch with ``maxnreg``."""
    target, plan = Target(num_warps, num_stages=3), pins or Plan()
    module = programs.parse(programs.tile_gemm())
    name_module(module)
    module.op.attributes["ttg.maxnreg"] = f"{limit} : i32"
    facts = find_facts(module, target, plan)
    assert isinstance(facts, Facts), facts
    return decide_rings(module, facts, LEGAL, target, plan, plan, pinned or pins is not None)


@pytest.mark.parametrize("num_warps", [4, 8])
@pytest.mark.parametrize("limit", [24, 63, 100, 168, 176, 250, 255, 256])
def test_a_launch_with_maxnreg_gets_a_plan_that_it_can_launch(limit: int, num_warps: int) -> None:
    found = limited(limit, num_warps=num_warps)
    assert isinstance(found, Decided)
    threads = (num_warps + 4) * 32
    entry = found.plan.max_registers or REGISTERS // threads // 8 * 8
    assert entry <= limit and entry * threads * (found.plan.ctas_per_sm or 0) <= REGISTERS


def test_the_reason_of_a_cap_is_maxnreg_where_that_is_the_least() -> None:
    found = [limited(limit) for limit in (40, 255)]
    reasons = [it.why["max_registers"] for it in found if isinstance(it, Decided)]
    assert reasons[0] == "maxnreg=40 of the launch" and reasons[1].endswith("CTAs share an SM")


def test_a_maxnreg_too_small_for_the_partitions_is_declined_or_an_error_with_the_cure() -> None:
    refused = limited(16)
    assert isinstance(refused, Remark) and refused.kind == "declined"
    assert refused.reason.startswith("maxnreg=16: a partition needs 24 registers per thread")
    assert refused.cure == "maxnreg=24 or more, or a launch without it"
    with pytest.raises(ResourceError, match=r"maxnreg=16: .* cure: maxnreg=24 or more"):
        limited(16, pinned=True)


def test_a_pinned_cap_above_maxnreg_is_an_error() -> None:
    for cap in (128, 0):
        with pytest.raises(
            PlanError, match=f"max_registers={cap} in the Plan .* the launch has maxnreg=100; cure: max"
        ):
            limited(100, Plan(max_registers=cap))
    found = limited(100, Plan(max_registers=64))
    assert isinstance(found, Decided) and found.plan.max_registers == 64


def test_a_pinned_cap_with_which_no_gpu_launches_a_cta_is_an_error() -> None:
    with pytest.raises(
        PlanError, match="max_registers=176: 384 threads, the producer's included, need 67584 registers"
    ):
        decided(programs.tile_gemm(), pins=Plan(max_registers=176), target=Target(8, num_stages=3))


def test_a_pinned_cap_decides_how_many_ctas_share_an_sm() -> None:
    found = [decided(programs.tile_gemm(), pins=Plan(max_registers=cap)) for cap in (128, 0)]
    assert [it.plan.ctas_per_sm for it in found if isinstance(it, Decided)] == [2, 1]
