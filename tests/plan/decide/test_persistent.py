"""When a persistent form may replace the form with one tile a program: its rings must be deep enough."""

from __future__ import annotations

import pytest

from tawa.plan import PartitionPlan, Plan, RingPlan
from tawa.plan.decide.persistent import why_shallower

PARTITIONS = (PartitionPlan("producer", "producer", 1, 24), PartitionPlan("consumer", "consumer", 8, 240))


def plan(*depths: int) -> Plan:
    rings = tuple(RingPlan(f"ring{i}", ("64x64xf16",), depth, 8192) for i, depth in enumerate(depths))
    return Plan(partitions=PARTITIONS, rings=rings)


@pytest.mark.parametrize(
    ("persistent", "single"),
    [((2, 2), (2, 2)), ((3, 3), (2, 2)), ((2, 2), (3, 3)), ((1, 3, 3), (4, 4)), ((1,), (1,)), ((1, 1), (1,))],
)
def test_rings_as_deep_or_of_two_slots_are_deep_enough(persistent: tuple[int, ...], single: tuple[int, ...]) -> None:
    """The ring of tiles that are loaded in front of the loops may have one slot: it is not one of the other form's."""
    assert why_shallower(plan(*persistent), plan(*single)) == ""


@pytest.mark.parametrize(("persistent", "single"), [((1, 1, 1), (2, 2)), ((1,), (3,)), ((1, 1, 2), (2, 2))])
def test_a_ring_that_falls_to_one_slot_is_too_shallow(persistent: tuple[int, ...], single: tuple[int, ...]) -> None:
    reason = why_shallower(plan(*persistent), plan(*single))
    assert reason.startswith("shared memory allows D = 1 for a ring that has D = ")
