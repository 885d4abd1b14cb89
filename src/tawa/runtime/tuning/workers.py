"""Runs jobs in worker processes, one for each GPU, each under a watchdog.

A worker that says nothing for longer than the limit is killed, with the processes that it started. The Plan that it was
trying is then left out, and the job begins again in a new process; so is one whose Plan ended the process. A job that
ends a worker before any Plan, or more than `MOST_TRIES` times, has failed.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from tawa.runtime.tuning.worker import MARK, Task

MOST_TRIES = 4
STARTING_S = 60.0
"""Added to the limit while a worker starts, for imports."""

Event = Mapping[str, Any]
"""What happened to a job: {"job": …, "trying": words, "id": …}, {…, "lost": words, "id": …, "why": …}, and last
{…, "entry": …}, {…, "only_stock": why} or {…, "failed": why}."""

_ENDS = ("entry", "only_stock", "failed")


def ends(event: Event) -> bool:
    """Whether a job ends with an event."""
    return any(name in event for name in _ENDS)


COMMAND = (sys.executable, "-m", "tawa.runtime.tuning.worker")


@dataclass(slots=True)
class Worker:
    """One process at a time. environment: its variables, which select the GPU. log: where its other output goes."""

    environment: Mapping[str, str]
    log: Path
    command: Sequence[str] = COMMAND
    process: subprocess.Popen[bytes] | None = None
    _pending: bytes = field(default=b"")

    def ask(self, task: Task, limit_s: float, on_line: Callable[[Event], None]) -> Event:
        """Hands over one task; returns the answer.

        Raises EOFError if the process ends or its GPU's context is lost, TimeoutError if it is silent for too long.
        """
        limit = limit_s if self.process is not None else limit_s + STARTING_S
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(asdict(task)).encode() + b"\n")
            process.stdin.flush()
            while True:
                line = self._read_line(process.stdout, limit)
                if ends(line):
                    break
                on_line(line)
                limit = limit_s
        except (BrokenPipeError, EOFError):
            code = process.wait()
            self.stop()
            raise EOFError(f"the worker ended with status {code}; {self._last_words()}") from None
        except TimeoutError:
            self.stop()
            raise
        if line.get("fatal"):
            self.stop()
            raise EOFError(str(line["failed"]))
        return line

    def stop(self) -> None:
        """Ends the process and those that it started."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
        self.process, self._pending = None, b""

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    self.command, env=dict(self.environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                    start_new_session=True,
                )  # fmt: skip
        return self.process

    def _read_line(self, stream: IO[bytes], limit_s: float) -> Event:
        """The next marked line."""
        until = time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while True:
                while b"\n" in self._pending:
                    line, self._pending = self._pending.split(b"\n", 1)
                    text = line.decode(errors="replace")
                    if text.startswith(MARK):
                        return json.loads(text.removeprefix(MARK))
                left = until - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise TimeoutError(f"silent for {limit_s:.0f} s")
                chunk = os.read(stream.fileno(), 1 << 16)
                if not chunk:
                    raise EOFError
                self._pending += chunk

    def _last_words(self) -> str:
        lines = self.log.read_bytes().decode(errors="replace").strip().splitlines() if self.log.exists() else []
        return " | ".join(lines[-3:])[-400:]


def tune_with_patience(worker: Worker, task: Task, limit_s: float, on_event: Callable[[Event], None]) -> Event:
    """One job, with as many processes as it takes; returns its last event."""
    job, words, trying = task.job, "", ""

    def on_line(line: Event) -> None:
        nonlocal words, trying
        words, trying = str(line["trying"]), str(line["id"])
        on_event({"job": job, **line})

    for _ in range(MOST_TRIES):
        before = trying = ""
        try:
            answer = worker.ask(task, limit_s, on_line)
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
    workers: Sequence[Worker],
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

    def serve(worker: Worker) -> None:
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


__all__ = ["COMMAND", "Event", "Worker", "ends", "run_tasks", "tune_with_patience"]
