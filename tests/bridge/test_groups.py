"""How many consumer groups are tried: as many as were asked for, with their number or by ping-pong."""

from __future__ import annotations

from dataclasses import replace

from tawa.bridge.attempt import Specialised
from tawa.kernels.attention.cases import find as find_attention
from tawa.kernels.case import Case
from tawa.kernels.gemm.cases import find as find_gemm
from tawa.pipeline import Outcome
from tawa.plan import Plan, PlanOptions
from tawa.remarks import Remark
from tests.matrix.compiling import attempted


def plan_of(case: Case, options: PlanOptions) -> Plan:
    found, _ = attempted(case, options)
    assert isinstance(found, Specialised) and found.outcome.plan is not None
    return found.outcome.plan


def refusal(case: Case, options: PlanOptions) -> Remark:
    found, _ = attempted(case, options)
    assert isinstance(found, Outcome) and not found.applied
    return found.remarks[0]


def test_ping_pong_alone_asks_for_groups_also_where_they_would_not_be_tried() -> None:
    """The second dot takes what the first gave only through a branch: no chain that rows are split for."""
    case = find_attention("branch_fp16_d128_causal")
    assert plan_of(case, PlanOptions(only_if_faster=False)).consumer_groups == 1
    plan = plan_of(case, PlanOptions(ping_pong=True))
    assert plan.consumer_groups == 2 and plan.ping_pong


def test_ping_pong_in_four_warps_is_declined_with_the_number_that_it_needs() -> None:
    remark = refusal(find_attention("two_loops_tile64x64_4warps"), PlanOptions(ping_pong=True))
    assert "num_warps=4 does not make 2 groups" in remark.reason
    assert remark.cure == "use num_warps=8"


def test_ping_pong_in_a_kernel_that_cannot_be_shared_out_says_what_is_in_the_way() -> None:
    case = replace(find_gemm("dynamic_tiles"), num_warps=8)
    assert "atomic" in refusal(case, PlanOptions(ping_pong=True)).reason
