"""Stock first: launches of a kernel get stock Triton's kernel, until the specialised one is made in the background.

    launch 1, 2, …     stock Triton's kernel, compiled as ever; the first launch submits the work
    the work is done   the next launch loads the kernel, whose launcher takes over and learns which is the faster

A launch that belongs to a tuner's measurement submits nothing: of many configurations, few are used afterwards. While a
CUDA graph is captured, nothing is loaded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tawa.bridge.launch.first.background import Task, submit
from tawa.bridge.launch.first.clock import Clock
from tawa.bridge.launch.first.learning import learning

_IN_A_ROW = 8
"""Calls without a wait."""

_tuning: ContextVar[bool] = ContextVar("tawa_tuning", default=False)


class StockFirst:
    """Called in place of Triton's launcher, until it has put another in its place.

    kernel: stock Triton's. inner: its launcher. make: makes the kernel that it waits for in the background, and makes
    no CUDA call. load: loads that; None if it cannot be loaded. at_once: makes it now, if it is known which kernel is
    the fastest; None otherwise, also as a result.
    """

    def __init__(
        self, kernel: Any, inner: Callable[..., None], make: Callable[[], Any], load: Callable[[Any], Any],
        at_once: Callable[[], Any] | None = None,
    ) -> None:  # fmt: skip
        self.kernel, self.inner, self.make, self.load = kernel, inner, make, load
        self.task: Task | None = None
        if at_once is not None:
            task = Task(at_once)
            task.run()
            self.task = None if task.result is None else task
        self.ready: Any = None
        self.settled = False
        self.loading = threading.Lock()
        """Held by the thread that loads; the others launch what there is."""

    def __call__(
        self, grid_0: int, grid_1: int, grid_2: int, stream: int, function: int, packed: Any, *rest: Any
    ) -> None:
        """Launches what there is."""
        if not self.settled:
            self._look()
            learning.awaited = self.task
        ready = self.ready
        if ready is None:
            self.inner(grid_0, grid_1, grid_2, stream, function, packed, *rest)
        else:
            ready.run(grid_0, grid_1, grid_2, stream, ready.function, ready.packed_metadata, *rest)

    def _look(self) -> None:
        """Submits the work, or takes its result: launches then go straight to the launcher that has taken over."""
        task = self.task
        if task is None or task.lost:
            if not _tuning.get():
                self.task = submit(self.make)
        elif task.done and not self.kernel.tawa_host.capturing() and self.loading.acquire(blocking=False):
            try:
                if not self.settled:
                    self.ready = None if task.result is None else self.load(task.result)
                    self.settled = True
                    if self.kernel._run is self:
                        self.kernel._run = self.inner if self.ready is None else self.ready._run
            finally:
                self.loading.release()


@contextmanager
def tuning() -> Iterator[None]:
    """Launches inside the ``with`` block belong to a tuner's measurement."""
    token = _tuning.set(True)
    try:
        yield
    finally:
        _tuning.reset(token)


def is_tuning() -> bool:
    """Whether launches belong to a tuner's measurement."""
    return _tuning.get()


def warmup(step: Callable[[], Any], most: int = 2000) -> int:
    """Calls `step` until all that it launches is compiled and has learned; returns how often.

    For kernels that a CUDA graph will capture, and for benchmarks. The GPU is kept busy before each call, because a
    launch that it waits for says nothing about a kernel. most: calls.
    """
    clocks = set[Clock]()
    taken_s = 0.0
    try:
        for count in range(1, most + 1):
            learning.awaited, busy, learning.unsettled = None, learning.unsettled, None
            if busy is not None:
                clocks.add(busy)
                busy.occupy(learning.stream, taken_s)
            start = time.perf_counter()
            step()
            taken_s = time.perf_counter() - start
            awaited: Task | None = learning.awaited
            if awaited is not None and not awaited.done and not awaited.lost:
                awaited.ended.wait()
            elif awaited is None and learning.unsettled is None:
                return count
            elif learning.unsettled is not None and count % _IN_A_ROW == 0:
                learning.unsettled.wait()
        return most
    finally:
        for clock in clocks:
            clock.release()


def wrap_bench(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `Autotuner._bench`, which measures one configuration."""

    def bench(*args: Any, **kwargs: Any) -> Any:
        with tuning():
            return original(*args, **kwargs)

    return bench


def wrap_do_bench(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `triton.testing.do_bench`: what it measures for a person is the kernel that launches get in the end."""

    def do_bench(fn: Callable[[], Any], *args: Any, **kwargs: Any) -> Any:
        if not _tuning.get():
            warmup(fn)
        return original(fn, *args, **kwargs)

    return do_bench


__all__ = ["StockFirst", "is_tuning", "tuning", "warmup", "wrap_bench", "wrap_do_bench"]
