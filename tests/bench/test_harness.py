"""Timing in rounds, and how a run is named, without a GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import harness


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """A PyTorch whose graphs refuse the candidate named ``synchronises``; counts launches from Python."""
    counts: dict[str, int] = {}
    state = SimpleNamespace(capturing=False)
    counts["ahead"] = ahead = []  # type: ignore[assignment]

    @contextmanager
    def graph(_: object) -> Iterator[None]:
        state.capturing = True
        try:
            yield
        finally:
            state.capturing = False

    event = SimpleNamespace(record=lambda: None, elapsed_time=lambda other: 1.0)
    cuda = SimpleNamespace(
        Event=lambda enable_timing: event,
        CUDAGraph=lambda: SimpleNamespace(replay=lambda: None),
        graph=graph,
        synchronize=lambda: None,
        _sleep=lambda cycles: ahead.append(cycles),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    counts["state"] = state  # type: ignore[assignment]
    return counts


def candidate(name: str, counts: dict[str, Any]) -> Callable[[], None]:
    def launch() -> None:
        if name == "synchronises" and counts["state"].capturing:
            raise RuntimeError("operation not permitted when stream is capturing")
        counts[name] = counts.get(name, 0) + 1

    return launch


@pytest.mark.parametrize(("other", "captured"), [("fine", True), ("synchronises", False)])
def test_all_candidates_are_captured_or_none_is(launches: dict[str, int], other: str, captured: bool) -> None:
    names = ("stock", other)
    timings, errors = harness.time_round_robin({it: candidate(it, launches) for it in names}, rounds=8, rest_s=0.0)
    assert not errors
    assert {name: it.captured for name, it in timings.items()} == dict.fromkeys(names, captured)
    assert (launches["stock"] < 20) is captured  # launches from Python: few to capture, or some in every round
    cycles: Any = launches["ahead"]
    assert len(cycles) == (0 if captured else 16) and len(set(cycles)) <= 1  # as long before each burst


def test_without_graphs_no_candidate_is_captured(launches: dict[str, int]) -> None:
    timings, _ = harness.time_round_robin({"fine": candidate("fine", launches)}, rounds=2, rest_s=0.0, graphs=False)
    assert not timings["fine"].captured


def test_a_candidate_that_fails_costs_no_other(launches: dict[str, int]) -> None:
    def fails() -> None:
        raise RuntimeError("out of resources")

    timings, errors = harness.time_round_robin({"a": candidate("a", launches), "b": fails}, rounds=2, rest_s=0.0)
    assert list(timings) == ["a"]
    assert errors == {"b": "RuntimeError: out of resources"}


def test_a_command_names_no_folder_of_a_machine() -> None:
    root = Path(harness.__file__).resolve().parent.parent
    arguments = [str(root / "bench" / "corpus" / "__main__.py"), "run", "--packages", "/home/me/packages", "--missing"]
    assert harness._command(arguments) == "python -m bench.corpus run --packages packages --missing"
    assert (
        harness._command([str(root / "bench" / "compile_time.py"), "--quick"]) == "python -m bench.compile_time --quick"
    )
