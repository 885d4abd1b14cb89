"""Stock first: launches of a kernel get stock Triton's kernel, until the specialised one is made in the background.

    launch 1, 2, …     stock Triton's kernel, compiled as ever; the first launch submits the work
    the work is done   the next launch loads the kernel, and its own launcher chooses from then on

A launch that belongs to a tuner's measurement submits nothing: of many configurations, few are used afterwards. While a
CUDA graph is captured, nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tawa.bridge.launch.first.background import Task, submit, wait
from tawa.bridge.launch.host import Host

_tuning: ContextVar[bool] = ContextVar("tawa_tuning", default=False)


class StockFirst:
    """Called in place of Triton's launcher.

    inner: of stock Triton's kernel. make: compiles the kernel that it waits for, and makes no CUDA call. load: loads
    that; None if it cannot be loaded. known: whether a table says which kernel is the fastest: nothing is waited for.
    """

    def __init__(
        self, inner: Callable[..., None], make: Callable[[], Any], load: Callable[[Any], Any], host: Host,
        known: bool = False,
    ) -> None:  # fmt: skip
        self.inner, self.make, self.load, self.host = inner, make, load, host
        self.task: Task | None = None
        if known:
            self.task = Task(make)
            self.task.run()
        self.ready: Any = None
        self.settled = False

    def __call__(
        self, grid_0: int, grid_1: int, grid_2: int, stream: int, function: int, packed: Any, *rest: Any
    ) -> None:
        """Launches what there is."""
        if not self.settled:
            self._look()
        ready = self.ready
        if ready is None:
            self.inner(grid_0, grid_1, grid_2, stream, function, packed, *rest)
        else:
            ready.run(grid_0, grid_1, grid_2, stream, ready.function, ready.packed_metadata, *rest)

    def _look(self) -> None:
        """Submits the work, or takes its result."""
        task = self.task
        if task is None or task.lost:
            if not _tuning.get():
                self.task = submit(self.make)
        elif task.done and not self.host.capturing():
            self.ready = None if task.result is None else self.load(task.result)
            self.settled = True


@contextmanager
def tuning() -> Iterator[None]:
    """Launches inside the ``with`` block belong to a tuner's measurement."""
    token = _tuning.set(True)
    try:
        yield
    finally:
        _tuning.reset(token)


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
            fn()
            wait()
        return original(fn, *args, **kwargs)

    return do_bench


__all__ = ["StockFirst", "tuning", "wrap_bench", "wrap_do_bench"]
