"""Workers that hang or crash cost a process and a Plan, never the other jobs."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tawa.processes import MARK, WorkerProcess
from tawa.runtime.tuning.worker import Task
from tawa.runtime.tuning.workers import MOST_TRIES, Event, run_tasks

PROGRAM = f"""
import json, os, sys, time
def say(**line):
    print("noise of a library")
    print({MARK!r} + json.dumps(line), flush=True)
for line in sys.stdin:
    task = json.loads(line)
    for step in task["job"].split(","):
        if step in task["skip"]:
            continue
        say(trying=step, id=step)
        if step == "hangs":
            time.sleep(60)
        if step == "crashes":
            os._exit(7)
        if step == "breaks":
            say(failed="RuntimeError: illegal memory access", fatal=True)
            break
    else:
        say(entry=dict(job=task["job"], skip=task["skip"], pid=os.getpid(), gpu=os.environ["CUDA_VISIBLE_DEVICES"]))
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tawa.processes.STARTING_S", 2.0)


def worker(folder: Path, gpu: str = "0") -> WorkerProcess:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu}
    return WorkerProcess((sys.executable, "-S", "-c", PROGRAM), environment, folder / f"{gpu}.log")


def run(folder: Path, *jobs: str, gpus: str = "0") -> list[Event]:
    events: list[Event] = []
    workers = [worker(folder, gpu) for gpu in gpus]
    run_tasks([Task(job, 1.0) for job in jobs], workers, 0.3, events.append)
    assert all(it.process is None for it in workers)
    return events


def last(events: list[Event], job: str) -> Event:
    return [it for it in events if it["job"] == job][-1]


def test_jobs_share_the_processes_one_for_each_gpu(tmp_path: Path) -> None:
    entries: list[Any] = [it["entry"] for it in run(tmp_path, *"abcdef", gpus="01") if "entry" in it]
    assert sorted(it["job"] for it in entries) == list("abcdef")
    assert len({it["pid"] for it in entries}) == len({it["gpu"] for it in entries})


@pytest.mark.parametrize(
    ("fault", "why"), [("hangs", "silent"), ("crashes", "ended with status 7"), ("breaks", "illegal memory access")]
)
def test_a_plan_that_ends_its_worker_is_left_out_and_the_job_finished(tmp_path: Path, fault: str, why: str) -> None:
    events = run(tmp_path, f"good,{fault},other", "a")
    lost = next(it for it in events if "lost" in it)
    assert lost["lost"] == fault
    assert why in lost["why"]
    assert last(events, f"good,{fault},other")["entry"]["skip"] == [fault]
    assert "entry" in last(events, "a")


def test_a_job_is_given_up_after_some_workers(tmp_path: Path) -> None:
    job = ",".join(["crashes"] * 2)
    monkeys = worker(tmp_path)
    monkeys.command = (sys.executable, "-S", "-c", PROGRAM.replace('step in task["skip"]', "False"))
    events: list[Event] = []
    run_tasks([Task(job, 1.0)], [monkeys], 0.5, events.append)
    assert "ended with status 7" in events[-1]["failed"]
    assert sum("lost" in it for it in events) < MOST_TRIES


def test_an_interrupt_ends_the_workers(tmp_path: Path) -> None:
    workers = [worker(tmp_path)]

    def interrupt(event: Event) -> None:
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_tasks([Task("hangs", 1.0)], workers, 30.0, interrupt)
    assert time.monotonic() - start < 10 and workers[0].process is None
