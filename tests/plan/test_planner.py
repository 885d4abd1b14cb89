"""The planner's rules where a tile is split among groups, and where rings are filled at different rates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.analysis.resources import SLACK_BYTES, RegisterInfo, SharedInfo
from tawa.analysis.rings.channels import find_channels, outer_channels
from tawa.analysis.rings.loads import find_dot_loads
from tawa.errors import ResourceError
from tawa.plan import Plan, PlanOptions, RingPlan
from tawa.plan.cost.budget import Budget, Channels
from tawa.plan.planner import Counts, complete, reasons
from tests.cases.programs import ttgir as programs

# 96 registers of accumulators: one CTA of 8 warps fills an SM, also under stock Triton where dots are chained.
BUDGET = Budget(4, 3, 227 * 1024, SharedInfo(0, 0, 0), RegisterInfo(96, 64), groups=2)


def channels_of(text: str) -> Channels:
    return tuple(find_channels(find_dot_loads(programs.parse(text))))


def test_rings_of_outer_loops_get_one_slot_where_not_all_fit() -> None:
    channels = channels_of(programs.gate_up())
    room = 7 * programs.TILE_BYTES + SLACK_BYTES
    budget = replace(BUDGET, shared_bytes=room, outer=frozenset({channels[0].name}))
    assert budget.depths(channels, 2) == (2, 2, 2)
    assert budget.depths(channels, 3) == (1, 3, 3) and budget.deepest(channels) == 3
    assert replace(budget, outer=frozenset()).deepest(channels) == 2
    plan = complete(Plan(), Counts(channels, budget), PlanOptions())
    assert [ring.depth for ring in plan.rings] == [1, 3, 3] and (plan.mma_depth, plan.early_puts) == (0, 1)


def test_an_outer_channel_is_filled_in_a_loop_around_the_loop_of_another() -> None:
    inner = programs.gemm_loop()
    once = f"{programs.load('q', 'c_desc', '%zero, %tile')}\n{programs.alloc('q_kept', 'q')}"
    use = programs.dot("scores", "q_kept", "q_kept", "acc")
    body = programs.for_loop(f"{once}\n{inner}\n{use}", induction="tile", upper="m")
    channels = channels_of(programs.kernel(body))
    assert len(channels) == 2 and outer_channels(channels) == [channels[0].name]
    assert outer_channels(channels_of(programs.gate_up())) == []


def test_operands_that_a_loop_computes_take_a_buffer_for_each_iteration_in_flight() -> None:
    """Six tiles fit: rings of two slots and two buffers, or of three and one buffer with P = 0."""
    channels = channels_of(programs.tile_gemm())
    slot = sum(channel.slot_bytes for channel in channels)
    alone = replace(BUDGET, groups=1, num_warps=8, registers=RegisterInfo(160, 160))
    roomy = replace(alone, shared=SharedInfo(0, slot // 2, 0, again=slot // 2), shared_bytes=3 * slot + SLACK_BYTES)

    def chosen(budget: Budget, **options: int) -> tuple[int, int]:
        plan = complete(Plan(), Counts(channels, budget), PlanOptions(**options))
        return plan.rings[0].depth, plan.mma_depth

    assert chosen(replace(roomy, shared=SharedInfo(0, slot // 2, 0))) == (2, 1)
    assert chosen(roomy) == (2, 1)
    tight = replace(roomy, shared_bytes=5 * slot // 2 + SLACK_BYTES)
    assert chosen(tight) == (2, 0)
    assert chosen(replace(roomy, shared_bytes=4 * slot + SLACK_BYTES)) == (3, 1)
    assert chosen(roomy, mma_depth=0) == (2, 0)
    with pytest.raises(ResourceError, match="aref_depth=2"):
        chosen(tight, mma_depth=1)
    with pytest.raises(ResourceError, match="the largest D that fits is 2"):
        chosen(roomy, mma_depth=1, aref_depth=3)


def test_the_reason_for_a_depth_is_what_limits_it() -> None:
    channels = channels_of(programs.tile_gemm())
    slot = sum(channel.slot_bytes for channel in channels)
    alone = replace(BUDGET, groups=1, num_warps=8, registers=RegisterInfo(160, 160))

    def why(budget: Budget, pins: Plan | None = None) -> str:
        plan = complete(pins or Plan(), Counts(channels, budget), PlanOptions())
        (ring,) = plan.rings
        assert ring.slots in (1, 3, 8), ring
        return reasons(plan, channels, budget, pins)[f"rings.{ring.name}.depth"]

    for slots in (1, 3):
        tight = replace(alone, shared_bytes=(slots + 1) * slot - 1 + SLACK_BYTES)
        assert why(tight) == "the largest D that fits"
    assert why(alone) == "enough to hide the latency of global memory"
    beside = replace(alone, num_warps=4, registers=RegisterInfo(32, 32), shared=SharedInfo(16 * 1024, 0, 0))
    assert why(beside) == "with one more slot, fewer CTAs share an SM"


def test_pinned_rings_that_leave_no_slot_to_the_others_are_named() -> None:
    channels = channels_of(programs.gate_up())
    room = replace(BUDGET, shared_bytes=6 * programs.TILE_BYTES + SLACK_BYTES)
    pins = Plan(rings=(RingPlan(channels[0].name, depth=5), RingPlan(channels[1].name, depth=2)))
    with pytest.raises(ResourceError, match=r"not one slot of the others fits; cure: D = 3 of ring0"):
        complete(pins or Plan(), Counts(channels, room), PlanOptions())


@pytest.mark.parametrize(("depth", "in_flight"), [(2, 0), (3, 1), (4, 1)])
def test_ctas_that_share_an_sm_keep_a_dot_in_flight_where_they_have_slots_for_it(depth: int, in_flight: int) -> None:
    channels = channels_of(programs.tile_gemm())
    slot = sum(channel.slot_bytes for channel in channels)
    small = replace(BUDGET, groups=1, registers=RegisterInfo(32, 32))
    assert small.ctas(channels, depth) > 1, f"{slot} bytes a slot"
    plan = complete(Plan(), Counts(channels, small), PlanOptions(aref_depth=depth))
    assert (plan.rings[0].depth, plan.mma_depth) == (depth, in_flight)


@pytest.mark.parametrize(("bytes_computed", "in_flight"), [(0, 1), (64, 0)])
def test_ctas_that_share_an_sm_and_compute_operands_wait_for_their_dots(bytes_computed: int, in_flight: int) -> None:
    channels = channels_of(programs.tile_gemm())
    shared = SharedInfo(0, bytes_computed, 0, again=bytes_computed)
    small = replace(BUDGET, groups=1, registers=RegisterInfo(32, 32), shared=shared)
    assert small.ctas(channels, 4) > 1
    plan = complete(Plan(), Counts(channels, small), PlanOptions(aref_depth=4))
    assert plan.mma_depth == in_flight


@pytest.mark.parametrize(
    ("bounds", "fills", "depth"),
    [
        ((0, 2, 1), 2, 2),
        ((0, 5, 3), 2, 2),
        ((3, 4, 1), 1, 1),
        ((4, 4, 1), 0, 1),
        ((4, 3, 1), 0, 1),
        ((0, 64, 1), 64, 8),
    ],
)
def test_a_ring_has_no_more_slots_than_a_program_fills(bounds: tuple[int, int, int], fills: int, depth: int) -> None:
    names = ("lower", "upper", "step")
    numbers = [
        f'%{n} = "arith.constant"() <{{value = {v} : i32}}> : () -> i32' for n, v in zip(names, bounds, strict=True)
    ]
    loop = programs.gemm_loop().replace('"scf.for"(%zero, %n, %one', '"scf.for"(%lower, %upper, %step')
    channels = channels_of(programs.kernel("\n".join([*numbers, loop])))
    assert channels[0].fills == fills
    budget = replace(BUDGET, num_warps=8, groups=1)
    plan = complete(Plan(), Counts(channels, budget), PlanOptions())
    assert (plan.rings[0].depth, plan.mma_depth) == (depth, min(1, depth - 1))


def test_where_a_trip_count_is_not_known_a_ring_is_as_deep_as_hides_latency() -> None:
    assert [channel.fills for channel in channels_of(programs.gate_up())] == [None] * 3


def test_a_persistent_form_has_an_sm_to_itself_and_the_deepest_rings() -> None:
    """It is launched with one program for each SM, so registers and shared memory of others need not be left."""
    channels = channels_of(programs.tile_gemm())
    slot = sum(channel.slot_bytes for channel in channels)
    roomy = replace(BUDGET, groups=1, registers=RegisterInfo(32, 32), shared_bytes=4 * slot + SLACK_BYTES)
    written, persistent = (complete(Plan(form=form), Counts(channels, roomy), PlanOptions())
                     for form in ("as_written", "persistent"))  # fmt: skip
    assert (written.ctas_per_sm or 1) > 1 and persistent.ctas_per_sm == 1
    assert persistent.rings[0].depth == 4 and persistent.mma_depth == 1
