"""Every form of a kernel, as Plans in the order of their predicted times."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tawa.ir import Module
from tawa.machine.machines import SM_100
from tawa.machine.nvidia import SHARED_BYTES
from tawa.outside import read
from tawa.plan import LoopPlan, Plan, PlanOptions, RingPlan
from tawa.plan.cost.launches import usual_launches
from tawa.plan.cost.programs import ProgramFacts
from tawa.plan.cost.time_model import predict
from tawa.plan.option_conflicts import STOCK
from tawa.plan.search.candidate import Candidate
from tawa.plan.search.search import Search
from tawa.plan.search.space import Space, completed, form_of, is_straight, only_measured
from tests.cases.programs.workloads import by_descriptors, by_pointers, chained, outside, straight, workload
from tests.support.forms import form_plan
from tests.support.timed import changed


def space(module: Module, num_warps: int = 8, num_stages: int = 3) -> Space:
    return Space(num_warps, num_stages, workload(module))


def ranked(of: Space) -> tuple[Candidate, ...]:
    return Search.of(of).ranked()


GEMM = space(by_descriptors())
RANKED = ranked(GEMM)


def test_a_kernel_with_descriptors_has_one_path() -> None:
    assert list(GEMM.forms) == [form_plan(1), form_plan(2)]


def test_pointers_may_be_replaced_by_tma_where_that_is_possible() -> None:
    written = space(by_pointers())
    assert {written.promotes(it) for it in written.forms} == {False}
    both = replace(written, promoted=True)
    assert {both.promotes(it) for it in both.forms} == {True, False}


def test_a_persistent_form_is_one_more_of_each() -> None:
    assert {(it.groups, it.form == "persistent") for it in replace(GEMM, persistent=True).forms} == {
        (1, False), (1, True), (2, False), (2, True),
    }  # fmt: skip


@pytest.mark.parametrize(("rows", "warps", "most"), [(128, 8, 2), (64, 8, 1), (128, 4, 1)])
def test_two_groups_need_128_rows_and_8_warps(rows: int, warps: int, most: int) -> None:
    assert max(it.groups for it in space(by_descriptors(rows), warps).forms) == most


def test_a_space_is_that_of_its_machine() -> None:
    other = replace(GEMM, machine=SM_100)
    assert {it.processors for it in other.launches} == {SM_100.processors}
    assert {it.machine for it in (other.stock, *map(other.program, other.forms))} == {SM_100}
    assert max(it.groups for it in other.forms) == 1, "two groups of 128 rows each"


def test_programs_share_a_cta_where_they_load_the_same_tiles_with_four_warps_each() -> None:
    attention = replace(space(chained(64, 128, 64), 4), shares=True)
    assert {(it.own_groups, it.programs) for it in attention.forms if it.programs > 1} == {(1, 2), (1, 3)}
    assert not any(it.programs > 1 for it in replace(attention, shares=False).forms)
    assert not any(it.programs > 1 for it in replace(attention, num_warps=8).forms)
    plans = [it for it in ranked(attention) if it.plan.split == "programs"]
    assert {it.plan.groups for it in plans} == {2, 3} and all("programs in a CTA" in it.words for it in plans)


def test_programs_of_a_cta_take_shared_memory_for_what_each_loads_and_stores_alone() -> None:
    """Of attention with 128 columns: slots of 64 KiB; each program has 16 KiB of queries and as much of results."""
    of = replace(space(chained(64, 128, 128), 4), shares=True)
    slots = {form.programs: of.program(form).slots for form in of.forms}
    assert slots == {1: 3, 2: 2, 3: 2}


def test_programs_of_a_cta_fill_the_waits_of_each_other() -> None:
    of = replace(space(chained(64, 128, 64), 4), shares=True)
    launch = usual_launches(of.workload)[-1]
    alone, three = (changed(of.program(form_plan()), ctas=1), of.program(form_plan(programs=3)))
    assert predict(of.workload, launch, three) < predict(of.workload, launch, alone)


def test_rings_of_every_form_fit_into_shared_memory() -> None:
    for module in (by_descriptors(), by_descriptors(256, 128, 128), chained()):
        of = space(module)
        slot = max(work.operand_bytes for work in of.workload.blocks.values())
        assert all(of.program(form).slots * slot <= SHARED_BYTES for form in of.forms)


def test_tiles_that_are_loaded_once_take_shared_memory_beside_the_rings() -> None:
    """Queries of 64 KiB leave two slots of 64 KiB, although three would fit alone."""
    of = space(chained(128, 64, 256))
    assert {of.program(form).slots for form in of.forms} == {2}


def test_chained_dots_have_stages_and_others_a_dot_in_flight() -> None:
    plain, attention = GEMM.program(form_plan(1)), space(chained()).program(form_plan(1))
    assert (plain.staged, plain.in_flight) == (False, 1)
    assert (attention.staged, attention.in_flight) == (True, 0)


def test_plans_are_in_the_order_of_their_times_and_stock_is_among_them() -> None:
    times = [it.predicted_us for it in RANKED if it.predicted_us is not None]
    assert len(times) == len(RANKED) > 10 and times == sorted(times)
    assert Candidate(STOCK, GEMM.mean_us(GEMM.stock), "stock Triton") in RANKED
    assert len({it.plan for it in RANKED}) == len({it.words for it in RANKED}) == len(RANKED)


def test_a_dot_in_flight_has_a_slot_to_be_in() -> None:
    for it in RANKED:
        if it.plan != STOCK:
            assert (it.plan.loops[0].mma_depth or 0) < (it.plan.rings[0].depth or 1)


def test_pins_stay_and_only_plans_that_agree_with_them_are_left() -> None:
    pins = Plan(groups=2, rings=(RingPlan(depth=2),))
    found = Search.of(GEMM, pins).measured(None)
    assert found
    for it in found:
        if it.plan != STOCK:
            assert (it.plan.groups, it.plan.rings[0].depth) == (2, 2)


def test_options_leave_out_the_plans_that_contradict_them() -> None:
    _, *found = Search.of(GEMM, options=PlanOptions(mma_depth=0)).measured(None)
    assert found and all(it.plan.loops == (LoopPlan(mma_depth=0, stages=0),) for it in found)
    stock = Search.of(GEMM, options=PlanOptions(enable_warp_specialization=False))
    assert [it.plan for it in stock.measured(None)] == [STOCK]


def test_a_ranked_plan_is_read_from_what_was_written() -> None:
    for it in RANKED:
        assert read(Candidate, json.loads(json.dumps(it.to_dict()))) == it


def test_dots_stay_in_flight_only_if_rings_outside_the_loop_have_slots_for_them() -> None:
    def pairs(depth: int, form: str = "persistent") -> set[tuple[int, int]]:
        persistent = replace(space(outside(depth=depth)), persistent=True)
        plans = [it.plan for it in ranked(persistent) if it.plan.form == form]
        return {(it.rings[0].depth or 0, it.loops[0].mma_depth or 0) for it in plans}

    assert (2, 1) in pairs(64)
    assert pairs(256) and all(not in_flight for _, in_flight in pairs(256)), "the outer ring has one slot"
    assert (2, 1) in pairs(256, "as_written"), "without a loop around it, the tile has no ring"


SMALL = replace(space(by_descriptors(64, 64, 64), 4), persistent=True)


def test_where_stocks_ctas_share_an_sm_several_persistent_programs_are_a_form_that_only_measurements_choose() -> None:
    small = SMALL
    forms = [it for it in small.forms if only_measured(it)]
    assert forms and {it.form for it in forms} == {"persistent"}
    assert 1 < (forms[0].ctas_per_sm or 0) <= small.stock.ctas and "CTAs an SM" in small.words(forms[0])
    assert form_of(small, completed(small, forms[0])) == forms[0]
    search = Search.of(small)
    launch = usual_launches(small.workload)[0]
    chosen = search.choose(launch, {}).plan
    assert chosen is None or not only_measured(chosen)
    assert not any(only_measured(it) for it in replace(small, persistent=False).forms)
    alone = replace(small, facts=ProgramFacts(registers=255, shared=SHARED_BYTES))
    assert alone.stock.ctas == 1 and not any(only_measured(it) for it in alone.forms)


def test_a_kernel_whose_dots_are_in_no_loop_has_persistent_forms_only() -> None:
    once = replace(space(straight(), 4), persistent=True)
    assert is_straight(once.workload) and {it.form for it in once.forms} == {"persistent"}
    assert replace(once, persistent=False).forms == ()
    assert once.program(once.forms[0]).ctas > 1
