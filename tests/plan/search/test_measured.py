"""Plans of one launch against each other: order, budget, early ends, wrong results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tawa.plan import Plan
from tawa.plan.search.candidate import Candidate
from tawa.plan.search.measured import measure
from tawa.plan.thresholds import LEAST_ROUNDS, MOST_ROUNDS

PLANS = [Candidate(Plan(aref), None, aref) for aref in ("as_written", "persistent", "stock")]  # type: ignore[arg-type]


class Bench:
    """Launches with known times; a clock that counts what they take, and 1 s for each compile."""

    def __init__(self, **ms: Any) -> None:
        self.ms, self.now, self.tried, self.timed = ms, 0.0, list[str](), list[str]()

    def prepare(self, plan: Plan) -> Callable[[], None] | str:
        self.now += 1.0
        known = self.ms[str(plan.form)]
        if isinstance(known, str):
            return known

        def launch() -> None: ...

        launch.__name__ = str(plan.form)
        return launch

    def timer(self, launch: Any, count: int) -> float:
        known = self.ms[launch.__name__]
        self.timed.append(launch.__name__)
        ms = known(len(self.timed)) if callable(known) else known
        self.now += ms * count / 1000
        return ms * count

    def run(self, seconds: float = 60.0, check: Any = None, with_compiles: bool = True) -> Any:
        return measure(
            PLANS, self.prepare, self.timer, seconds, check, lambda it: self.tried.append(it.words),
            with_compiles=with_compiles, clock=lambda: self.now,
        )  # fmt: skip


def test_the_smallest_median_wins() -> None:
    found = Bench(as_written=1.2, persistent=1.0, stock=1.1).run()
    assert found.best.words == "persistent"
    assert [it.median_us for it in found.times] == [1200.0, 1000.0, 1100.0]


def test_an_outlier_does_not_decide() -> None:
    def sometimes(count: int) -> float:
        return 50.0 if count == 12 else 1.0

    assert Bench(as_written=1.1, persistent=sometimes, stock=1.2).run().best.words == "persistent"


def test_a_tie_goes_to_the_plan_that_comes_first() -> None:
    assert Bench(as_written=1.0, persistent=1.0, stock=1.0).run().best.words == "as_written"


def test_stock_triton_is_measured_first_and_two_plans_whatever_the_budget_is() -> None:
    bench = Bench(as_written=1.0, persistent=0.1, stock=1.1)
    found = bench.run(seconds=0.0)
    assert bench.tried == ["stock", "as_written"] and found.best.words == "as_written"
    assert found.times[1].note == "not tried: the budget was spent" and found.times[1].median_us is None
    assert bench.timed.count("stock") >= LEAST_ROUNDS


@pytest.mark.parametrize(("with_compiles", "tried"), [(True, 2), (False, 3)])
def test_compiles_count_where_a_user_waits_for_them(with_compiles: bool, tried: int) -> None:
    bench = Bench(as_written=1.0, persistent=1.0, stock=1.0)
    bench.run(seconds=1.5, with_compiles=with_compiles)
    assert len(bench.tried) == tried


def test_a_hopeless_plan_is_timed_briefly_only() -> None:
    bench = Bench(as_written=1.0, persistent=9.0, stock=1.1)
    found = bench.run()
    assert bench.timed.count("persistent") == 2
    assert found.times[1].note.startswith("stopped early: more than 2 times") and found.times[1].median_us == 9000.0


def test_a_plan_that_is_slower_in_every_burst_is_stopped_early() -> None:
    bench = Bench(as_written=1.0, persistent=1.0, stock=1.5)
    found = bench.run()
    assert bench.timed.count("stock") == 2 + LEAST_ROUNDS and bench.timed.count("persistent") == 2 + MOST_ROUNDS
    assert found.times[2].note == "stopped early: slower in every burst"


def test_a_plan_that_cannot_be_made_is_left_out_with_its_reason() -> None:
    found = Bench(as_written="rows\n  cannot be split", persistent=2.0, stock=1.0).run()
    assert found.best.words == "stock" and found.times[0].note == "rows\n  cannot be split"


def test_a_plan_with_other_results_than_stock_triton_never_wins() -> None:
    seen: list[str] = []

    class Check:
        def differs(self, launch: Any) -> str:
            seen.append(launch.__name__)
            return "largest error 3" if launch.__name__ == "persistent" else ""

    found = Bench(as_written=1.0, persistent=0.1, stock=1.1).run(check=Check())
    assert seen[0] == "stock" and found.best.words == "as_written"
    assert found.times[1].note == "wrong results: largest error 3"


def test_without_a_plan_that_runs_nothing_is_chosen() -> None:
    assert Bench(as_written="no", persistent="no", stock="no").run().best is None


@pytest.mark.parametrize("fatal", [True, False])
def test_a_launch_that_fails_ends_its_plan_and_one_that_loses_the_gpu_everything(fatal: bool) -> None:
    class Check:
        def differs(self, launch: Any) -> str:
            if launch.__name__ == "as_written":
                raise RuntimeError("CUDA error: illegal memory access" if fatal else "out of resources")
            return ""

    bench = Bench(as_written=1.0, persistent=1.0, stock=1.1)
    if fatal:
        with pytest.raises(RuntimeError, match="illegal memory"):
            bench.run(check=Check())
        return
    found = bench.run(check=Check())
    assert found.best.words == "persistent" and found.times[0].note == "RuntimeError: out of resources"
