"""Loops with large constant trip counts: proved as if the trip count were any, refuted with the real one."""

from __future__ import annotations

import pytest

from tawa.flow import Outcome
from tawa.ir import Module, parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.verify.barriers import check_barriers
from tawa.verify.effort import Effort
from tawa.verify.verdict import Proved, Refuted
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import gemm_loop, kernel, store
from tests.support.pipeline import specialise
from tests.verify import mutations_barrier as mutate
from tests.verify.barriers.test_check import ops


def long_loop(trips: int, depth: int = 2, mma_depth: int = 1) -> Module:
    """One tile with early puts, so that the producer's loop has fewer trips than the consumer's."""
    return parse_module(_long_loop(trips, depth, mma_depth).barrier)


def _long_loop(trips: int, depth: int, mma_depth: int) -> Outcome:
    many = programs.op("arith.constant", "", "", "%many", "i32", properties=f"value = {trips} : i32")
    options = PlanOptions(aref_depth=depth, mma_depth=mma_depth, only_if_faster=False)
    made = specialise(kernel(f"{many}\n{gemm_loop(upper='many')}\n{store()}"), options, Target(4, 3))
    assert made.applied, made.remarks
    return made


@pytest.mark.parametrize("effort", ["fast", "full"])
@pytest.mark.parametrize(
    ("trips", "depth", "mma_depth"), [(9, 2, 1), (500, 1, 0), (500, 2, 1), (500, 3, 2), (500, 4, 1)]
)
def test_a_constant_trip_count_is_proved(trips: int, depth: int, mma_depth: int, effort: Effort) -> None:
    found = check_barriers(long_loop(trips, depth, mma_depth), effort=effort)
    assert isinstance(found, Proved), found


@pytest.mark.parametrize("name", [mutate.ARRIVE, mutate.WAIT, mutate.DOT_WAIT])
def test_a_faulty_program_with_many_trips_is_refuted(name: str) -> None:
    wrong = 0
    for place in range(len(ops(long_loop(500), name))):
        module, few = long_loop(500), long_loop(9)
        for it in (module, few):
            mutate.drop(ops(it, name)[place])
        if isinstance(check_barriers(few, effort="full"), Refuted):
            wrong += 1
            assert isinstance(check_barriers(module, effort="fast"), Refuted)
    assert wrong


@pytest.mark.parametrize("more", [1, 4, 400])
def test_partitions_with_different_trip_counts_are_refuted(more: int) -> None:
    """Even if they differ by whole rounds, after which slots and parities repeat."""
    module = long_loop(500)
    *_, last = (op for op in ops(module, "arith.constant") if op.properties["value"] == "500 : i32")
    last.properties["value"] = f"{500 + more} : i32"
    assert isinstance(check_barriers(module, effort="fast"), Refuted)
