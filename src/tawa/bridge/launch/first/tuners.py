"""Tuners, such as Triton's and Inductor's: they launch each configuration of a kernel many times, and choose one.

    first process     stock Triton's kernel of each configuration is timed, and nothing starts: a tuning takes its time
                      then the twins (Tawa's kernels) of the fastest few are compiled in the background
    later tunings     a configuration with a twin is timed twice, and has the shorter time

A twin has the bits of its own configuration, another configuration may sum in another order. So a running program is
never moved to another configuration: a twin takes part in the tunings that come later, as one more candidate. Results
of tunings that are stored on disk are dropped when the twins that they did not know are there.

The kernel that a measurement launches does not change within it.
"""

from __future__ import annotations

import functools
import logging
import math
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol

from tawa.plan.search.tuned import fastest_few, is_faster

_log = logging.getLogger("tawa")

_TUNING = "tawa_tuning"
"""The attribute of Triton's tuner for the tuning in progress."""


class Waiting(Protocol):
    """A kernel of stock Triton's whose twin can be made in the background."""

    def begin(self, then: Callable[[bool], None]) -> bool:
        """Submits the work; False if it was before. then: is called when it has ended, with whether there is a twin."""
        ...


class Measurement:
    """A tuner's measurement of one configuration.

    kernels: those of stock Triton's that were launched first. undecided: what is called with whether the twin is the
    faster one, for each class of launches that might get it. with_twins: whether these launches get it now. made: what
    launches get, by a key.
    """

    def __init__(self) -> None:
        self.kernels: list[Waiting] = []
        self.undecided: dict[Hashable, Callable[[bool], None]] = {}
        self.with_twins = False
        self.made: dict[Hashable, Any] = {}

    def is_new(self, kernel: Waiting) -> bool:
        """Whether no launch of the measurement had this kernel yet."""
        if any(it is kernel for it in self.kernels):
            return False
        self.kernels.append(kernel)
        return True

    def again(self, measure: Callable[[], Any], found: Any) -> Any:
        """Measures the twins, too, and returns the result of the faster ones. found: the result without them."""
        self.with_twins, before = True, _time(found)
        self.made.clear()
        try:
            other = measure()
        except Exception as error:
            _log.info("a tuner leaves a twin out: %s: %s", type(error).__name__, error)
            other = math.inf
        faster = is_faster(_time(other), before)
        for settle in self.undecided.values():
            settle(faster)
        return other if faster else found


class Tuning:
    """One choice between configurations.

    count: configurations that are measured, after which the tuning has ended; None: `end` is called.
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = count
        self.found: list[tuple[float, Sequence[Waiting]]] = []
        self._drops: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._left = 0
        self._made = False

    def add(self, kernels: Sequence[Waiting], time: float) -> None:
        """A configuration was measured."""
        self.found.append((time, kernels))
        if len(self.found) == self.count:
            self.end()

    def is_stored(self, drop: Callable[[], None]) -> None:
        """The choice is stored on disk. drop: takes it away, as soon as there are twins that it did not know."""
        with self._lock:
            self._drops.append(drop)
            if not self._made or self._left:
                return
        self._drop()

    def end(self, fastest: float = math.inf) -> None:
        """Submits the twins of the fastest few. fastest: the least time, if something else was measured as well."""
        fastest = min([fastest, *(time for time, _ in self.found)])
        found, self.found, self._left = [it for it in self.found if it[1]], [], 1
        near = [found[at][1] for at in fastest_few([time for time, _ in found], fastest)]
        for kernel in (it for kernels in near for it in kernels):
            with self._lock:
                self._left += 1
            if not kernel.begin(self._ended):
                self._ended(False)
        self._ended(False)

    def _ended(self, made: bool) -> None:
        with self._lock:
            self._left -= 1
            self._made |= made
            if self._left or not self._made:
                return
        self._drop()

    def _drop(self) -> None:
        with self._lock:
            drops, self._drops = self._drops, []
        for drop in drops:
            try:
                drop()
            except Exception as error:  # in the background, or where a graph was compiled: no error of a launch
                _log.info("a stored choice is left: %s: %s", type(error).__name__, error)


_measurement: ContextVar[Measurement | None] = ContextVar("tawa_measurement", default=None)
_tuning: ContextVar[Tuning | None] = ContextVar("tawa_tuning", default=None)


def measurement() -> Measurement | None:
    """The measurement that launches here belong to, if they are a tuner's."""
    return _measurement.get()


def is_tuning() -> bool:
    """Whether launches belong to a tuner's measurement."""
    return _measurement.get() is not None


@contextmanager
def measuring() -> Iterator[Measurement]:
    """Launches inside the ``with`` block belong to a tuner's measurement."""
    made = Measurement()
    token = _measurement.set(made)
    try:
        yield made
    finally:
        _measurement.reset(token)


@contextmanager
def tuning() -> Iterator[Tuning]:
    """Measurements inside the ``with`` block belong to one tuning. `end` is left to the caller."""
    made = Tuning()
    token = _tuning.set(made)
    try:
        yield made
    finally:
        _tuning.reset(token)


def wrap_bench(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a method that measures one configuration: the result is its time, or begins with it."""

    @functools.wraps(original)
    def bench(owner: Any, *args: Any, **kwargs: Any) -> Any:
        measure = functools.partial(original, owner, *args, **kwargs)
        with measuring() as launches:
            found = measure()
            if launches.undecided and math.isfinite(_time(found)):
                found = launches.again(measure, found)
        whole = _tuning.get() or getattr(owner, _TUNING, None)
        if whole is not None:
            whole.add(launches.kernels, _time(found))
        return found

    return bench


def wrap_apart(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a method that measures something whose result is kept elsewhere: nothing starts, and no twin is timed."""
    return measuring()(original)


def wrap_prune(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `Autotuner.prune_configs`, with which each tuning begins."""

    @functools.wraps(original)
    def prune_configs(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(tuner, *args, **kwargs)
        setattr(tuner, _TUNING, Tuning(len(found)))
        return found

    return prune_configs


def wrap_disk_cache(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `Autotuner.check_disk_cache`, which reads the result of a tuning, or tunes and stores it."""

    @functools.wraps(original)
    def check_disk_cache(*args: Any, **kwargs: Any) -> Any:
        with tuning() as whole:
            known = original(*args, **kwargs)
        whole.end()
        return known

    return check_disk_cache


def wrap_cache_manager(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the tuner's `get_cache_manager`, to know the folder in which the result of a tuning is stored."""

    @functools.wraps(original)
    def get_cache_manager(*args: Any, **kwargs: Any) -> Any:
        manager, whole = original(*args, **kwargs), _tuning.get()
        folder = getattr(manager, "cache_dir", None)
        if whole is not None and folder is not None:
            whole.is_stored(functools.partial(_drop_results, Path(folder)))
        return manager

    return get_cache_manager


def _drop_results(folder: Path) -> None:
    for path in folder.glob("*.autotune.json"):
        path.unlink(missing_ok=True)


def _time(found: Any) -> float:
    """Milliseconds, from what a tuner's measurement returns; infinite if the measurement failed."""
    with suppress(TypeError, ValueError, LookupError):
        return float(found[0] if isinstance(found, Sequence) else found)
    return math.inf
