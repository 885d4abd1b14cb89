"""Work in the background: threads of this process wait for worker processes that compile.

    task = submit(work)     …     task.done     task.result

Python itself is most of a compile, and a thread that compiles would slow down every launch beside it. So each thread
owns a worker process (`tawa.bridge.launch.first.compiler`), which does the work of `worker().ask(…)`; both end after
`_IDLE_S` without work. Work never makes a CUDA call: a capture of a CUDA graph on another thread would fail. What is
made is loaded by the thread that launches it.

When the process ends, its workers are killed. After a fork, the child has neither threads nor workers; it starts the
work again that it still needs.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tawa.processes import WorkerProcess, inherited

_log = logging.getLogger("tawa")

_PROCESS = [os.getpid()]
THREAD = "tawa"
"""The name of the threads that do the work."""
_IDLE_S = 30.0
_KEPT_S = 5.0
_MOST_WORKERS = 4
_PLACE = threading.local()


def _nothing() -> None:
    return None


class Task:
    """One piece of work. result: of the work; None if it failed. done: whether it has ended.

    then: is called when it has ended. kept: short work that is done even when the process ends. process: the number of
    the process that it belongs to.
    """

    __slots__ = ("done", "ended", "kept", "process", "result", "then", "work")

    def __init__(self, work: Callable[[], Any], then: Callable[[], None] = _nothing, kept: bool = False) -> None:
        self.work, self.then, self.kept, self.result, self.done = work, then, kept, None, False
        self.ended, self.process = threading.Event(), _PROCESS[0]

    @property
    def lost(self) -> bool:
        """Whether it belongs to the process that this one was forked from, and had not ended."""
        return not self.done and self.process != _PROCESS[0]

    def run(self) -> None:
        """Does the work. An error is logged: it must not be one of a launch."""
        try:
            self.result = self.work()
        except BaseException as error:
            _log.info("in the background: %s: %s", type(error).__name__, error)
        finally:
            self.done = True
            self.then()
            self.ended.set()


class Pool:
    """Threads that end where there is nothing to do, and the tasks that have not ended, in order."""

    def __init__(self, size: int) -> None:
        self.size, self.changed = size, threading.Condition()
        self.waiting: deque[Task] = deque()
        self.running: list[Task] = []
        self.threads = self.idle = 0
        self.workers: list[WorkerProcess] = []

    def submit(self, work: Callable[[], Any], then: Callable[[], None] = _nothing, kept: bool = False) -> Task:
        """Does the work as soon as a thread is free. Where no thread can be started, the task ends without a result."""
        task = Task(work, then, kept)
        with self.changed:
            self.waiting.append(task)
            if self.idle >= len(self.waiting):
                self.changed.notify()
                return task
            if self.threads >= self.size:
                return task
            self.threads += 1
            try:
                threading.Thread(target=self._run, name=THREAD, daemon=True).start()
                return task
            except RuntimeError as error:
                _log.info("in the background: %s", error)
                self.threads -= 1
                if self.threads:
                    return task
                self.waiting.remove(task)
        task.work = _nothing
        task.run()
        return task

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all tasks have ended, also those that others submit; False after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            with self.changed:
                tasks = [*self.running, *self.waiting]
            if not tasks:
                return True
            if not all(task.ended.wait(None if end is None else max(0.0, end - time.monotonic())) for task in tasks):
                return False

    def stop(self) -> None:
        """Ends the workers; tasks in progress fail, and of the others only those begin that are kept."""
        with self.changed:
            left = [task for task in self.waiting if task.kept]
            begun = [task for task in self.running if task.kept]
            self.waiting.clear()
            workers, self.workers = self.workers, []
        for it in workers:
            it.kill()
        for task in left:
            task.run()
        for task in begun:
            task.ended.wait(_KEPT_S)

    def _run(self) -> None:
        _PLACE.pool, _PLACE.worker = self, None
        while (task := self._next()) is not None:
            try:
                task.run()
            finally:
                with self.changed:
                    self.running.remove(task)
            del task  # which keeps what it made
        if _PLACE.worker is not None:
            _PLACE.worker.stop()

    def worker(self) -> WorkerProcess:
        """A worker of this pool, for one of its threads."""
        made = _new_worker()
        with self.changed:
            self.workers.append(made)
        return made

    def _next(self) -> Task | None:
        """The next task, which is running now; None if there was none for a while: the thread ends."""
        with self.changed:
            self.idle += 1
            found = self.changed.wait_for(lambda: self.waiting, _IDLE_S)
            self.idle -= 1
            if not found:
                self.threads -= 1
                with suppress(ValueError):
                    self.workers.remove(_PLACE.worker)
                return None
            task = self.waiting.popleft()
            self.running.append(task)
            return task


def _new_worker(log: Path | None = None) -> WorkerProcess:
    return WorkerProcess((sys.executable, "-P", "-m", _COMPILER), inherited(), log)


_COMPILER = "tawa.bridge.launch.first.compiler"
_POOL = [Pool(max(1, min(_MOST_WORKERS, (os.cpu_count() or 1) // 4)))]


def submit(work: Callable[[], Any], then: Callable[[], None] = _nothing, kept: bool = False) -> Task:
    """Does the work in the background. then: is called there when it has ended. kept: as in `Task`."""
    return _POOL[0].submit(work, then, kept)


def worker() -> WorkerProcess:
    """The worker process of the thread that does the work in progress."""
    if _PLACE.worker is None:
        _PLACE.worker = _PLACE.pool.worker()
    return _PLACE.worker


def try_worker(log: Path) -> tuple[float, int]:
    """Starts a worker and waits for its first answer; the seconds that took, and the most workers of this process.

    log: the file of its other output. Raises EOFError if it ends, TimeoutError if it does not answer, and OSError.
    """
    made, start = _new_worker(log), time.monotonic()
    try:
        made.ask({"hello": ""}, 60, lambda line: "made" in line)
        return time.monotonic() - start, _POOL[0].size
    finally:
        made.stop()


def wait(timeout: float | None = None) -> bool:
    """Waits until nothing is compiled in the background any more.

    timeout: in seconds; None: as long as it takes. Returns whether all has ended.
    """
    return _POOL[0].wait(timeout)


def _forked() -> None:
    _PROCESS[0] = os.getpid()
    _POOL[0] = Pool(_POOL[0].size)


os.register_at_fork(after_in_child=_forked)
atexit.register(lambda: _POOL[0].stop())
