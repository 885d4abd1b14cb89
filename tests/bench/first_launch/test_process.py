"""What one process measures, with a clock, events and a background that play."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import compiled
from bench.first_launch import process

LESSONS = 120


class Played:
    """A GPU on which every step takes a millisecond, and a host on which it takes 20 µs. order: of what was called."""

    def __init__(self) -> None:
        self.now, self.order, self.waits = 0.0, list[str](), 3

    def step(self) -> None:
        self.now += 20e-6
        self.order.append("step")

    def wait(self, timeout: float | None = None) -> bool:
        self.waits -= 1
        return self.waits < 0

    def warmup(self, step: Callable[[], Any]) -> int:
        for _ in range(LESSONS):
            step()
        return LESSONS

    def event(self, enable_timing: bool) -> Any:
        return SimpleNamespace(record=lambda: self.order.append("event"), elapsed_time=lambda other: 1.0)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    it = Played()
    cuda = SimpleNamespace(is_available=lambda: False, Event=it.event, _sleep=lambda cycles: it.order.append("sleep"))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(process.time, "perf_counter", lambda: it.now)
    monkeypatch.setattr(process, "say_alive", lambda: None)
    monkeypatch.setattr(process, "learned", lambda: {"reason": "gemm: persistent"})
    monkeypatch.setitem(sys.modules, "tawa", SimpleNamespace(wait=it.wait, warmup=it.warmup))
    return it


def test_steps_go_on_until_nothing_is_compiled_any_more(played: Played) -> None:
    found = process.meanwhile(played.step)
    assert (found["meanwhile_calls"], found["ready"]) == (3, True)
    assert found["ready_s"] == pytest.approx(60e-6) and found["meanwhile"]["worst"] == pytest.approx(20.0)
    assert played.order == ["step"] * (3 + process.IN_FLIGHT)
    found = process.meanwhile(played.step)
    assert (found["ready_s"], found["meanwhile_calls"], found["ready"]) == (0.0, 0, True)


def test_a_step_stands_between_events_behind_a_wait(played: Played) -> None:
    timed = process.Timed(played.step, 20.0)
    timed()
    assert played.order == ["sleep", "event", "step", "event"] and timed.ms == []
    assert timed.repeat(process.BATCH + 2, 9.0) == [1.0] * (process.BATCH + 2)
    assert timed.repeat(process.BATCH + 9, 0.0) == [1.0] * (process.BATCH + 2)


def test_steps_from_which_kernels_learn_count_among_the_thousand(played: Played) -> None:
    found = process.learning(played.step)
    assert (found["learning_calls"], found["learning_s"]) == (LESSONS, pytest.approx(LESSONS * 20e-6))
    assert found["learned"] == "gemm: persistent"
    assert found["summed_calls"] == found["summed_ms"] == process.LEARNING
    assert process.steady(played.step)["gpu_ms"] == 1.0


def test_tables_are_apart_in_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for before in ("elsewhere", None):
        if before is None:
            monkeypatch.delenv("XDG_CACHE_HOME")
        else:
            monkeypatch.setenv("XDG_CACHE_HOME", before)
        with compiled.tables_in("own"):
            assert os.environ["XDG_CACHE_HOME"] == "own"
        assert os.environ.get("XDG_CACHE_HOME") == before


def test_kernels_are_read_from_a_trace() -> None:
    about = {"grid": [8, 1, 1], "block": [384, 1, 1], "registers per thread": 168, "shared memory": 1024, "device": 0}
    events = [
        {"cat": "kernel", "name": "gemm", "args": about},
        {"cat": "gpu_memset", "name": "Memset", "args": {}},
        {"cat": "kernel", "name": "add", "args": {**about, "block": [128, 1, 1]}},
        {"name": "process_name", "args": {}},
    ]
    assert process.kernels_in({"traceEvents": events}) == [
        ["add", [8, 1, 1], [128, 1, 1], 168, 1024],
        ["gemm", [8, 1, 1], [384, 1, 1], 168, 1024],
    ]


def test_what_was_learned_is_read_from_the_tables(tmp_path: Path) -> None:
    from tawa.plan.option_conflicts import STOCK
    from tawa.runtime.tuning.store import user_store
    from tests.runtime.tuning.entries import entry

    with compiled.tables_in(str(tmp_path)):
        assert compiled.learned() == {"applied": False, "reason": "nothing is learned"}
        user_store().put([entry(shape_class="small", learned=False), entry(shape_class="large", learned=True)])
        assert compiled.learned(entry().kernel) == {"applied": True, "reason": f"large: {entry().words}"}
        user_store().put([entry(shape_class="large", learned=True, plan=STOCK, date="2999-01-01")])
        assert compiled.learned()["applied"] is False
        assert compiled.learned("another")["reason"] == "nothing is learned"
