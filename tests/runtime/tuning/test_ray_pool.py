"""A cluster, with a stand-in for Ray that runs everything here, in order."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tawa.processes import WorkerProcess
from tawa.runtime.tuning import ray_pool
from tawa.runtime.tuning.ray_pool import NoCluster, run_on_ray
from tawa.runtime.tuning.worker import Task
from tawa.runtime.tuning.workers import Event
from tests.runtime.tuning.entries import entry
from tests.runtime.tuning.test_session import job


class FakeRay:
    """As much of Ray as is used. gpus: of each job, in order."""

    def __init__(self, answers: Callable[[], None] = lambda: None) -> None:
        self.answers, self.gpus, self.open = answers, list[int](), False

    def init(self, **about: Any) -> None:
        self.answers()
        self.open = True

    def shutdown(self) -> None:
        self.open = False

    def remote(self, num_gpus: int, max_retries: int) -> Any:
        self.gpus.append(num_gpus)

        def wrap(function: Any) -> Any:
            class Remote:
                @staticmethod
                def remote(*args: Any) -> Any:
                    return lambda: function(*args)

            return Remote

        return wrap

    def wait(self, references: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        return references[:num_returns], references[num_returns:]

    def get(self, reference: Any) -> Any:
        return reference()


def ask(self: WorkerProcess, task: Event, limit_s: float, ends: Any, on_line: Any) -> Event:
    """In place of a worker process."""
    on_line({"trying": "stock Triton", "id": "stock"})
    if not task["skip"]:
        raise TimeoutError("silent for 1 s")
    source = (Path(task["job"]) / "source.mlir").read_text()
    return {"entry": entry(words=source).to_dict()}


def run(folder: Path, ray: Any, *jobs: Path, simulated: bool = False) -> list[Event]:
    events: list[Event] = []
    run_on_ray([Task(str(it), 1.0, simulated=simulated) for it in jobs], events.append, "auto", 1.0, ray)
    return events


def test_a_job_is_tuned_elsewhere_and_its_events_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerProcess, "ask", ask)
    paths, ray = [job(name).save(tmp_path) for name in ("one", "two")], FakeRay()
    events = run(tmp_path, ray, *paths)
    assert [it["job"] for it in events] == [str(paths[at]) for at in (0, 0, 1, 1)]
    assert events[0]["lost"] == "stock Triton" and events[1]["entry"]["words"] == "module {}"
    assert ray.gpus == [1, 1] and not ray.open


def test_the_simulators_clock_needs_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerProcess, "ask", ask)
    ray = FakeRay()
    run(tmp_path, ray, job("one").save(tmp_path), simulated=True)
    assert ray.gpus == [0]


def test_a_machine_with_other_versions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = entry(versions={"tawa": "0.0.1", "triton": "3.6.0"}).to_dict()
    monkeypatch.setattr(ray_pool, "tune_packed", lambda *_: [{"entry": foreign}])
    (event,) = run(tmp_path, FakeRay(), job("one").save(tmp_path))
    assert "has Tawa 0.0.1" in event["failed"] and "cure: install the same there" in event["failed"]


def test_a_machine_that_is_lost_costs_its_job_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(job: bytes, task: Task, limit_s: float) -> Any:
        raise RuntimeError("node died")

    monkeypatch.setattr(ray_pool, "tune_packed", lost)
    (event,) = run(tmp_path, FakeRay(), job("one").save(tmp_path))
    assert event["failed"] == "RuntimeError: node died"


def test_a_cluster_that_does_not_answer_is_named_with_the_cure(tmp_path: Path) -> None:
    def absent() -> None:
        raise ConnectionError("nobody there")

    with pytest.raises(NoCluster, match=r"--ray auto: no cluster answers \(ConnectionError: nobody there\); cure"):
        run(tmp_path, FakeRay(absent))


def test_without_ray_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NoCluster, match=r"cure: pip install ray"):
        run(tmp_path, None)
