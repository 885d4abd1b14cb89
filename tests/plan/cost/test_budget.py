"""What the machine and the kernel leave to a Plan: shared memory, and the CTAs that share an SM."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.analysis.resources import SLACK_BYTES, RegisterInfo, SharedInfo
from tawa.plan.cost.budget import DEEPEST, Budget, Channels, by_tma_only
from tests.cases.programs import transposed
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import TILE_BYTES
from tests.plan.test_planner import channels_of

BUDGET = Budget(4, 3, 227 * 1024, SharedInfo(0, 0, 0), RegisterInfo(32, 32))


def rings() -> Channels:
    """Three rings of one tile a slot."""
    channels = channels_of(programs.gate_up())
    assert [it.slot_bytes for it in channels] == [TILE_BYTES] * 3
    return channels


@pytest.mark.parametrize(("spare", "deepest"), [(0, 4), (-1, 3)])
def test_the_deepest_rings_take_the_last_byte(spare: int, deepest: int) -> None:
    room = 4 * 3 * TILE_BYTES + SLACK_BYTES + spare
    assert replace(BUDGET, shared_bytes=room).deepest(rings()) == deepest


def test_no_ring_is_deeper_than_can_be_counted_and_none_fits_in_nothing() -> None:
    assert replace(BUDGET, shared_bytes=1 << 30).deepest(rings()) == DEEPEST
    assert replace(BUDGET, shared_bytes=0).deepest(rings()) == 0


def test_a_pinned_ring_keeps_its_depth_and_the_others_share_the_rest() -> None:
    first, *_ = channels = rings()
    room = (1 + 2 * 5) * TILE_BYTES + SLACK_BYTES
    pinned = replace(BUDGET, shared_bytes=room, fixed={first.name: 1})
    assert pinned.depths(channels, 5) == (1, 5, 5) and pinned.deepest(channels) == 5
    assert replace(pinned, fixed={}).deepest(channels) == 3


def test_a_ring_of_each_group_takes_its_slots_as_often() -> None:
    first, *_ = channels = rings()
    grouped = replace(BUDGET, groups=2, own=frozenset({first.name}))
    assert [grouped.copies(it) for it in channels] == [2, 1, 1]
    assert grouped.slot_bytes(channels) == BUDGET.slot_bytes(channels) + TILE_BYTES
    assert grouped.consumer_warps == 8


def test_deeper_rings_let_fewer_ctas_share_an_sm_and_the_user_may_bound_them() -> None:
    counts = [BUDGET.ctas(rings(), depth) for depth in range(1, 10)]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1] == 1
    assert replace(BUDGET, most_ctas=2).ctas(rings(), 1) == 2 < counts[0]


def test_stock_takes_a_buffer_a_stage_or_what_stands_beside_its_loop() -> None:
    assert BUDGET.stock_ctas(rings()) == 3
    assert replace(BUDGET, num_stages=6).stock_ctas(rings()) == 1
    assert replace(BUDGET, shared=SharedInfo(200_000, 0, 0)).stock_ctas(rings()) == 1


def test_a_ring_behind_a_converter_has_few_slots_and_hides_no_latency() -> None:
    channels = transposed.channels_with_converter(programs.parse(transposed.gemm()))
    assert [it.name for it in channels] == ["ring0", "ring1", "ring1_transposed"]
    assert BUDGET.depths(channels, 4) == (4, 4, 2) and BUDGET.depths(channels, 1) == (1, 1, 1)
    assert replace(BUDGET, converted_slots=3).depths(channels, 4) == (4, 4, 3)
    assert replace(BUDGET, fixed={"ring1_transposed": 4}).depths(channels, 2) == (2, 2, 4)
    assert BUDGET.slot_bytes(channels) == 2 * channels[0].slot_bytes
    assert by_tma_only(channels)
