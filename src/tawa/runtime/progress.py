"""Progress bars of work that takes seconds: on stderr, and only on a terminal or in a notebook.

    with progress("checking gemm") as tell:
        …  tell(spent, most, "barriers")     checking gemm: barriers ━━━━━━━━╺━━━━━━━━━━━ 0:00:03

A bar appears once its work has taken `DELAY_S`, and is removed when it ends. There is none in a pipe or a file, and in
a notebook only with ipywidgets. Work inside of other work gets a row below it.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

DELAY_S = 0.7
"""Shorter work shows no bar."""
_REFRESH_S = 0.1


Tell = Callable[[float, float | None, str], None]
"""Takes how much is done, of how much (None: as before), and the part of the work that is being done."""


def _silent(done: float, total: float | None = None, part: str = "") -> None:
    """Ignores the progress: no bar is shown."""


class _Bars:
    """The rows of this process that are shown now: there is one screen. timer: shows them after the delay."""

    def __init__(self) -> None:
        self.shown: Any = None
        self.rows = 0
        self.lock = threading.RLock()
        self.timer: threading.Timer | None = None

    def add(self, what: str, total: float | None) -> Any:
        """A new row; None where bars cannot be shown."""
        with self.lock:
            if self.shown is None:
                self.shown = _new()
                if self.shown is None:
                    return None
                self.timer = threading.Timer(DELAY_S, self._show, (self.shown,))
                self.timer.daemon = True
                self.timer.start()
            self.rows += 1
            return self.shown.add_task(what, total=total)

    def remove(self, row: Any) -> None:
        """Removes a row; with the last one, what is shown."""
        with self.lock:
            self.shown.remove_task(row)
            self.rows -= 1
            if self.rows == 0:
                if self.timer is not None:
                    self.timer.cancel()
                self.shown.stop()
                self.shown = self.timer = None

    def _show(self, bars: Any) -> None:
        with self.lock:
            if self.shown is bars:
                bars.start()


_BARS = _Bars()


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Tell]:
    """Shows a bar while the block runs, if it takes longer than `DELAY_S`.

    what: the work, as a clause: "simulating gemm". total: the number of its steps; None if that is not known. Yields a
    function to call with how much is done, as often as convenient.
    """
    row = _BARS.add(what, total)
    if row is None:
        yield _silent
        return
    bars = _BARS.shown

    last = [("", 0.0)]

    def tell(done: float, total: float | None = None, part: str = "") -> None:
        now = time.monotonic()
        if part == last[0][0] and now - last[0][1] < _REFRESH_S:
            return
        last[0] = part, now
        more = {} if total is None else {"total": total}
        bars.update(row, completed=done, description=f"{what}: {part}" if part else what, **more)

    try:
        yield tell
    finally:
        _BARS.remove(row)


def _new() -> Any:
    """rich's bars; None if stderr is no terminal, or a notebook has no ipywidgets."""
    try:
        watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    except (AttributeError, ValueError):  # there is no stderr, or it is closed
        return None
    if not watched:
        return None  # the usual case, for which rich need not be loaded
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False, markup=False)
    if console.is_jupyter:
        if importlib.util.find_spec("ipywidgets") is None:
            return None
    elif not console.is_terminal or console.is_dumb_terminal:
        return None
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    # What the work prints is not redirected: rich's lock must not be held in a child that the work forks.
    return Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
