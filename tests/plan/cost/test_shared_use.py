"""Shared memory: what fits, and what the message says."""

from __future__ import annotations

import pytest

from tawa.plan import OperandPlan, Plan, RingPlan
from tawa.plan.cost.shared_use import LIMIT_BYTES, at_most, largest_depth, overflow_text, shared_use


def plan(*rings: tuple[int, int]) -> Plan:
    return Plan(rings=tuple(RingPlan(f"r{i}", ("t",), depth, size) for i, (depth, size) in enumerate(rings)))


@pytest.mark.parametrize("total, fits", [(LIMIT_BYTES, True), (LIMIT_BYTES + 1, False)])
def test_the_limit_itself_still_fits(total: int, fits: bool) -> None:
    assert shared_use(total, None).fits() == fits


@pytest.mark.parametrize(
    "rings, other, depth",
    [
        ([(5, 49152)], 1000, 4),
        ([(5, 49152)], LIMIT_BYTES - 4 * 49152, 4),
        ([(5, 49152)], LIMIT_BYTES - 4 * 49152 + 1, 3),
        ([(1, 65536), (4, 49152)], 0, 3),
        ([(1, LIMIT_BYTES), (4, 1)], 1, None),
        ([(2, LIMIT_BYTES)], 1, None),
        ([], 1, None),
    ],
)
def test_the_largest_depth_counts_everything_else(rings: list[tuple[int, int]], other: int, depth: int | None) -> None:
    made = plan(*rings)
    total = sum(ring.total_bytes for ring in made.rings) + other
    assert largest_depth(shared_use(total, made)) == depth


@pytest.mark.parametrize(("fixed", "depth"), [((), 3), (("r0",), 3), (("r1",), None), (("r0", "r1"), None)])
def test_rings_that_are_pinned_keep_their_depth(fixed: tuple[str, ...], depth: int | None) -> None:
    made = plan((1, 65536), (4, 49152))
    use = shared_use(sum(ring.total_bytes for ring in made.rings), made)
    assert largest_depth(use, fixed) == depth
    assert [ring.depth for ring in at_most(use.rings, 1, fixed)] == [1, 4 if "r1" in fixed else 1]


def test_the_message_names_each_ring_the_rest_and_the_cure() -> None:
    text = overflow_text("gemm", shared_use(5 * 49152 + 1000, plan((5, 49152))))
    assert text.splitlines() == [
        "gemm: needs 246760 bytes of shared memory; one CTA has 232448 (227 KiB)",
        "  ring r0 (t): 5 x 49152 = 245760 bytes",
        "  everything else: 1000 bytes",
        "  cure: aref_depth=4 (the largest that fits)",
    ]


def test_the_message_names_what_a_ring_carries() -> None:
    carried = Plan(rings=plan((5, 49152)).rings, operands=(OperandPlan("a", 0, ring="r0", line="gemm.py:7"),))
    assert "  ring r0 (t; a, loop 0 (gemm.py:7)): 5 x" in overflow_text("gemm", shared_use(300_000, carried))
