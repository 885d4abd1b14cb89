"""When fp32 results leave from the layout of the dot."""

from __future__ import annotations

import pytest

from tawa.plan import Plan
from tawa.plan.decide.direct import choose_direct
from tests.transforms.epilogue.test_direct_stores import convert, program, store


@pytest.mark.parametrize(
    ("groups", "plan", "decided"),
    [
        (2, Plan(), Plan(direct_stores=True)), (2, Plan(direct_stores=True), Plan(direct_stores=True)),
        (2, Plan(direct_stores=False), Plan()), (1, Plan(direct_stores=True), Plan()),
    ],
    ids=["as usual", "as the Plan says", "the Plan says no", "no conversion is in the way"],
)  # fmt: skip
def test_stores_are_direct_where_a_conversion_takes_memory_unless_a_plan_says_no(
    groups: int, plan: Plan, decided: Plan
) -> None:
    found, stores = choose_direct(program(convert(), store()), groups, plan)
    assert found == decided and bool(stores) is (decided.direct_stores is True)
