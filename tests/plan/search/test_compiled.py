"""Candidates: how many consumer groups, which D, and what is tried where registers do not suffice."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tawa.declines import UNPROVED
from tawa.errors import PlanError, ResourceError
from tawa.plan import LoopPlan, OperandPlan, PartitionPlan, Plan, PlanOptions, RingPlan, StorePlan
from tawa.plan.cost.shared_use import LIMIT_BYTES, shared_use
from tawa.plan.schedule import Schedule, ScheduledOp
from tawa.plan.search import compiled
from tawa.plan.search.candidate import Candidate
from tawa.plan.search.compiled import (
    NO_STOCK,
    Question,
    Trial,
    candidates,
    smaller,
    wanted_groups,
    warps_of_group,
)
from tawa.plan.thresholds import FREED_BYTES, HARMLESS_BYTES, HEAVY_SPILL_BYTES, STEP_BYTES
from tawa.remarks import Remark

AUTOMATIC = PlanOptions()
RING = RingPlan("r0", ("64x64xf16",), 3, 16384)
TWO_WARP_GROUPS = (PartitionPlan("producer", "producer", 1, 24), PartitionPlan("consumer", "consumer", 4, 240))


def schedule(stages: int) -> Schedule:
    ops = tuple(ScheduledOp(stage, stage, 0, "op") for stage in range(stages))
    return Schedule(0, "", 100, (), ops)


def planned(*loops: LoopPlan, depth: int = 3, slot_bytes: int = 16384) -> Plan:
    """A whole Plan of one ring."""
    ring = replace(RING, depth=depth, slot_bytes=slot_bytes)
    return Plan(groups=1, partitions=TWO_WARP_GROUPS, rings=(ring,), loops=loops)


def asking(options: PlanOptions = AUTOMATIC, pins: Plan = Plan(), allowed: int = 400, **changes: Any) -> Question:
    """A kernel of one group, through descriptors. allowed: bytes that the stock kernel spills."""
    given: dict[str, Any] = {"pinned": options.pinned, "num_warps": 4, "promotable": False, "chained": False, **changes}
    return Question(options, pins, allowed=lambda: allowed, **given)


def searched(question: Question, made: Callable[[Candidate], Trial]) -> tuple[Trial, list[Candidate]]:
    """What is taken where candidates come to what `made` says; and what was tried."""
    searching, tried = candidates(question), list[Candidate]()
    try:
        candidate = next(searching)
        while True:
            tried.append(candidate)
            candidate = searching.send(replace(made(candidate), candidate=candidate))
    except StopIteration as end:
        return end.value, tried


# -- consumer groups ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("num_warps", "groups"), [(4, 2), (4, 3), (8, 2), (12, 3)])
def test_four_warps_are_those_of_each_group_and_more_are_shared_out(num_warps: int, groups: int) -> None:
    assert warps_of_group(num_warps, groups) == 4


@pytest.mark.parametrize(("num_warps", "groups"), [(8, 3), (2, 2)])
def test_a_share_that_is_no_wgmma_of_warps_is_none(num_warps: int, groups: int) -> None:
    assert warps_of_group(num_warps, groups) is None


def test_groups_are_tried_where_dots_work_on_each_other_or_where_they_are_asked_for() -> None:
    assert wanted_groups(asking(num_warps=8)) == (1, False)
    assert wanted_groups(asking(num_warps=8, chained=True)) == (2, False)
    assert wanted_groups(asking(num_warps=8, chained=True, pins=Plan(groups=1))) == (1, True)
    assert wanted_groups(asking(PlanOptions(num_consumer_groups=2))) == (2, True)
    assert wanted_groups(asking(PlanOptions(ping_pong=True))) == (2, True)
    assert wanted_groups(asking(pins=Plan(partitions=TWO_WARP_GROUPS), num_warps=8, chained=True)) == (1, True)


def test_one_consumer_is_tried_where_rows_cannot_be_split_and_nobody_asked_for_that() -> None:
    cannot = Remark("declined", "rows are not split")

    def made(candidate: Candidate) -> Trial:
        return Trial(refusal=cannot) if candidate.plan.groups == 2 else Trial(planned())

    choice, tried = searched(asking(num_warps=8, chained=True), made)
    assert [it.plan.groups for it in tried] == [2, 1] and choice.accepted
    choice, tried = searched(asking(PlanOptions(num_consumer_groups=2)), made)
    assert len(tried) == 1 and not choice.accepted and choice.refusal is cannot


@pytest.mark.parametrize(("whole_spills", "groups"), [(500, 1), (900, 2)])
def test_of_groups_that_spill_too_much_and_one_consumer_the_one_that_spills_less_is_taken(
    whole_spills: int, groups: int
) -> None:
    def made(candidate: Candidate) -> Trial:
        wanted = candidate.plan.groups
        return Trial(replace(planned(), groups=wanted), spilled=600 if wanted == 2 else whole_spills)

    choice, _ = searched(asking(num_warps=8, chained=True, pinned=True), made)
    assert choice.accepted and choice.plan is not None and choice.plan.groups == groups


def test_pointers_are_tried_behind_tma_and_the_reason_is_that_of_tma() -> None:
    by_tma = Remark("declined", "by TMA")

    def made(candidate: Candidate) -> Trial:
        path = candidate.plan.operand((None, None, 0)).path
        return Trial(refusal=Remark("declined", "through pointers") if path == "pointers" else by_tma)

    choice, tried = searched(asking(promotable=True), made)
    assert len(tried) == 2 and choice.refusal is by_tma


def told(candidate: Candidate) -> tuple[str, int | None, int | None, int | None]:
    """Path of the operands, groups, D, and stages of a candidate."""
    plan = candidate.plan
    return plan.operand((None, None, 0)).path or "promoted", plan.groups, plan.ring("r0").depth, plan.loop(0).stages


def never_good(candidate: Candidate) -> Trial:
    """Too large at first, then always with spills."""
    depth = candidate.plan.ring("r0").depth or 5
    plan = planned(LoopPlan(0, 0, schedule=schedule(2)), depth=depth, slot_bytes=65536)
    use = shared_use(depth * 65536, plan)
    return Trial(replace(plan, groups=candidate.plan.groups), spilled=900) if use.fits() else Trial(plan, overflow=use)


ONE_FORM = [(None, None), (3, None), (3, 1), (3, 0)]
"""D and stages: as planned, what fits, and with fewer registers: a shorter schedule, then none."""


def test_promoted_comes_before_pointers_groups_before_one_a_lower_d_before_fewer_registers() -> None:
    choice, tried = searched(asking(num_warps=8, chained=True, promotable=True), never_good)
    assert [told(it) for it in tried] == [
        (path, groups, *rest) for path in ("promoted", "pointers") for groups in (2, 1) for rest in ONE_FORM
    ]
    assert not choice.accepted and choice.refusal is not None
    assert "not expected to pay: 900 bytes of registers spill" in choice.refusal.reason


def test_a_form_that_holds_ends_the_search() -> None:
    def made(candidate: Candidate) -> Trial:
        found = never_good(candidate)
        return replace(found, spilled=0) if candidate.plan.groups == 1 else found

    choice, tried = searched(asking(num_warps=8, chained=True, promotable=True), made)
    assert [told(it) for it in tried] == [*(("promoted", 2, *it) for it in ONE_FORM), ("promoted", 1, None, None),
                                          ("promoted", 1, 3, None)]  # fmt: skip
    assert choice.accepted and choice.candidate == tried[-1] and choice.notes == ()


def test_a_pinned_kernel_is_taken_by_tma_although_it_spills() -> None:
    choice, tried = searched(asking(num_warps=8, chained=True, promotable=True, pinned=True), never_good)
    assert {told(it)[0] for it in tried} == {"promoted"} and choice.accepted
    assert choice.candidate.plan.groups == 2, "of two that spill as much, the one with groups"


@pytest.mark.parametrize(
    "pins",
    [
        Plan(early_puts=1, ping_pong=False, slot_views="own", ctas_per_sm=1),
        Plan(rings=(RingPlan("r1", depth=2), RingPlan("r0", fill="tma"))),
        Plan(operands=(OperandPlan("a", 0, path="consumer"), OperandPlan("b", 0, prefetched=True))),
        Plan(stores=(StorePlan("c", staged=False),), max_registers=0),
        Plan(partitions=TWO_WARP_GROUPS),
        Plan(groups=2, loops=(LoopPlan(0, kept=(0,)),)),
    ],
    ids=["single values", "rings", "operands", "stores", "partitions", "loops"],
)
def test_what_the_user_pins_is_in_every_candidate(pins: Plan) -> None:
    _, tried = searched(asking(pins=pins, num_warps=8, chained=True, promotable=True), never_good)
    assert len(tried) > 3
    for candidate in tried:
        assert pins.over(candidate.plan) == candidate.plan, candidate


def test_a_candidate_says_nothing_but_pins_and_what_feedback_decided() -> None:
    _, tried = searched(asking(promotable=True), never_good)
    assert (tried[0].plan, tried[0].why) == (Plan(groups=1), {})
    assert tried[1].plan == Plan(groups=1, rings=(RingPlan("r0", depth=3),))
    assert [("rings.r0.depth" in it.why, "loops" in it.why) for it in tried[:4]] == [
        (False, False), (True, False), (True, True), (True, True)
    ]  # fmt: skip
    assert tried[0].why == {}


@pytest.mark.parametrize(
    ("options", "pinned", "allowed", "taken"),
    [
        (AUTOMATIC, False, 400, False), (AUTOMATIC, True, 400, True), (AUTOMATIC, False, 900, True),
        (AUTOMATIC, False, NO_STOCK, True), (PlanOptions(only_if_faster=False), False, 400, True),
    ],
    ids=["automatic", "pinned", "as much as stock", "stock cannot be compiled", "wherever legal"],
)  # fmt: skip
def test_what_spills_is_taken_where_it_is_asked_for_or_stock_is_no_better(
    options: PlanOptions, pinned: bool, allowed: int, taken: bool
) -> None:
    trial = Trial(planned(), spilled=900, in_flight=False)
    choice, _ = searched(asking(options, pinned=pinned, allowed=allowed), lambda _: trial)
    assert (choice.accepted, choice.refusal is None) == (taken, taken)
    assert "{" not in (choice.refusal.cure if choice.refusal is not None else "")
    told = [it for it in (*choice.notes, choice.refusal) if it is not None]
    assert [it.kind for it in told] == ([] if allowed >= 900 else ["note" if taken else "declined"])
    assert all("900 bytes" in it.reason and "smaller blocks, or num_warps=8" in it.cure for it in told)


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("num_warps", [1, 2, 4, 8])
def test_no_cure_for_spills_leads_to_a_number_of_warps_that_is_declined(num_warps: int, pinned: bool) -> None:
    trial = Trial(planned(), spilled=900, in_flight=False)
    choice, _ = searched(asking(pinned=pinned, num_warps=num_warps), lambda _: trial)
    (cure,) = (it.cure for it in (*choice.notes, choice.refusal) if it is not None)
    offered = [int(it) for it in re.findall(r"num_warps=(\d+)", cure)]
    assert offered == ([8] if num_warps < 8 else []) and "warps" not in cure.replace("num_warps=8", "")


def test_what_stock_spills_is_asked_only_where_it_matters() -> None:
    def no_stock() -> int:
        raise AssertionError("stock was compiled")

    question = replace(asking(), allowed=no_stock)
    for trial in (Trial(planned()), Trial(planned(), spilled=HARMLESS_BYTES), Trial(refusal=Remark("declined", "no"))):
        searched(question, lambda _, trial=trial: trial)
    with pytest.raises(AssertionError, match="stock was compiled"):
        searched(question, lambda _: Trial(planned(), spilled=HARMLESS_BYTES + 1))


# -- depth -------------------------------------------------------------------------------------------------------------


def fits(candidate: Candidate, slot_bytes: int = 65536, natural: int = 5) -> Trial:
    """A kernel with one ring, which takes what it has slots for."""
    depth = candidate.plan.ring("r0").depth or natural
    plan = planned(depth=depth, slot_bytes=slot_bytes)
    use = shared_use(depth * slot_bytes, plan)
    return Trial(plan) if use.fits() else Trial(plan, overflow=use)


def test_d_is_lowered_to_the_largest_that_fits_and_the_reason_is_kept() -> None:
    choice, tried = searched(asking(), fits)
    assert [it.plan.ring("r0").depth for it in tried] == [None, 3]
    assert choice.accepted and choice.plan is not None and choice.plan.rings[0].depth == 3
    why = choice.candidate.why["rings.r0.depth"]
    assert why == "with the D of the first Plan, the kernel needs 327680 bytes of shared memory"


@pytest.mark.parametrize("question", [
    asking(PlanOptions(aref_depth=5)), asking(pins=Plan(rings=(RingPlan("r0", depth=5),))),
    asking(PlanOptions(mma_depth=3)), asking(pins=Plan(loops=(LoopPlan(None, mma_depth=3),)))
], ids=["D of all rings", "D of the ring", "P", "P of the Plan"])  # fmt: skip
def test_what_is_pinned_stays_although_it_does_not_fit(question: Question) -> None:
    choice, tried = searched(question, fits)
    assert len(tried) == 1 and not choice.accepted
    assert choice.overflow is not None and choice.overflow.total_bytes == 5 * 65536 > LIMIT_BYTES


def test_an_error_at_a_lowered_d_is_not_the_users() -> None:
    def made(candidate: Candidate) -> Trial:
        lowered = candidate.plan.ring("r0").depth is not None
        return Trial(error=PlanError("needs D >= 4")) if lowered else fits(candidate)

    choice, _ = searched(asking(), made)
    assert choice.overflow is not None and choice.overflow.total_bytes == 5 * 65536
    with pytest.raises(PlanError, match="needs 2"):
        searched(asking(), lambda _: Trial(error=PlanError("needs 2")))


# -- registers ---------------------------------------------------------------------------------------------------------


def tries(plan: Plan, options: PlanOptions = AUTOMATIC, spilled: int = 900) -> list[Candidate]:
    return smaller(Trial(plan, spilled=spilled), asking(options))


def test_plans_for_fewer_registers_give_up_stages_first_then_the_schedule_and_p() -> None:
    plan = planned(LoopPlan(0, 1, schedule=schedule(2)))
    made = [it.plan for it in tries(plan)]
    assert [(it.loop(0).stages, it.loop(0).mma_depth, it.schedules) for it in made] == [(1, None, ()), (0, 0, ())]
    assert [it.operand((None, None, 0)).prefetched for it in made] == [None, False]
    assert all(it.rings == (RingPlan("r0", depth=3),) for it in made), "each ring keeps the D that was planned first"


def test_operands_in_registers_are_given_up_first_and_for_good() -> None:
    plan = planned(LoopPlan(0, 1, schedule=schedule(2), kept=(0,)))
    spilled = "the first Plan spills 900 bytes of registers to local memory"
    found = [(it.plan.loop(0).kept, it.plan.loop(0).stages, it.why["loops"]) for it in tries(plan)]
    assert found == [
        ((), None, f"operands in shared memory: {spilled}"), ((), 1, f"no stages: {spilled}"),
        ((), 0, f"no schedule, P = 0: {spilled}"),
    ]  # fmt: skip
    assert tries(plan)[0].plan.schedules == ()


@pytest.mark.parametrize("spilled", [FREED_BYTES, FREED_BYTES + 4])
def test_prefetched_rows_are_given_up_for_good_and_alone_if_that_may_be_enough(spilled: int) -> None:
    row = OperandPlan("a", 0, 0, prefetched=True)
    made = tries(replace(planned(LoopPlan(0, 1, schedule=schedule(2))), operands=(row,)), spilled=spilled)
    assert all(it.plan.operand((None, None, 0)).prefetched is False for it in made)
    if spilled > FREED_BYTES:
        assert made[0].why["loops"].startswith("no stages")
        return
    assert [it.why["loops"].partition(":")[0] for it in made] == [
        "no prefetched rows", "no stages", "no schedule, P = 0"
    ]  # fmt: skip
    assert made[0].plan.loops == ()


def test_a_p_that_was_asked_for_is_not_given_up() -> None:
    plan = planned(LoopPlan(0, 1, schedule=schedule(1)))
    assert [it.plan.loop(0).mma_depth for it in tries(plan, PlanOptions(mma_depth=1))] == [1]


def test_a_plan_that_keeps_nothing_in_flight_has_nothing_to_give_up() -> None:
    assert tries(planned(LoopPlan(0, 0))) == []


def spilling(candidate: Candidate, later: Trial) -> Trial:
    """900 bytes as planned first; what is tried then comes to `later`."""
    first = planned(LoopPlan(0, 1, schedule=schedule(2)))
    return replace(later, plan=planned(LoopPlan(0, 0))) if candidate.plan.loops else Trial(first, spilled=900)


@pytest.mark.parametrize(("in_flight", "taken"), [(True, True), (False, False)])
def test_a_smaller_plan_of_one_group_that_waits_for_each_dot_does_not_pay(in_flight: bool, taken: bool) -> None:
    """It spills less than stock, but nothing runs beside its wgmmas any more."""
    later = Trial(spilled=200, in_flight=in_flight)
    pinned, _ = searched(asking(pinned=True), lambda it: spilling(it, later))
    assert pinned.accepted and pinned.spilled == 200
    choice, _ = searched(asking(), lambda it: spilling(it, later))
    assert (choice.accepted) is taken
    if choice.refusal is not None:
        assert "200 bytes of registers spill to local memory, and ptxas serialises the wgmmas" in choice.refusal.reason


def test_the_first_smaller_plan_that_holds_is_taken_with_a_note_that_says_so() -> None:
    choice, tried = searched(asking(), lambda it: spilling(it, Trial(spilled=HARMLESS_BYTES)))
    assert len(tried) == 2 and choice.accepted and choice.spilled == HARMLESS_BYTES
    assert [it.reason for it in choice.notes] == [tried[1].why["loops"]]


@pytest.mark.parametrize("later", [
    Trial(spilled=0, trusted=False), Trial(error=ResourceError("too large")), Trial(spilled=900), Trial(spilled=2000)
], ids=["not proved", "does not fit", "spills as much", "spills more"])  # fmt: skip
def test_a_smaller_plan_that_is_no_better_is_not_taken(later: Trial) -> None:
    choice, tried = searched(asking(pinned=True), lambda it: spilling(it, later))
    assert len(tried) == 3 and choice.accepted and choice.spilled == 900
    assert [it.reason for it in choice.notes] == [
        "900 bytes of registers spill to local memory, more than in the stock kernel"
    ]


@pytest.mark.parametrize("first", [
    Trial(planned(), spilled=900, must_spill=True), Trial(planned(), spilled=900, in_flight=False),
    Trial(planned(), spilled=HARMLESS_BYTES, serialised=True)
], ids=["every Plan spills", "nothing is in flight", "it does no harm"])  # fmt: skip
def test_smaller_plans_are_not_tried_where_they_bring_nothing(first: Trial) -> None:
    assert len(searched(asking(pinned=True), lambda _: first)[1]) == 1


@pytest.mark.parametrize(("spilled", "budget", "stages"), [
    (STEP_BYTES, None, [None, None, 1, 0]), (STEP_BYTES + 4, None, [None, 1, 0, None]),
    (STEP_BYTES + 4, 60.0, [None, None, 1, 0]),
])  # fmt: skip
def test_where_much_spills_and_few_are_tried_the_schedule_is_shortened_first(
    spilled: int, budget: float | None, stages: list[int | None]
) -> None:
    first = Trial(planned(LoopPlan(0, 1, schedule=schedule(2), kept=(0,))), spilled=spilled)
    _, tried = searched(asking(PlanOptions(compile_budget_s=budget), allowed=0), lambda _: first)
    assert [it.plan.loop(0).stages for it in tried] == stages


def test_a_schedule_of_one_stage_that_spills_much_is_given_up_first() -> None:
    first = Trial(planned(LoopPlan(0, 1, schedule=schedule(1), kept=(0,))), spilled=STEP_BYTES + 4)
    _, tried = searched(asking(allowed=0), lambda _: first)
    assert [it.plan.loop(0).stages for it in tried] == [None, 0, None]


@pytest.mark.parametrize(
    ("told", "spilled", "serialised", "taken"),
    [
        ("", 900, False, True), ("4 us predicted, 3 us for stock Triton's", 900, False, False),
        ("", HEAVY_SPILL_BYTES, False, False), ("", 900, True, False),
    ],
    ids=["faster", "slower", "too much", "serialised"],
)  # fmt: skip
def test_what_spills_more_than_stock_is_taken_if_it_is_predicted_to_be_faster(
    told: str, spilled: int, serialised: bool, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(compiled, "why_not_faster", str)

    class Foreseeing:
        """In place of a search and its space."""

        def why_hopeless(self, learns: bool) -> None:
            return None

        @property
        def space(self) -> Foreseeing:
            return self

        def knowing(self, facts: object) -> Foreseeing:
            return self

        def groups(self, usual: int) -> int:
            return usual

        def expected(self, plan: Plan, spilled: int) -> str:
            asked.append(spilled)
            return told

    trial = Trial(planned(), spilled=spilled, in_flight=False, serialised=serialised)
    choice, _ = searched(asking(search=Foreseeing()), lambda _: trial)
    assert (choice.accepted) is taken
    if taken:
        assert asked == [900] and choice.notes[0].reason.endswith(
            "in the stock kernel, but it is predicted to be faster"
        )
    else:
        assert choice.refusal is not None and told in choice.refusal.reason


def test_loops_that_the_user_pinned_stay() -> None:
    pins = Plan(loops=(LoopPlan(0, mma_depth=1),))
    first = Trial(planned(LoopPlan(0, 1, schedule=schedule(2))), spilled=900)
    choice, tried = searched(asking(pins=pins, pinned=True), lambda _: first)
    assert len(tried) == 1 and choice.accepted


# -- what cannot be proved ---------------------------------------------------------------------------------------------


def test_what_cannot_be_proved_with_stages_is_tried_without() -> None:
    unproved = UNPROVED.remark(why="deadlock")

    def made(candidate: Candidate) -> Trial:
        flat = candidate.plan.loop(None).stages == 1
        return Trial(planned(LoopPlan(0, stages=1))) if flat else Trial(refusal=unproved)

    taken, tried = searched(asking(), made)
    assert (
        taken.accepted
        and len(tried) == 2
        and [it.reason for it in taken.notes] == ["no stages: with them, the protocol cannot be proved"]
    )
    taken, tried = searched(asking(), lambda candidate: Trial(refusal=unproved))
    assert taken.refusal == unproved and len(tried) == 2
    pinned = asking(pins=Plan(loops=(LoopPlan(stages=2),)))
    assert len(searched(pinned, made)[1]) == 1
    other = Remark("declined", "for another reason")
    assert len(searched(asking(), lambda candidate: Trial(refusal=other))[1]) == 1
