"""The entries of a Plan: what may stand in their fields, and what tells one from another."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tawa.errors import PlanError
from tawa.plan import LaunchPlan, LoopPlan, OperandPlan, PartitionPlan, Plan, RingPlan, StorePlan


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Plan(rings=(RingPlan("a"), RingPlan("a"))), "two rings of one name, 'a'"),
        (lambda: Plan(loops=(LoopPlan(0), LoopPlan(0))), "two loops of one name, 0"),
        (lambda: Plan(loops=(LoopPlan(), LoopPlan())), "two loops of one name, None"),
        (lambda: Plan(operands=(OperandPlan("a", 0), OperandPlan("a", 0))), r"two operands of one name, \('a', 0, 0\)"),
        (lambda: Plan(stores=(StorePlan("c"), StorePlan("c"))), "two stores of one name"),
        (lambda: OperandPlan("a", path="paper"), "path='paper' in a Plan; cure: one of \"host_descriptor\", "),
        (lambda: Plan(form="round"), 'form=.round. in a Plan; cure: one of "as_written", "persistent"'),
        (lambda: Plan(slot_views="none"), 'slot_views=.none. in a Plan; cure: one of "shared", "own"'),
        (lambda: StorePlan("c", staged=1), "staged=1 in a Plan; cure: true or false"),
        (lambda: StorePlan("c", slices=3), "slices=3 in a Plan; cure: a power of two"),
        (lambda: StorePlan("c", slices=0), "slices=0 in a Plan; cure: 1 or more"),
        (lambda: StorePlan("c", buffers=0), "buffers=0 in a Plan; cure: 1 or more"),
        (lambda: OperandPlan("a", loop=-1), "loop=-1 in a Plan; cure: 0 or more"),
        (lambda: LoopPlan(0, stages=1.0), "stages=1.0 in a Plan; cure: a whole number, 0 or more"),
        (lambda: LaunchPlan(choice="never"), 'choice=.never. in a Plan; cure: one of "predicted", "specialised"'),
    ],
)  # fmt: skip
def test_a_value_that_is_none_of_its_field_is_refused_where_the_plan_is_made(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(PlanError, match=words):
        make()


def test_what_an_entry_does_not_say_is_left_to_the_planner() -> None:
    operand, store, ring, loop = OperandPlan("a"), StorePlan("c"), RingPlan("ring0"), LoopPlan(0)
    assert (operand.path, operand.ring, operand.hoisted, operand.prefetched) == (None,) * 4
    assert (store.path, store.staged, store.slices, store.buffers) == (None,) * 4
    assert (ring.depth, ring.slot_bytes, ring.copies, ring.fill) == (None,) * 4
    assert (loop.mma_depth, loop.stages, loop.schedule, loop.kept) == (None,) * 4
    assert PartitionPlan("consumer", "consumer", 4).registers is None


@pytest.mark.parametrize(
    ("entry", "known"),
    [
        (StorePlan(), (1, 1)),
        (StorePlan(slices=2), (2, 1)),  # two would take as much memory as the whole tile
        (StorePlan(slices=4), (4, 2)),
        (StorePlan(slices=4, buffers=1), (4, 1)),
        (StorePlan(slices=2, buffers=2), (2, 2)),
    ],
)
def test_slices_go_through_two_buffers_where_that_saves_memory(entry: StorePlan, known: tuple[int, int]) -> None:
    assert entry.of_slices == known


def test_a_line_is_for_readers_and_tells_no_operands_apart() -> None:
    assert OperandPlan("a", 0, line="gemm.py:7") == OperandPlan("a", 0)
    assert OperandPlan("a", 0).key != OperandPlan("a", 0, 1).key


def test_a_ring_takes_its_slots_for_each_group_that_has_its_own() -> None:
    ring = RingPlan("ring0", ("t",), 3, 8192)
    assert (ring.slots, ring.total_bytes) == (3, 3 * 8192)
    assert RingPlan("ring0", ("t",), 3, 8192, copies=2).total_bytes == 6 * 8192


def test_a_partition_has_a_role_that_there_is_and_no_part_of_a_warp() -> None:
    with pytest.raises(
        PlanError,
        match=r"role=.judge. in a Plan; cure: one of .producer., .converter., .mma., .storer., .correction., .cons",
    ):
        PartitionPlan("judge", "judge", 4)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"num_warps=0\.5 in a Plan; cure: a whole number, 0 or more"):
        PartitionPlan("producer", "producer", 0.5)  # type: ignore[arg-type]
