"""Work in the background: one thread of the process compiles what launches do not wait for.

    task = submit(compile)     …     task.done     task.result

Work never makes a CUDA call: a capture of a CUDA graph on another thread would fail. What it makes is loaded by the
thread that launches it. When the process ends, it waits for the work in progress only: a thread must not be stopped in
the middle of MLIR or LLVM. After a fork, the child has no such thread; it starts the work again that it still needs.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

_log = logging.getLogger("tawa")

_PROCESS = [os.getpid()]


class Task:
    """One piece of work. result: of the work; None if it failed. done: whether it has ended.

    then: is called when it has ended. process: the number of the process that it belongs to.
    """

    __slots__ = ("done", "ended", "process", "result", "then", "work")

    def __init__(self, work: Callable[[], Any], then: Callable[[], None] = lambda: None) -> None:
        self.work, self.then, self.result, self.done = work, then, None, False
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


class Worker:
    """The thread, which ends where there is nothing to do, and the tasks that have not ended, in order."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tasks: deque[Task] = deque()
        self.thread: threading.Thread | None = None

    def submit(self, work: Callable[[], Any], then: Callable[[], None] = lambda: None) -> Task:
        """Does the work after all that was submitted before."""
        task = Task(work, then)
        with self.lock:
            self.tasks.append(task)
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, name="tawa", daemon=False)
                self.thread.start()
        return task

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all tasks have ended; False after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        with self.lock:
            tasks = list(self.tasks)
        return all(task.ended.wait(None if end is None else max(0.0, end - time.monotonic())) for task in tasks)

    def _run(self) -> None:
        while True:
            with self.lock:
                ending = not threading.main_thread().is_alive()
                if not self.tasks or ending:
                    self.tasks.clear()
                    self.thread = None
                    return
                task = self.tasks[0]
            task.run()
            with self.lock:
                self.tasks.popleft()


_WORKER = [Worker()]


def submit(work: Callable[[], Any], then: Callable[[], None] = lambda: None) -> Task:
    """Does the work in the background. then: is called there when it has ended."""
    return _WORKER[0].submit(work, then)


def wait(timeout: float | None = None) -> bool:
    """Waits until nothing is compiled in the background any more.

    timeout: in seconds; None: as long as it takes. Returns whether all has ended.
    """
    return _WORKER[0].wait(timeout)


def parser_fails_in_threads(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> bool:
    """Whether this Python's `ast.parse`, with which Triton reads each kernel, is not thread-safe.

    Up to 3.11.7 and 3.12.1 its recursion depth counter is shared by all threads, and garbage collection may switch
    threads: SystemError, "AST constructor recursion depth mismatch" (CPython, gh-106905).
    """
    return version < (3, 11, 8) or (3, 12) <= version < (3, 12, 2)


def _forked() -> None:
    _PROCESS[0] = os.getpid()
    _WORKER[0] = Worker()


os.register_at_fork(after_in_child=_forked)

__all__ = ["Task", "Worker", "parser_fails_in_threads", "submit", "wait"]
