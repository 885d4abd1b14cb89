"""Each decision of a Plan has somebody who took it, and a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.plan import LaunchPlan, LoopPlan, OperandPlan, PartitionPlan, Plan, PlanOptions, RingPlan, StorePlan
from tawa.plan.planner import IN_FLIGHT
from tawa.plan.reasons import Decision, decision_of, decisions
from tawa.plan.schedule import Bound, Carried, Schedule, ScheduledOp

PLAN = Plan(
    form="as_written",
    groups=1,
    partitions=(PartitionPlan("producer", "producer", 1, 24), PartitionPlan("consumer", "consumer", 8, 240)),
    max_registers=0,
    ctas_per_sm=1,
    operands=(
        OperandPlan(prefetched=False),
        OperandPlan("a", 0, path="host_descriptor", ring="ring0", hoisted=False, line="/home/me/gemm.py:18"),
        OperandPlan("b", 0, path="host_descriptor", ring="ring0", hoisted=True),
    ),
    stores=(StorePlan("c", path="host_descriptor", staged=True),),
    loops=(LoopPlan(0, 1, 0, kept=(), line="gemm.py:17"),),
    rings=(RingPlan("ring0", ("!ttg.memdesc<128x64xf16, #shared>",), 3, 16384, 1, "tma"),),
    unit_strides=(),
    early_puts=2,
    ping_pong=False,
    slot_views="shared",
    launches=LaunchPlan((), "always"),
)
WHY = {"rings.ring0.depth": "the most that fits", "loops.mma_depth": IN_FLIGHT}
SCHEDULE = Schedule(
    0, "fa.py:9", 1825, (Bound("tensor cores", 1305),), (ScheduledOp(0, 0, 0, "k"), ScheduledOp(1, 1, 9, "o")),
    carried=(Carried("m", "64xf32"), Carried("l", "64xf32"), Carried("p", "64x128xf16")),
)  # fmt: skip


def found(
    plan: Plan = PLAN, pins: Plan | None = None, feedback: dict[str, str] | None = None, **options: object
) -> dict[str, Decision]:
    taken = decisions(plan, pins or Plan(), PlanOptions(**options), WHY, feedback)  # type: ignore[arg-type]
    return {it.field: it for it in taken}


def test_every_decision_has_one_row_and_one_who_took_it() -> None:
    assert list(found()) == [
        "form", "groups", "partitions.producer", "partitions.consumer", "max_registers", "ctas_per_sm",
        "operands.a, loop 0", "operands.b, loop 0", "stores.c", "loops.0", "rings.ring0", "early_puts", "ping_pong",
        "slot_views", "launches",
    ]  # fmt: skip
    assert {it.by for it in found().values()} == {"planner"}


def test_a_row_says_what_was_decided_in_words() -> None:
    rows = found()
    assert rows["rings.ring0"].value == "D = 3 of (128x64xf16), 48 KiB"
    assert rows["rings.ring0"].reason == "the most that fits"
    assert rows["operands.a, loop 0"].value == "TMA, ring0 (gemm.py:18)"
    assert "hoisted" in rows["operands.b, loop 0"].value
    assert "shares a slot with a, which feeds the same dots" in rows["operands.b, loop 0"].reason
    assert (rows["loops.0"].value, rows["loops.0"].reason) == ("P = 1 (gemm.py:17)", IN_FLIGHT)
    assert rows["partitions.producer"].value == "1 warp, 24 registers per thread"


def test_a_loop_that_could_not_keep_wgmmas_in_flight_says_so() -> None:
    row = found(replace(PLAN, loops=(LoopPlan(0, 0, 0, kept=()),)))["loops.0"]
    assert (row.value, row.reason) == ("P = 0", "no wgmma of this loop can stay in flight across iterations")


def test_a_staged_loop_says_what_it_carries_and_what_binds_it() -> None:
    row = found(replace(PLAN, loops=(LoopPlan(0, 0, 2, SCHEDULE, kept=(0,)),)))
    assert row["loops.0"].value == "2 stages, 1825 cycles per iteration, carries 2 x 64xf32, 64x128xf16"
    assert row["loops.0"].reason == "lower bound 1305 (tensor cores)"
    assert row["loops.0.kept"].value == "left operand of dot 0"


def test_the_order_of_rows_is_a_decision_of_its_own() -> None:
    ordered = replace(PLAN.operands[1], rows="for_next_dot")
    plan = replace(PLAN, operands=(ordered, replace(PLAN.operands[2], rows="in_order")))
    rows = found(plan)
    assert (rows["operands.a, loop 0.rows"].value, rows["operands.b, loop 0.rows"].value) == (
        "for next dot",
        "in order",
    )
    pinned = found(plan, Plan(operands=(OperandPlan("a", 0, rows="for_next_dot"),)))
    assert [it.by for it in pinned.values() if it.field.startswith("operands.a")] == ["planner", "user"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"aref_depth": 3}, "rings.ring0"), ({"mma_depth": 1}, "loops.0"), ({"num_consumer_groups": 1}, "groups"),
        ({"ping_pong": False}, "ping_pong"), ({"persistent": False}, "form"),
    ],
)  # fmt: skip
def test_what_an_option_names_is_the_users(options: dict[str, object], field: str) -> None:
    rows = found(**options)
    ((name, value),) = options.items()
    assert (rows[field].by, rows[field].reason) == ("user", f"{name}={value}")
    assert [it.field for it in rows.values() if it.by == "user"] == [field]


@pytest.mark.parametrize(
    ("pins", "field"),
    [
        (Plan(form="as_written"), "form"), (Plan(groups=1), "groups"), (Plan(max_registers=0), "max_registers"),
        (Plan(ctas_per_sm=1), "ctas_per_sm"), (Plan(partitions=PLAN.partitions[:1]), "partitions.producer"),
        (Plan(operands=(OperandPlan("a", 0, hoisted=False),)), "operands.a, loop 0"),
        (Plan(stores=(StorePlan("c", staged=True),)), "stores.c"), (Plan(loops=(LoopPlan(mma_depth=1),)), "loops.0"),
        (Plan(rings=(RingPlan("ring0", depth=3),)), "rings.ring0"), (Plan(early_puts=2), "early_puts"),
        (Plan(rings=(RingPlan(depth=3),)), "rings.ring0"), (Plan(slot_views="shared"), "slot_views"),
        (Plan(launches=LaunchPlan(choice="always")), "launches.choice"),
    ],
)  # fmt: skip
def test_what_a_plan_pins_is_the_users(pins: Plan, field: str) -> None:
    assert (found(pins=pins)[field].by, found(pins=pins)[field].reason) == ("user", "plan=")


def test_feedback_is_told_apart_but_never_takes_what_the_user_said() -> None:
    told = {"rings.ring0.depth": "the kernel takes 240000 bytes", "loops.mma_depth": "99 bytes spill"}
    rows = found(feedback=told)
    assert (rows["rings.ring0"].by, rows["rings.ring0"].reason) == ("feedback", "the kernel takes 240000 bytes")
    assert (rows["loops.0"].by, rows["loops.0"].reason) == ("feedback", "99 bytes spill")
    assert found(feedback=told, aref_depth=3)["rings.ring0"].by == "user"


def test_launches_that_differ_have_a_row_each() -> None:
    conditions = ("(K * 2) >= 16 and (K * 2) % 16 == 0", "K >= 1 and K <= 2147418112", "p % 16 == 0", "K >= 1")
    rows = found(replace(PLAN, launches=LaunchPlan(conditions, "predicted")))
    own = {name: it.value for name, it in rows.items() if name.startswith("launches")}
    assert own == {"launches.conditions": "limits on K * 2, K, p", "launches.choice": "predicted"}


@pytest.mark.parametrize("choice, form", [("predicted", "the form"), ("specialised", "the specialised form")])
def test_a_choice_without_stock_triton_is_said_to_be_among_specialised_forms(choice, form) -> None:
    reason = found(replace(PLAN, launches=LaunchPlan(choice=choice)))["launches.choice"].reason
    assert reason == f"each launch gets {form} that is predicted to be the fastest"


def test_a_decision_is_plain_data() -> None:
    for decision in decisions(PLAN, Plan(), PlanOptions()):
        assert decision_of(decision.to_dict()) == decision


def test_the_tiles_of_a_persistent_form_have_an_order_and_a_source() -> None:
    number = RingPlan("number0", ("!ttg.memdesc<1xi32, #number>",), 2, 4, 1, "number")
    plan = replace(PLAN, form="persistent", tile_order="launch", tiles="dynamic", rings=(*PLAN.rings, number))
    rows = found(plan, Plan(tiles="dynamic"), aref_depth=2)
    assert (rows["tile_order"].value, rows["tile_order"].by) == ("launch", "planner")
    assert (rows["tiles"].value, rows["tiles"].by) == ("dynamic", "user")
    assert rows["rings.number0"].value == "D = 2 of (1xi32), 8 bytes"
    assert rows["rings.number0"].by == "planner"  # aref_depth is about rings of tiles
    assert found(replace(plan, tile_order="longest_first"))["tile_order"].value == "longest first"
