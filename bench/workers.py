"""Jobs in several processes, each under a watchdog: a deadlocked kernel costs one process, never the bench.

A worker is this interpreter running a module with ``--worker``, with the import path of the parent. It reads one job (a
line of JSON) from its standard input and answers with one line of JSON. The parent hands out jobs as workers become
free. A worker that stays silent longer than the limit (`say_alive` restarts the limit) is killed, with its CUDA context
and the processes that it started, and replaced; its job is answered with ``{"status": "hung"}``. A job that ends its
worker (a fault of the GPU makes the whole context useless) is answered with ``{"status": "crashed"}`` and the last
lines of the worker. No worker outlives its parent, however that ends.
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FATAL = ("cuda error", "illegal memory", "unspecified launch", "misaligned", "device-side", "cuda_error")
Job = dict[str, Any]
Answer = dict[str, Any]
_MARK = "@answer "
_ALIVE = "@alive"
_FRESH = "fresh"
_AT_ONCE, _IN_ORDER = 0, 1  # when a waiting job is begun


@dataclass
class _Worker:
    command: list[str]
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    pending: bytes = field(default=b"")
    said_before: int = 0  # bytes in the log, of earlier processes

    def ask(self, job: Job, limit_s: float) -> Answer:
        """Runs one job; starts the process if there is none."""
        process = self._running()
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
            line = self._read_answer(process, limit_s)
        except (BrokenPipeError, EOFError):
            code = process.wait()
            self.stop()
            return {"status": "crashed", "message": f"worker ended with status {code}; {self._last_words()}"}
        except TimeoutError:
            self.stop()
            return {"status": "hung", "message": f"silent for {limit_s:.0f} s"}
        answer: Answer = json.loads(line)
        if answer.pop(_FRESH, False):
            self.stop()
        return answer

    def stop(self) -> None:
        """Ends the process, if there is one."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):  # the group has no process left
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process, self.pending = None, b""

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None or self.process.poll() is not None:
            self.stop()  # processes that the ended worker has left
            with self.log.open("ab") as log:
                self.said_before = log.tell()
                self.process = subprocess.Popen(
                    self.command,
                    env=self.environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                )
        return self.process

    def _read_answer(self, process: subprocess.Popen[bytes], limit_s: float) -> str:
        """The next marked line; other output of kernels and libraries is skipped."""
        assert process.stdout
        until = time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                while b"\n" in self.pending:
                    line, self.pending = self.pending.split(b"\n", 1)
                    text = line.decode(errors="replace")
                    if text.startswith(_MARK):
                        return text[len(_MARK) :]
                    if text == _ALIVE:
                        until = time.monotonic() + limit_s
                left = until - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise TimeoutError
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise EOFError
                self.pending += chunk

    def _last_words(self) -> str:
        lines = self.log.read_bytes()[self.said_before :].decode(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:])[-400:]


def run_jobs(
    module: str,
    jobs: Sequence[Job],
    on_answer: Callable[[Job, Answer], Sequence[Job] | None],
    processes: int,
    limit_s: float,
    deadline: float | None = None,
    folders: Sequence[str] = (),
) -> None:
    """Runs `jobs` through ``python -m module --worker`` in several processes; calls `on_answer` in this thread.

    on_answer: may return further jobs; they are begun before those that wait. limit_s: seconds a job may be silent (60
    more for the first job of a worker, for imports). deadline: `time.monotonic` value after which the jobs that have
    not begun are answered with ``{"status": "skipped"}``. folders: come first on the workers' import path.
    """
    waiting: queue.PriorityQueue[tuple[int, int, Job | None]] = queue.PriorityQueue()
    done: queue.SimpleQueue[tuple[Job, Answer]] = queue.SimpleQueue()
    for place, job in enumerate(jobs):
        waiting.put((_IN_ORDER, place, job))
    over = threading.Event()
    logs = Path(os.environ.get("TMPDIR", "/tmp"))
    command = [sys.executable, "-m", module, "--worker"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, *filter(None, sys.path)])}
    workers = [
        _Worker(command, environment, logs / f"{module}.worker{number}.{os.getpid()}.log")
        for number in range(min(processes, len(jobs)))
    ]

    def serve(worker: _Worker) -> None:
        try:
            while not over.is_set():
                job = waiting.get()[2]
                if job is None:
                    return
                if deadline is not None and time.monotonic() > deadline:
                    done.put((job, {"status": "skipped", "message": "out of time"}))
                    continue
                limit = limit_s if worker.process else limit_s + 60
                try:
                    answer = worker.ask(job, limit)
                except Exception as error:  # a bug here must not lose the jobs
                    worker.stop()
                    answer = {"status": "crashed", "message": f"{type(error).__name__}: {error}"}
                done.put((job, answer))
        finally:
            worker.stop()

    threads = [threading.Thread(target=serve, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        left = place = len(jobs)
        while left:
            more = on_answer(*done.get()) or ()
            for job in more:
                waiting.put((_AT_ONCE, place, job))
                place += 1
            left += len(more) - 1
    except BaseException:  # interrupted: nothing is left to run
        over.set()
        for worker in workers:
            worker.stop()
        raise
    finally:
        for at in range(len(workers)):
            waiting.put((_AT_ONCE, -1 - at, None))
    for thread in threads:
        thread.join(timeout=10)


def is_fatal(message: str) -> bool:
    """Whether an error leaves the CUDA context of the process unusable."""
    return any(word in message.lower() for word in FATAL)


def serve_jobs(handle: Callable[[Job], Answer]) -> None:
    """The worker's side: answers jobs from standard input until it closes.

    An answer whose ``message`` is a fatal error, or that has ``fatal``, makes the parent replace this process.
    """
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = handle(job)
        except Exception as error:
            text = " ".join(str(error).split())
            answer = {"status": "failed", "message": f"{type(error).__name__}: {text[:400]}"}
        answer[_FRESH] = bool(answer.get("fatal")) or is_fatal(str(answer.get("message", "")))
        sys.stdout.write(f"\n{_MARK}{json.dumps(answer)}\n")  # ends a line that was printed without its end
        sys.stdout.flush()


def say_alive() -> None:
    """Restarts the limit of silence, for a worker with a long job such as many compiles."""
    sys.stdout.write(f"{_ALIVE}\n")
    sys.stdout.flush()


def _end_with(parent: int) -> None:
    """Ends this process and its children once the parent is gone; a hung kernel would otherwise keep it alive."""
    while os.getppid() == parent:
        time.sleep(1.0)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
