"""Stock first: launches of a kernel get stock Triton's kernel, until the specialised one is made in the background.

    launch 1, 2, …     stock Triton's kernel, compiled as ever; the first launch submits the work
    the work is done   the next launch loads the kernel, whose launcher takes over and learns which is the faster

A launch that belongs to a tuner's measurement submits nothing: of many configurations, few are used afterwards
(`tawa.bridge.launch.first.tuners`). While a CUDA graph is captured, nothing is loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tawa.bridge.launch.first.background import Task, submit
from tawa.bridge.launch.first.learning import learning
from tawa.bridge.launch.first.tuners import is_tuning, measurement

_IN_A_ROW = 8
"""Calls without a wait."""


class StockFirst:
    """Called in place of Triton's launcher, until it has put another in its place.

    kernel: stock Triton's. inner: its launcher. make: makes the kernel that it waits for in the background, and makes
    no CUDA call. load: loads that; None if it cannot be loaded. at_once: makes it if that takes no time; else None.
    known: whether that is called here, because it is known which kernel is the fastest; else only a tuner calls it.
    """

    def __init__(
        self, kernel: Any, inner: Callable[..., None], make: Callable[[], Any], load: Callable[[Any], Any],
        at_once: Callable[[], Any], known: bool = False,
    ) -> None:  # fmt: skip
        self.kernel, self.inner, self.make, self.load = kernel, inner, make, load
        self.at_once: Callable[[], Any] | None = at_once
        self.task: Task | None = None
        if known:
            self._take_at_once()
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
            learning.wait_for(self.task)
        ready = self.ready
        if ready is None:
            self.inner(grid_0, grid_1, grid_2, stream, function, packed, *rest)
        else:
            ready.run(grid_0, grid_1, grid_2, stream, ready.function, ready.packed_metadata, *rest)

    def _look(self) -> None:
        """Submits the work, or takes its result: launches then go straight to the launcher that has taken over."""
        measured = measurement()
        if measured is not None:
            if not measured.is_new(self):
                return
            if self.task is None:
                self._take_at_once()
        task = self.task
        if task is None or task.lost:
            if measured is None:
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

    def _take_at_once(self) -> None:
        """Takes what can be had without work, once."""
        if self.at_once is not None:
            task, self.at_once = Task(self.at_once), None
            task.run()
            self.task = None if task.result is None else task

    def begin(self, then: Callable[[bool], None]) -> bool:
        """Submits the work; False if it was before. then: is called when it has ended, with whether there is a twin."""
        if self.task is not None and not self.task.lost:
            return False

        def work() -> Any:
            made = None
            try:
                made = self.make()
            finally:
                then(made is not None and made.metadata.tawa["applied"] and not made.tawa_rounds_otherwise)
            return made

        self.task = submit(work)
        return True

    @property
    def state(self) -> str:
        """What launches wait for, for people; empty if that is nothing."""
        if self.task is None or self.settled:
            return ""
        if self.task.done:
            return "made: it takes part when a tuner measures the kernel again, or launches it"
        return "learning: other forms are being compiled in the background"


def warmup(step: Callable[[], Any], most: int = 2000) -> int:
    """Calls `step` until all kernels that it launches are compiled and have learned; returns the number of calls.

    Call it before a CUDA graph is captured, and before a benchmark. Where the GPU would wait for a launch that is
    timed, it is kept busy until then: the time would otherwise be that of the launch. most: the largest number of
    calls.
    """
    learning.warming_up = True
    try:
        for count in range(1, most + 1):
            learning.awaited = learning.unsettled = None
            step()
            awaited, unsettled = learning.awaited, learning.unsettled
            if awaited is not None and not awaited.done and not awaited.lost:
                awaited.ended.wait()
            elif awaited is None and unsettled is None:
                return count
            elif unsettled is not None and count % _IN_A_ROW == 0:
                unsettled.wait()
        return most
    finally:
        learning.warming_up = False


def wrap_do_bench(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `triton.testing.do_bench`: what it measures for a person is the kernel that launches get in the end."""

    def do_bench(fn: Callable[[], Any], *args: Any, **kwargs: Any) -> Any:
        if not is_tuning():
            warmup(fn)
        return original(fn, *args, **kwargs)

    return do_bench
