"""What was measured decides: at the first launch of a key, and later without a question."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tawa.bridge.launch.host import Host
from tawa.bridge.launch.launcher import Launcher
from tawa.errors import PlanError
from tawa.plan import LoopPlan, Plan, PlanOptions
from tawa.plan.schedule import Schedule, ScheduledOp
from tawa.runtime.tuning.choices import KernelChoices, entry_of
from tawa.runtime.tuning.table import Entry
from tests.bridge.launch.test_launcher import TENSOR, launcher
from tests.runtime.tuning.entries import entry

STOCK, PERSISTENT = Plan(form="stock"), Plan(form="persistent")
SIZES = [(1, "M")]


class Launched:
    """A launcher with choices; `took` has the kernel of each launch, `measured` the class of each measurement."""

    def __init__(self, known: dict[str, Plan], winner: Plan | None = None, fails: bool = False, **host: Any) -> None:
        self.took: list[str] = []
        self.measured: list[str] = []
        self.compiled: list[Plan] = []
        self.winner, self.fails = winner, fails
        entries = {name: entry(shape_class=name, plan=plan) for name, plan in known.items()}
        self.choices = KernelChoices(entries, SIZES, 132, self._measure if winner is not None else None)
        self.launch: Launcher = launcher(
            lambda *_: self.took.append("automatic"), lambda *_: self.took.append("stock"), choices=self.choices,
            compile_plan=self._compile, host=Host(**host),
        )  # fmt: skip

    def _compile(self, plan: Plan) -> Any:
        self.compiled.append(plan)
        if self.fails:
            return "does not fit"
        return SimpleNamespace(run=lambda *_: self.took.append(str(plan.form)), function=3, packed_metadata=None)

    def _measure(self, name: str, args: Sequence[Any], prepare: Callable[[Plan], Any]) -> Entry | None:
        self.measured.append(name)
        for plan in (STOCK, PERSISTENT):
            made = prepare(plan)
            if not isinstance(made, str):
                made()
        assert self.winner is not None
        return entry(shape_class=name, plan=self.winner)

    def __call__(self, rows: int = 100, tensor: Any = TENSOR) -> None:
        self.launch(1, 1, 1, 0, 7, None, None, None, None, tensor, rows, True, (48, None))


def test_the_plan_of_the_table_is_launched_where_its_class_fits() -> None:
    launch = Launched({"M <= 128, 1 program": PERSISTENT, "M <= 256, 1 program": STOCK})
    for rows in (100, 200, 300):
        launch(rows)
    assert launch.took == ["persistent", "stock", "automatic"]
    assert launch.compiled == [PERSISTENT]


@pytest.mark.parametrize("winner", [STOCK, PERSISTENT])
def test_a_class_is_measured_once_and_the_winner_launched_from_then_on(winner: Plan) -> None:
    launch = Launched({}, winner)
    for rows in (100, 100, 120, 200):
        launch(rows)
    form = str(winner.form)
    assert launch.measured == ["M <= 128, 1 program", "M <= 256, 1 program"]
    assert launch.took == ["stock", "persistent", form, form, form, "stock", "persistent", form]


def test_the_table_costs_nothing_after_the_first_launch_of_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = Launched({"M <= 128, 1 program": PERSISTENT})
    launch()
    monkeypatch.setattr(launch.choices, "lookup", None)
    launch()
    assert launch.took == ["persistent", "persistent"]


def test_nothing_is_measured_or_compiled_during_a_capture() -> None:
    capturing = [True]
    launch = Launched({"M <= 128, 1 program": PERSISTENT}, STOCK, capturing=lambda: capturing[0])
    launch(100)
    launch(200)
    assert launch.took == ["automatic", "automatic"] and not launch.measured and not launch.compiled
    capturing[0] = False
    launch(100)
    assert launch.took[2:] == ["persistent"]


def test_a_tensor_that_is_passed_twice_is_not_measured() -> None:
    choices = Launched({}, STOCK).choices
    address = 0x7F0000000000
    assert choices.measure([0, 100], (1,), [address, 100, address], lambda plan: "") is None
    assert choices.measure([0, 100], (1,), [address, 100, address + 512], lambda plan: "") == STOCK


def test_a_plan_of_the_table_that_cannot_be_made_leaves_the_launch_automatic() -> None:
    launch = Launched({"M <= 128, 1 program": PERSISTENT}, fails=True)
    launch()
    assert launch.took == ["automatic"]


def test_the_plan_of_an_entry_is_the_one_that_won_although_the_entry_names_no_file() -> None:
    at = "/home/user/kernels.py:7"
    ops = (ScheduledOp(0, 0, 0, "acc = warp_group_dot", at),)
    won = Plan(form="as_written", loops=(LoopPlan(loop=0, schedule=Schedule(0, at, 258, (), ops), line=at),))
    facts: dict[str, Any] = {"key": "0" * 32, "sizes": []}
    kept = entry_of(facts, "gemm", "a GPU", "1 program", won, "as written", (), learned=True)
    assert at not in str(kept.to_dict()), "a table may be shipped"
    assert {won: "its kernel"}[kept.plan], "a launch finds the kernel that is compiled already"


def test_what_was_measured_is_said() -> None:
    (said,) = Launched({"M <= 128, 1 program": PERSISTENT}).choices.remarks()
    assert said == "measured: launches with M <= 128, 1 program get: persistent"


def test_choosing_by_a_table_takes_less_than_50_microseconds() -> None:
    plan = Plan(form="persistent", groups=2)
    names = [f"M <= {1 << at}, 1 program" for at in range(4, 16)]
    launch = Launched(dict.fromkeys(names, plan))
    launch()
    values, rounds = [0, 100, 48], 2000
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        for _ in range(rounds):
            chosen = launch.choices.lookup(values, (64, 32, 1))
            assert chosen is None or launch.launch.made_by(chosen, values, (64, 32, 1))
            chosen = launch.choices.lookup(values, (1, 1, 1))
            assert chosen is not None and launch.launch.made_by(chosen, values, (1, 1, 1))
        best = min(best, (time.process_time() - start) / rounds / 2)
    assert best < 50e-6, f"{best * 1e6:.1f} µs"


def test_measuring_specialises_wherever_it_is_legal() -> None:
    assert PlanOptions(mode="measure").wherever_legal and not PlanOptions(mode="measure").pinned
    assert not PlanOptions(mode="automatic").wherever_legal
    with pytest.raises(PlanError, match="mode='best'"):
        PlanOptions(mode="best")  # type: ignore[arg-type]
