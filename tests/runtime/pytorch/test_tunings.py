"""Tunings of Inductor: what is stored of them is dropped when there are twins that they did not know."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tawa.bridge.launch.first.tuners import is_tuning, measurement
from tawa.runtime.pytorch import inductor


class Kernel:
    """A kernel whose twin can be made."""

    def __init__(self) -> None:
        self.then: Callable[[bool], None] | None = None

    def begin(self, then: Callable[[bool], None]) -> bool:
        self.then = then
        return True

    def is_made(self) -> None:
        assert self.then is not None
        self.then(True)


class Choice:
    """A template, or a kernel of a library, which launches nothing of Triton's."""

    def __init__(self, time: float, kernel: Kernel | None = None) -> None:
        self.time, self.kernel = time, kernel

    def benchmark(self) -> float:
        launches = measurement()
        if self.kernel is not None and launches is not None:
            launches.is_new(self.kernel)
        return self.time


class PersistentCache:
    """As much of PyTorch's as decides what is measured."""

    stored: dict[str, dict[str, Any]]

    def __init__(self) -> None:
        self.stored = {"mm": {"other": {}}}

    def get_local_cache(self) -> dict[str, dict[str, Any]]:
        return {op: dict(known) for op, known in self.stored.items()}

    def update_local_cache(self, cache: Mapping[str, Any]) -> None:
        self.stored = {**cache}

    def lookup(self, choices: list[Choice], op: str, inputs: str, benchmark: Any, hint: int | None = None) -> Any:
        key = inputs if hint is None else f"{inputs}_{hint}"
        if key not in self.stored[op]:
            self.stored[op][key] = {it: it.benchmark() for it in choices}
        return self.stored[op][key]


@pytest.fixture
def torch_like(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A module with the slots, changed."""

    class FxGraphCache:
        @staticmethod
        def _get_tmp_dir_for_key(key: str) -> str:
            return str(tmp_path / key)

        @staticmethod
        def _write_to_local_cache(key: str, content: bytes) -> None:
            (tmp_path / key).mkdir()

    class CachingAutotuner:
        def __init__(self, choices: list[Choice], path: Path) -> None:
            self.choices, self.path = choices, path
            about = SimpleNamespace(local_cache=("cache", str(path)), save=lambda self: None)
            self.save_cache_hook = type("Cache", (), {**vars(about), "save": about.save})().save

        def bench(self, launcher: Choice) -> float:
            return launcher.benchmark()

        def autotune_to_one_config(self) -> None:
            for it in self.choices:
                self.bench(it)
            self.path.write_text("best")

    module = ModuleType("slots")
    cache: Any = type("PersistentCache", (PersistentCache,), {"lookup": PersistentCache.lookup})
    request: Any = type("BenchmarkRequest", (Choice,), {"benchmark": Choice.benchmark})
    for it in (FxGraphCache, CachingAutotuner, cache, request):
        setattr(module, it.__name__, it)
    monkeypatch.setitem(sys.modules, inductor.CODE_CACHE, module)
    undo = [
        change(module)
        for change in (
            inductor.timings_by(lambda: "tag"),
            inductor.own_graphs,
            inductor.own_measurements,
            inductor.own_choices,
            inductor.own_benchmarks,
        )
    ]
    assert all(undo)
    return module


@pytest.mark.parametrize("hint", [None, 4096])
@pytest.mark.parametrize("saved_late", [False, True])
def test_timings_and_the_graph_are_dropped(saved_late: bool, hint: int | None, torch_like: Any, tmp_path: Path) -> None:
    cache, kernels = torch_like.PersistentCache(), [Kernel(), Kernel(), Kernel()]
    times = zip((1.0, 1.1, 2.0), kernels, strict=True)
    choices = [torch_like.BenchmarkRequest(*it) for it in times]
    found = cache.lookup([*choices, torch_like.BenchmarkRequest(1.05)], "mm", "inputs", None, hint)
    assert min(found.values()) == 1.0 and len(cache.stored["mm"]) == 2
    assert [it.then is not None for it in kernels] == [True, True, False]
    if not saved_late:
        torch_like.FxGraphCache._write_to_local_cache("graph", b"")
    for it in kernels[:2]:
        it.is_made()
    if saved_late:
        torch_like.FxGraphCache._write_to_local_cache("graph", b"")
    assert list(cache.stored["mm"]) == ["other"] and not (tmp_path / "graph").exists()
    torch_like.FxGraphCache._write_to_local_cache("graph of another function", b"")
    assert (tmp_path / "graph of another function").exists()


def test_where_a_library_is_much_faster_no_twin_is_made(torch_like: Any, tmp_path: Path) -> None:
    cache, kernel = torch_like.PersistentCache(), Kernel()
    cache.lookup([torch_like.BenchmarkRequest(2.0, kernel), torch_like.BenchmarkRequest(1.0)], "mm", "inputs", None)
    assert kernel.then is None


def test_the_best_configuration_of_a_kernel_is_dropped(torch_like: Any, tmp_path: Path) -> None:
    kernels = [Kernel(), Kernel()]
    tuner = torch_like.CachingAutotuner([Choice(1.0, it) for it in kernels], tmp_path / "best_config")
    tuner.autotune_to_one_config()
    kernels[0].is_made()
    assert tuner.path.exists(), "another twin is awaited"
    kernels[1].is_made()
    assert not tuner.path.exists()


def test_stored_timings_start_nothing(torch_like: Any) -> None:
    cache, kernel = torch_like.PersistentCache(), Kernel()
    cache.stored["mm"]["inputstag"] = {torch_like.BenchmarkRequest(1.0, kernel): 1.0}
    cache.lookup([], "mm", "inputs", None)
    assert kernel.then is None and "inputstag" in cache.stored["mm"]


def test_what_inductor_measures_to_decide_on_fusions_starts_nothing() -> None:
    class TritonScheduling:
        def benchmark_codegened_module(self, seen: list[bool]) -> float:
            seen.append(is_tuning())
            return 1.0

    module, seen = ModuleType("slots"), list[bool]()
    module.__dict__["TritonScheduling"] = TritonScheduling
    undo = inductor.own_fusions(module)
    assert undo is not None and TritonScheduling().benchmark_codegened_module(seen) == 1.0
    undo()
    TritonScheduling().benchmark_codegened_module(seen)
    assert seen == [True, False] and not is_tuning()
