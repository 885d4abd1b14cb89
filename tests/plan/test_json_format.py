"""Plans as JSON: written, read, and laid over another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tawa.errors import PlanError
from tawa.plan import LaunchPlan, LoopPlan, OperandPlan, PartitionPlan, Plan, PlanOptions, RingPlan, StorePlan
from tawa.plan.decide.rings import Target
from tawa.plan.plan import JSON_VERSION
from tawa.plan.schedule import Bound, Carried, Schedule, ScheduledOp
from tests.cases.programs import staged
from tests.support.pipeline import specialise


def planned() -> Plan:
    """A whole Plan, with a schedule."""
    made = specialise(staged.attention(), PlanOptions(aref_depth=2), Target(4, 3))
    assert made.plan is not None
    return made.plan


names = st.text("abcdefgh_0123", min_size=1)
few = st.integers(0, 4)
flags = st.none() | st.booleans()
words = st.none() | names


roles = st.sampled_from(["producer", "converter", "consumer"])


def one_of(*values: str) -> st.SearchStrategy[Any]:
    return st.none() | st.sampled_from(values)


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Entries with different names."""
    return st.lists(strategy, unique_by=lambda it: it.key, max_size=4).map(tuple)


schedules = st.builds(
    Schedule,
    st.integers(0, 3),
    names,
    st.integers(0, 4000),
    st.lists(st.builds(Bound, names, st.integers(0, 4000))).map(tuple),
    st.integers(0, 3).map(lambda count: tuple(ScheduledOp(place % 2, place, 0, "op") for place in range(count))),
    st.lists(st.tuples(names, st.integers(1, 4))).map(tuple),
    carried=st.lists(st.builds(Carried, names, names, st.integers(1, 3))).map(tuple),
)
plans = st.builds(
    Plan,
    form=one_of("as_written", "persistent", "unpartitioned", "stock"),
    tile_order=one_of("launch", "longest_first", "grouped", "hilbert", "l2_halves"),
    tile_group=st.none() | st.integers(1, 64),
    tiles=one_of("strided", "dynamic"),
    groups=st.none() | few,
    split=one_of("rows", "columns"),
    split_k=st.none() | st.integers(1, 16),
    partitions=st.lists(
        st.builds(
            PartitionPlan, names, roles, few, st.none() | st.integers(0, 256)
        )
    ).map(tuple),
    max_registers=st.none() | st.integers(0, 256),
    ctas_per_sm=st.none() | few,
    operands=some(
        st.builds(
            OperandPlan, words, st.none() | few, few, one_of("host_descriptor", "promoted", "cp.async", "consumer"),
            words, flags, flags, one_of("in_order", "for_next_dot"), one_of("registers", "converter"), flags, st.text(),
        )
    ),
    stores=some(
        st.builds(
            StorePlan, words, st.none() | few, few, one_of("promoted", "pointers"), flags,
            st.sampled_from([None, 1, 4]), st.sampled_from([None, 1, 2]), st.text(),
        )
    ),
    loops=some(
        st.builds(
            LoopPlan, st.none() | few, st.none() | few, st.none() | few, st.none() | schedules,
            st.none() | st.lists(few).map(tuple), flags, st.text(),
        )
    ),
    rings=some(
        st.builds(
            RingPlan, names, st.lists(st.text()).map(tuple), st.none() | few, st.none() | st.integers(0, 2**17),
            st.none() | few, one_of("tma", "cp.async", "registers", "stores"),
        )
    ),
    unit_strides=st.none() | st.lists(names).map(tuple),
    early_puts=st.none() | few,
    ping_pong=flags,
    ping_pong_sections=st.none() | st.lists(st.tuples(few, few)).map(tuple),
    slot_views=one_of("shared", "own"),
    direct_stores=st.none() | st.booleans(),
    unrolled=st.none() | st.booleans(),
    num_warps=st.none() | st.integers(1, 32),
    launches=st.none() | st.builds(
        LaunchPlan, st.none() | st.lists(names).map(tuple), one_of("predicted", "specialised", "always"),
    ),
)  # fmt: skip


@given(plans)
def test_a_plan_comes_back_from_its_json(plan: Plan) -> None:
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert [it.line for it in (*again.operands, *again.stores)] == [it.line for it in (*plan.operands, *plan.stores)]


@given(plans, plans)
def test_a_plan_over_another_keeps_what_it_says_and_takes_what_it_leaves_open(first: Plan, second: Plan) -> None:
    both = first.over(second)
    assert first.over(first) == first and first.over(Plan()) == first and Plan().over(first) == first
    for name in ("form", "groups", "max_registers", "ctas_per_sm", "unit_strides", "early_puts", "slot_views"):
        mine = getattr(first, name)
        assert getattr(both, name) == (getattr(second, name) if mine is None else mine)
    for ring in first.rings:
        theirs = second.ring(ring.name).depth
        assert both.ring(ring.name).depth == (theirs if ring.depth is None else ring.depth)
    keys = [it.key for it in both.operands]
    assert set(keys) == {it.key for it in (*first.operands, *second.operands)} and len(keys) == len(set(keys))


def test_what_a_plan_leaves_open_is_not_in_its_json() -> None:
    plan = Plan(rings=(RingPlan("ring0", depth=2),), operands=(OperandPlan("a", 0, ring="ring0"),))
    assert plan.to_dict() == {
        "version": JSON_VERSION,
        "operands": [{"argument": "a", "loop": 0, "ordinal": 0, "ring": "ring0"}],
        "rings": [{"name": "ring0", "depth": 2}],
    }  # fmt: skip
    assert Plan.from_json("{}") == Plan.from_json(f'{{"version": {JSON_VERSION}}}') == Plan()


def test_a_plan_is_read_from_what_holds_one(tmp_path: Path) -> None:
    plan = planned()
    file = tmp_path / "plan.json"
    file.write_text(plan.to_json())
    for value in (plan, plan.to_dict(), plan.to_json(), f"\n {plan.to_json()}", file, str(file)):
        assert Plan.of(value) == plan
    with pytest.raises(PlanError, match=r"nowhere.json': no such file can be read .*cure: a path, JSON text, a dict"):
        Plan.of(tmp_path / "nowhere.json")
    with pytest.raises(PlanError, match="plan=3: a Plan, a dict, JSON text or a path is needed, not int"):
        Plan.of(3)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "3", '{"mma_depth": 0}', '{"rings": {}}', '{"rings": [3]}',
     '{"partitions": "x"}', '{"loops": [{"kept": [0.5]}]}', '{"operands": [{"argument": "a", "deep": 3}]}',
     '{"unit_strides": "sk"}', '{"launches": []}', '{"ping_pong_sections": [[1]]}', '{"loops": [{"schedule": 3}]}'],
)  # fmt: skip
def test_another_text_is_no_plan(text: str) -> None:
    with pytest.raises(PlanError, match=r"not a Plan: .*cure: start from"):
        Plan.from_json(text)


def test_an_entry_that_is_misspelt_is_told_its_name() -> None:
    with pytest.raises(PlanError, match=r"rings\[0\] has no 'deph': did you mean 'depth'"):
        Plan.of({"rings": [{"name": "ring0", "deph": 3}]})


def test_a_plan_of_a_later_version_is_refused() -> None:
    data = planned().to_dict()
    assert data["version"] == JSON_VERSION
    with pytest.raises(PlanError, match=f"version {JSON_VERSION + 1} is not {JSON_VERSION}"):
        Plan.of(data | {"version": JSON_VERSION + 1})
