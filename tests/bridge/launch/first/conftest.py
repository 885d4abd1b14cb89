"""Launches that learn, without worker processes and without a GPU's clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tawa
from tawa.bridge.launch import added_arguments, launcher
from tawa.bridge.launch.first.elsewhere import is_cached
from tawa.bridge.launch.first.learning import learning
from tawa.bridge.launch.forecasts import Forecasts
from tests.bridge.launching import Launching

GPU = "a card"
MADE: list[bool] = []
"""For each kernel that was asked for in the background, whether it was in Triton's cache already."""


class FakeClock:
    """Time passes with each launch of the stand-in driver, by what `times_ms` says of its function."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.times_ms: dict[int, float] = {}
        self.idle = False
        """Whether the GPU has passed each mark at once, unless it is kept busy before it."""
        self.late = 0
        """How many more times marks are not reached."""
        self.marks = 0
        self.occupied: list[float] = []
        """When the GPU was kept busy."""

    def mark(self, stream: int) -> float:
        self.marks += 1
        return self.now_ms

    def is_reached(self, mark: float) -> bool:
        return self.idle and mark not in self.occupied[-1:]

    def read_ms(self, begin: float, end: float) -> float | None:
        if self.late:
            self.late -= 1
            return None
        self.forget(begin, end)
        return end - begin

    def forget(self, *marks: float) -> None:
        self.marks -= len(marks)

    def wait(self) -> None:
        self.late = 0

    def occupy(self, stream: int, seconds: float) -> None:
        self.occupied.append(self.now_ms)


@pytest.fixture(autouse=True)
def in_the_background(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Threads of this process compile, which see what a test has patched, and no worker process."""
    monkeypatch.setenv("TAWA_BACKGROUND", "on")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(added_arguments, "make", lambda job: MADE.append(is_cached(job)))
    MADE.clear()
    monkeypatch.setattr(launcher, "rank", Forecasts.ranked)
    monkeypatch.setattr(learning, "unsettled", None)


@pytest.fixture
def clock(gpu: Launching, monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The clock; each kernel that is loaded has a function of its own: 1, 2, …, in the order in which they are."""
    made, loaded = FakeClock(), list[bytes]()
    launch = gpu.launch

    def load_binary(name: str, cubin: bytes, *_: Any) -> tuple[Any, ...]:
        loaded.append(cubin)
        return "module", len(loaded), 32, 0, 1024

    def timed(*args: Any) -> None:
        made.now_ms += made.times_ms.get(function_of(args), 1.0)
        launch(*args)

    monkeypatch.setattr(gpu.utils, "load_binary", load_binary)
    monkeypatch.setattr(gpu.utils, "launch", timed)
    monkeypatch.setattr(gpu, "launch", timed)
    monkeypatch.setattr(launcher, "event_clock", lambda: made)
    monkeypatch.setattr("tawa.runtime.tuning.choices.gpu_name", lambda: GPU)
    return made


def function_of(args: tuple[Any, ...]) -> int:
    """The function of a launch, from what Triton's launcher in C gets."""
    return args[4]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The compile in the background begins when this is set."""
    opened, compile_it = threading.Event(), added_arguments.learning_kernel

    def waiting(*args: Any) -> Any:
        assert opened.wait(60)
        return compile_it(*args)

    monkeypatch.setattr(added_arguments, "learning_kernel", waiting)
    yield opened
    opened.set()
    tawa.wait()


@pytest.fixture
def installed(all_pay: None) -> Iterator[None]:
    tawa.install()
    yield
    tawa.wait()
    tawa.uninstall()
