"""How many consumer groups are tried: as many as were asked for, with their number or by ping-pong."""

from __future__ import annotations

from dataclasses import replace

from tawa.bridge.driver.data import Specialised
from tawa.flow import Outcome
from tawa.plan import Plan, PlanOptions
from tawa.remarks import Remark
from tests.cases.attention.cases import find as find_attention
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find as find_gemm
from tests.matrix.compiling import attempted, signature
from tests.support.fronts import front


def plan_of(case: Specimen, options: PlanOptions) -> Plan:
    found, _ = attempted(case, options)
    assert isinstance(found, Specialised) and found.outcome.plan is not None
    return found.outcome.plan


def refusal(case: Specimen, options: PlanOptions) -> Remark:
    found, _ = attempted(case, options)
    assert isinstance(found, Outcome) and not found.applied
    return found.remarks[0]


def test_ping_pong_alone_asks_for_groups_also_where_they_would_not_be_tried() -> None:
    """The second dot takes what the first gave only through a branch: no chain that rows are split for."""
    case = find_attention("branch_fp16_d128_causal")
    assert plan_of(case, PlanOptions(only_if_faster=False)).consumer_groups == 1
    plan = plan_of(case, PlanOptions(ping_pong=True))
    assert plan.consumer_groups == 2 and plan.ping_pong


def test_four_warps_are_those_of_each_group() -> None:
    plan = plan_of(find_attention("two_loops_tile128x64_4warps"), PlanOptions(ping_pong=True))
    assert [part.num_warps for part in plan.partitions] == [1, 4, 4] and plan.ping_pong


def test_a_launch_of_two_warps_gets_groups_of_four() -> None:
    case = replace(find_attention("two_loops_tile128x64_4warps"), num_warps=2)
    assert [part.num_warps for part in plan_of(case, PlanOptions(ping_pong=True)).partitions] == [1, 4, 4]


def test_warps_that_make_no_groups_are_declined_and_the_remark_says_how_many_would() -> None:
    case = find_attention("two_loops_tile128x64_4warps")
    remark = front(case.kernel, signature(case), num_warps=8).split(groups=3)
    assert isinstance(remark, Remark) and "num_warps=8 cannot be divided into 3 groups" in remark.reason
    assert remark.cure == "use num_warps=12"


def test_a_tile_that_all_groups_read_travels_in_one_ring_and_their_own_in_others() -> None:
    plan = plan_of(find_gemm("persistent_8warps"), PlanOptions(num_consumer_groups=2))
    assert [ring.payload for ring in plan.rings] == [
        ("!ttg.memdesc<64x64xf16, #shared, #smem, mutable>",),
        ("!ttg.memdesc<256x64xf16, #shared, #smem, mutable>",),
    ]
    assert [ring.copies for ring in plan.rings] == [2, 1]


def test_ping_pong_in_a_kernel_that_cannot_be_shared_out_says_what_is_in_the_way() -> None:
    case = replace(find_gemm("dynamic_tiles"), num_warps=8)
    assert "atomic" in refusal(case, PlanOptions(ping_pong=True)).reason
