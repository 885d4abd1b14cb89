"""From options to a Plan, over a whole compile; and what is said when none can be made."""

from __future__ import annotations

import re

import pytest

from tawa.errors import PlanError, ResourceError
from tawa.flow import Outcome
from tawa.pipeline import BARRIERS, PARTITIONS, RINGS, STAGES
from tawa.plan import Plan, PlanOptions
from tawa.plan.decide.rings import Target
from tawa.plan.fields import UNCAPPED
from tests.cases.programs import ttgir as programs
from tests.support.pipeline import specialise

SLOT = 2 * programs.TILE_BYTES
ROOM = 232448


def made(
    options: PlanOptions, *, text: str = "", num_warps: int = 4, num_stages: int = 3, shared: int = ROOM
) -> Outcome:
    return specialise(text or programs.persistent_gemm(), options, Target(num_warps, num_stages, shared))


def plan(options: PlanOptions, **target: int) -> Plan:
    outcome = made(options, **target)  # type: ignore[arg-type]
    assert outcome.applied and outcome.plan is not None
    return outcome.plan


def depths(found: Plan) -> tuple[int, int]:
    assert len({ring.depth for ring in found.rings}) == 1
    return found.rings[0].depth, found.mma_depth


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("mma_depth", [0, 1, 2])
@pytest.mark.parametrize("num_stages", [1, 3])
def test_what_is_asked_for_is_what_is_planned(depth: int, mma_depth: int, num_stages: int) -> None:
    if depth > mma_depth:
        options = PlanOptions(aref_depth=depth, mma_depth=mma_depth)
        assert depths(plan(options, num_stages=num_stages)) == (depth, mma_depth)


def test_one_slot_leaves_nothing_in_flight() -> None:
    assert depths(plan(PlanOptions(aref_depth=1))) == (1, 0)


@pytest.mark.parametrize("num_stages", [1, 2, 3, 4, 5, 7])
def test_d_is_at_least_the_stages_the_user_tuned(num_stages: int) -> None:
    depth, mma_depth = depths(plan(PlanOptions(), num_stages=num_stages))
    assert depth >= max(num_stages, 2) and mma_depth <= 1


@pytest.mark.parametrize("mma_depth", [0, 1, 2, 3, 5])
def test_d_follows_a_p_that_was_asked_for(mma_depth: int) -> None:
    depth, found = depths(plan(PlanOptions(mma_depth=mma_depth), num_stages=1))
    assert found == mma_depth and depth >= mma_depth + 1


def room_for(slots: int) -> int:
    """Beside the rings: the staging buffer of the store, and the slack for alignment and barriers."""
    return slots * SLOT + programs.TILE_BYTES + 1024


@pytest.mark.parametrize("fits", [2, 3])
def test_d_is_no_more_than_what_fits(fits: int) -> None:
    depth, mma_depth = depths(plan(PlanOptions(), shared=room_for(fits), num_stages=5))
    assert depth == fits and mma_depth <= min(1, fits - 1)


def test_a_ring_of_one_slot_is_for_who_asks_for_it() -> None:
    """Nothing is loaded while the consumer computes: stock Triton keeps more loads in flight."""
    left = made(PlanOptions(), shared=room_for(1), num_stages=5)
    assert not left.applied and "one slot only" in left.remarks[0].reason
    assert depths(plan(PlanOptions(only_if_faster=False), shared=room_for(1), num_stages=5)) == (1, 0)


def test_p_is_1_where_one_cta_fills_the_sm_and_0_where_several_share_it() -> None:
    alone, shared = plan(PlanOptions(aref_depth=8)), plan(PlanOptions(aref_depth=2))
    assert (alone.mma_depth, alone.max_registers, alone.ctas_per_sm) == (1, UNCAPPED, 1)
    assert shared.mma_depth == 0 and shared.max_registers and (shared.ctas_per_sm or 0) > 1


@pytest.mark.parametrize("num_warps", [4, 8])
def test_the_consumer_has_the_warps_of_the_launch(num_warps: int) -> None:
    parts = {part.role: part for part in plan(PlanOptions(), num_warps=num_warps).partitions}
    assert parts["consumer"].num_warps == num_warps and parts["producer"].num_warps == 1
    assert parts["producer"].registers == 24


def test_a_ring_knows_its_bytes() -> None:
    (ring,) = plan(PlanOptions(aref_depth=3)).rings
    assert ring.slot_bytes == SLOT and ring.total_bytes == 3 * SLOT
    assert ring.payload == (programs.SLOT, programs.SLOT)


# -- what cannot be met ------------------------------------------------------------------------------------------------


def test_a_depth_that_does_not_fit_says_where_the_memory_goes_and_what_fits() -> None:
    with pytest.raises(ResourceError) as caught:
        made(PlanOptions(aref_depth=20))
    text = str(caught.value)
    needed = int(re.search(r"needs (\d+) B", text).group(1))  # type: ignore[union-attr]
    assert needed == 20 * SLOT + programs.TILE_BYTES + 1024
    assert "aref_depth=20" in text and f"the limit is {ROOM} B (227 KiB)" in text
    assert f"ring0: 20 x {SLOT} B" in text
    largest = (ROOM - programs.TILE_BYTES - 1024) // SLOT
    assert f"the largest D that fits is {largest}; cure: aref_depth={largest}" in text


def test_every_ring_is_named_when_they_do_not_fit() -> None:
    with pytest.raises(ResourceError) as caught:
        made(PlanOptions(aref_depth=32), text=programs.gate_up())
    for name in ("ring0", "ring1", "ring2"):
        assert f"{name}: 32 x {programs.TILE_BYTES} B" in str(caught.value)


@pytest.mark.parametrize("options", [PlanOptions(enable_warp_specialization=True), PlanOptions(aref_depth=1)])
def test_a_pinned_kernel_without_room_for_one_slot_raises(options: PlanOptions) -> None:
    with pytest.raises(ResourceError, match=r"not one slot of each ring fits; cure: use smaller blocks"):
        made(options, shared=SLOT)


def test_without_a_pin_it_is_declined_at_the_load() -> None:
    outcome = made(PlanOptions(), shared=SLOT)
    assert not outcome.applied and "not one slot of each ring fits" in outcome.remarks[0].reason
    assert outcome.remarks[0].location is not None


def test_a_p_that_the_memory_does_not_allow_is_refused() -> None:
    shared = 2 * SLOT + programs.TILE_BYTES + 1024
    with pytest.raises((PlanError, ResourceError), match="largest D that fits is 2"):
        made(PlanOptions(enable_warp_specialization=True, mma_depth=3), shared=shared)


# -- what an outcome holds ---------------------------------------------------------------------------------------------


def test_an_applied_kernel_comes_with_plan_levels_and_times() -> None:
    outcome = made(PlanOptions(aref_depth=3, mma_depth=1))
    assert outcome.remarks[0].kind == "applied" and "D = 3" in outcome.remarks[0].reason
    assert "aref.put" in outcome.aref and "ttg.warp_specialize" in outcome.barrier
    assert list(outcome.stage_ms) == [step.name for step in (*RINGS, *PARTITIONS, *STAGES, *BARRIERS)]
    assert all(time >= 0 for time in outcome.stage_ms.values())


def test_a_declined_kernel_comes_without() -> None:
    outcome = made(PlanOptions(), text=programs.kernel(""))
    assert (outcome.applied, outcome.plan, outcome.aref, outcome.barrier) == (False, None, "", "")
    assert outcome.remarks[0].kind == "declined"


def test_a_refusal_of_the_kernel_comes_before_one_of_its_resources() -> None:
    text = programs.kernel(f"{programs.gemm_loop()}\n{programs.store(desc='a_desc')}")
    assert "writes through argument" in made(PlanOptions(aref_depth=99), text=text).remarks[0].reason


def test_the_maxnreg_of_a_launch_is_kept() -> None:
    text = programs.persistent_gemm().replace('"ttg.num-warps"', '"ttg.maxnreg" = 72 : i32, "ttg.num-warps"')
    text = text.replace('"ttg.maxnreg"', "ttg.maxnreg")
    outcome = made(PlanOptions(aref_depth=2), text=text)
    assert outcome.plan is not None and outcome.plan.max_registers == 72
