"""Runs jobs in worker processes, one for each GPU, each under a watchdog.

A worker that says nothing for longer than the limit is killed, with the processes that it started. The Plan that it was
trying is then left out, and the job begins again in a new process; so is one whose Plan ended the process. A job that
ends a worker before any Plan, or more than `MOST_TRIES` times, has failed.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tawa.processes import WorkerProcess
from tawa.runtime.tuning.worker import Task

MOST_TRIES = 4

Event = Mapping[str, Any]
"""What happened to a job: {"job": …, "trying": words, "id": …}, {…, "lost": words, "id": …, "why": …}, and last
{…, "entry": …}, {…, "only_stock": why} or {…, "failed": why}."""

_ENDS = ("entry", "only_stock", "failed")


def ends(event: Event) -> bool:
    """Whether a job ends with an event."""
    return any(name in event for name in _ENDS)


def tuning_worker(environment: Mapping[str, str], log: Path) -> WorkerProcess:
    """A worker that tunes. environment: its variables, which select the GPU. log: where its other output goes."""
    return WorkerProcess((sys.executable, "-P", "-m", "tawa.runtime.tuning.worker"), environment, log)


def tune_with_patience(worker: WorkerProcess, task: Task, limit_s: float, on_event: Callable[[Event], None]) -> Event:
    """One job, with as many processes as it takes; returns its last event."""
    job, words, trying = task.job, "", ""

    def on_line(line: Event) -> None:
        nonlocal words, trying
        words, trying = str(line["trying"]), str(line["id"])
        on_event({"job": job, **line})

    for _ in range(MOST_TRIES):
        before = trying = ""
        try:
            answer = worker.ask(asdict(task), limit_s, ends, on_line)
            return {"job": job, **{name: value for name, value in answer.items() if name != "fatal"}}
        except TimeoutError as error:
            before = f"the worker was {error}, and was killed"
        except EOFError as error:
            before = str(error)
        if not trying or trying in task.skip:
            return {"job": job, "failed": before}
        on_event({"job": job, "lost": words, "id": trying, "why": before})
        task = replace(task, skip=(*task.skip, trying))
    return {"job": job, "failed": f"given up after {MOST_TRIES} workers; the last Plan was {words}"}


def run_tasks(
    tasks: Sequence[Task],
    workers: Sequence[WorkerProcess],
    limit_s: float,
    on_event: Callable[[Event], None],
) -> None:
    """Runs all tasks, each on the next free worker; `on_event` is called in this thread.

    limit_s: seconds that a worker may be silent. An interrupt ends the workers.
    """
    waiting: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    for task in [*tasks, *[None] * len(workers)]:
        waiting.put(task)

    def serve(worker: WorkerProcess) -> None:
        try:
            while (task := waiting.get()) is not None:
                try:
                    events.put(tune_with_patience(worker, task, limit_s, events.put))
                except Exception as error:  # a fault here must not lose the job
                    worker.stop()
                    events.put({"job": task.job, "failed": f"{type(error).__name__}: {error}"})
        finally:
            worker.stop()

    threads = [threading.Thread(target=serve, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    left = len(tasks)
    try:
        while left:
            event = events.get()
            left -= ends(event)
            on_event(event)
    except BaseException:
        for worker in workers:
            worker.stop()
        raise
    for thread in threads:
        thread.join(timeout=10)
