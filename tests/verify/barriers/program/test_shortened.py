"""Loops with large constant trip counts are run with fewer trips."""

from __future__ import annotations

import pytest

from tawa.ir import Module, parse_module
from tawa.pipeline import Outcome, Target, specialise
from tawa.plan import PlanOptions
from tawa.verify.barriers import check_barriers
from tawa.verify.barriers.program.kernel import BarrierProgram, Fewer
from tawa.verify.barriers.program.shortened import shortened
from tawa.verify.verdict import Checked, Refuted, Unknown
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import gemm_loop, kernel, store
from tests.support.verdicts import passes
from tests.verify import mutations_barrier as mutate
from tests.verify.barriers.test_check import ops


def long_loop(trips: int, depth: int = 2, mma_depth: int = 1) -> Module:
    """One tile with early puts, so that the producer's loop has fewer trips than the consumer's."""
    return parse_module(_long_loop(trips, depth, mma_depth).barrier)


def long_loop_aref(trips: int, depth: int = 2, mma_depth: int = 1) -> str:
    """The aref level of `long_loop`."""
    return _long_loop(trips, depth, mma_depth).aref


def _long_loop(trips: int, depth: int, mma_depth: int) -> Outcome:
    many = programs.op("arith.constant", "", "", "%many", "i32", properties=f"value = {trips} : i32")
    options = PlanOptions(aref_depth=depth, mma_depth=mma_depth, only_if_faster=False)
    made = specialise(kernel(f"{many}\n{gemm_loop(upper='many')}\n{store()}"), options, Target(4, 3))
    assert made.applied, made.remarks
    return made


@pytest.mark.parametrize(("depth", "mma_depth"), [(1, 0), (2, 1), (3, 2), (4, 1)])
def test_the_same_whole_rounds_are_skipped_in_each_partition(depth: int, mma_depth: int) -> None:
    again = 2 * depth
    program = BarrierProgram(long_loop(500, depth, mma_depth))
    trips = sorted(it.trips for it in shortened(program).values())
    assert len(trips) == 2, trips
    assert (500 - trips[1]) % again == 0
    assert again + mma_depth + 1 <= trips[0] <= 2 * again + mma_depth


def test_a_small_constant_trip_count_is_not_shortened() -> None:
    assert shortened(BarrierProgram(long_loop(9))) == {}


def test_a_large_constant_trip_count_is_proved_fast_and_the_bound_states_the_trips_run() -> None:
    found = check_barriers(long_loop(500), effort="fast")
    assert isinstance(found, Checked)
    assert found.bound.endswith("; loops of many trips with 6, 8")


@pytest.mark.parametrize("name", [mutate.ARRIVE, mutate.WAIT, mutate.DOT_WAIT])
def test_a_faulty_program_is_not_proved_by_shortening(name: str) -> None:
    wrong = 0
    for place in range(len(ops(long_loop(500), name))):
        module = long_loop(500)
        mutate.drop(ops(module, name)[place])
        if isinstance(check_barriers(module, effort="full"), Refuted):
            wrong += 1
            assert not passes(check_barriers(module, effort="fast"))
    assert wrong


@pytest.mark.parametrize("more", [1, 4, 400])
def test_partitions_with_different_trip_counts_are_not_proved(more: int) -> None:
    """Not even if they differ by whole rounds, after which slots and parities repeat."""
    module = long_loop(500)
    *_, last = (op for op in ops(module, "arith.constant") if op.properties["value"] == "500 : i32")
    last.properties["value"] = f"{500 + more} : i32"
    assert len(shortened(BarrierProgram(module))) == 2
    assert isinstance(check_barriers(module, effort="fast"), Refuted | Unknown)


def test_a_loop_whose_state_does_not_recur_is_not_shortened() -> None:
    """A loop whose body reads its induction variable."""
    program = BarrierProgram(long_loop(500))
    for op in program.loops:
        program.needed.add(op.regions[0].block.args[0])
    assert shortened(program) == {}


def test_partitions_that_skipped_different_trips_are_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_one(program: BarrierProgram) -> dict[object, Fewer]:
        return dict(list(shortened(program).items())[:1])

    monkeypatch.setattr("tawa.verify.barriers.shortened", only_one)
    assert isinstance(check_barriers(long_loop(500), effort="fast"), Unknown)
