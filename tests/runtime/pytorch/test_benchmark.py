"""``mode="measure"``: both kernels are timed, the faster is kept and remembered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tawa.bridge.launch import launcher as launchers
from tawa.bridge.launch.host import Host
from tawa.errors import PlanError
from tawa.plan import PlanOptions
from tawa.runtime.pytorch import benchmark
from tests.bridge.launch.test_launcher import TENSOR, launcher

CARD = "a card"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def clock(times: dict[str, float]) -> Callable[[Callable[[], None], int], float]:
    """A clock that knows how long a launch takes by its name."""

    def measured(launch: Callable[[], None], count: int) -> float:
        return times[launch.__name__] * count

    return measured


def stock() -> None: ...


def ours() -> None: ...


def test_both_are_timed_per_launch() -> None:
    assert benchmark.time_both(stock, ours, clock({"stock": 0.5, "ours": 0.25})) == (0.5, 0.25)


def test_an_outlier_does_not_decide() -> None:
    calls = iter(range(1000))

    def measured(launch: Callable[[], None], count: int) -> float:
        return count * (50.0 if next(calls) == 9 else {"stock": 2.0, "ours": 1.0}[launch.__name__])

    assert benchmark.time_both(stock, ours, measured) == (2.0, 1.0)


def test_what_was_measured_is_remembered_for_this_kind_of_gpu() -> None:
    benchmark.remember("key", {"kernel": "k", "device": CARD, "stock_ms": 2.0, "tawa_ms": 1.0})
    known = benchmark.recall("key", CARD)
    assert known is not None and known["tawa_ms"] == 1.0
    assert benchmark.recall("key", "another card") is None
    assert benchmark.recall("another key", CARD) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"device": "a card"}', '{"device": "a card", "stock_ms": "x"}'])
def test_a_damaged_file_is_as_none(text: str) -> None:
    benchmark.folder().mkdir(parents=True)
    (benchmark.folder() / "key.json").write_text(text)
    assert benchmark.recall("key", CARD) is None


def launches(verdicts: list[str | None], count: int) -> tuple[list[str], int]:
    """Which kernel `count` launches took, and how often the benchmark ran."""
    asked: list[str] = []

    def timed(key: str, name: str, stock: Any, ours: Any) -> Any:
        asked.append(name)
        return verdicts[len(asked) - 1]

    took: list[str] = []
    host = Host(benchmark=timed)
    launch = launcher(lambda *_: took.append("tawa"), lambda *_: took.append("stock"), measured=True, host=host)
    for _ in range(count):
        launch(1, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    return took, len(asked)


@pytest.mark.parametrize("winner", ["stock", "tawa"])
def test_the_faster_is_launched_from_then_on(winner: str) -> None:
    assert launches([winner], 3) == ([winner] * 3, 1)


def test_a_benchmark_may_be_deferred() -> None:
    assert launches([None, None, "stock"], 4) == (["tawa", "tawa", "stock", "stock"], 3)


def test_one_tensor_passed_twice_is_not_measured() -> None:
    address = 0x7F0000000000
    assert launchers._all_different([address, address + 512, 100, 100])
    assert not launchers._all_different([address, 100, address])


def test_measuring_specialises_wherever_it_is_legal() -> None:
    assert PlanOptions(mode="measure").wherever_legal and not PlanOptions(mode="measure").pinned
    assert not PlanOptions(mode="automatic").wherever_legal
    with pytest.raises(PlanError, match="mode='best'"):
        PlanOptions(mode="best")  # type: ignore[arg-type]
