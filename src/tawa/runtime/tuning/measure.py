"""Measures Plans of one launch against each other, within a budget.

    compile the Plans in their order    stock Triton's kernel first; while there is budget, the first two in any case
    run each once, compare its outputs  a Plan with other results than the first is left out, and reported
    time each alone, briefly            one that takes more than twice the time of the best is left out
    short bursts, round-robin           all that are left see the same clocks; one whose fastest burst is slower than
                                        the slowest of the best is left out
    the smallest median wins            a tie goes to the Plan that comes first

The timer is handed in, so nothing here needs a GPU.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tawa.bridge.driver.tuning.ranked_plans import RankedPlan
from tawa.bridge.launch.host import Prepare
from tawa.runtime.tuning.table import Timed, one_line

LEAST_ROUNDS = 3
MOST_ROUNDS = 9
BURST_MS = 2.0
MOST_LAUNCHES = 100
HOPELESS = 2.0
"""A Plan that takes this many times as long as the best is not timed further."""

Launch = Callable[[], None]
Timer = Callable[[Launch, int], float]
"""A launch and how many in a row → milliseconds."""


class Check(Protocol):
    """Compares the outputs of Plans."""

    def differs(self, launch: Launch) -> str:
        """Runs a launch once; how its outputs differ from those of the first launch that was checked, or ""."""
        ...


class NoCheck:
    """For launches whose outputs cannot be compared."""

    def differs(self, launch: Launch) -> str:
        """Runs the launch."""
        launch()
        return ""


_FATAL = ("cuda error", "illegal memory", "unspecified launch", "misaligned", "device-side", "cuda_error")


def is_fatal(error: Exception) -> bool:
    """Whether an error leaves the CUDA context of the process unusable."""
    return any(word in str(error).lower() for word in _FATAL)


@dataclass(slots=True)
class Budget:
    """Seconds for one measurement. with_compiles: whether compiles count, as at a launch that a user waits for."""

    seconds: float
    with_compiles: bool = True
    clock: Callable[[], float] = time.monotonic
    _spent: float = 0.0
    _since: float = 0.0

    def start(self) -> None:
        """Time counts from now on."""
        self._since = self.clock()

    def pause(self) -> None:
        """Time does not count until `start`."""
        self._spent += self.clock() - self._since

    @property
    def left(self) -> bool:
        """Whether there is time left."""
        return self._spent + self.clock() - self._since < self.seconds


@dataclass(slots=True)
class _Contender:
    ranked: RankedPlan
    launch: Launch
    samples_ms: list[float] = field(default_factory=list[float])
    count: int = 1
    note: str = ""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result. best: None if no Plan could be timed. times: of all Plans, in their order."""

    best: RankedPlan | None
    times: tuple[Timed, ...]


def _ignore(_: RankedPlan) -> None:
    return None


def measure(
    plans: Sequence[RankedPlan],
    prepare: Prepare,
    timer: Timer,
    budget: Budget,
    check: Check | None = None,
    trying: Callable[[RankedPlan], None] = _ignore,
) -> Measurement:
    """Measures. trying: is told of each Plan before it is compiled and run for the first time."""
    budget.start()
    notes: dict[int, str] = {}
    running: dict[int, _Contender] = {}
    checked = check or NoCheck()
    # Stock Triton's kernel comes first: its outputs are the right ones, and nothing may be slower than it.
    for number, ranked in sorted(enumerate(plans), key=lambda it: it[1].plan.form != "stock"):
        if len(running) >= 2 and not budget.left:
            notes[number] = "not tried: the budget was spent"
            continue
        trying(ranked)
        launch = _prepared(ranked, prepare, budget)
        if isinstance(launch, str):
            notes[number] = one_line(launch)
            continue
        try:
            if differs := checked.differs(launch):
                notes[number] = f"wrong results: {differs}"
                continue
            running[number] = _Contender(ranked, launch, [min(timer(launch, 1) for _ in range(2))])
        except Exception as error:
            if is_fatal(error):
                raise
            notes[number] = one_line(f"{type(error).__name__}: {error}")
    running = dict(sorted(running.items()))
    all_of_them = dict(running)
    _drop_hopeless(running)
    for contender in running.values():
        once = contender.samples_ms.pop()
        contender.count = max(1, min(MOST_LAUNCHES, round(BURST_MS / max(once, 1e-3))))
    for turn in range(MOST_ROUNDS):
        if turn >= LEAST_ROUNDS and (not budget.left or len(running) == 1):
            break
        order = list(running.values())
        for contender in order if turn % 2 == 0 else order[::-1]:
            contender.samples_ms.append(timer(contender.launch, contender.count) / contender.count)
        if turn + 1 >= LEAST_ROUNDS:
            _drop_slower(running)
    best = min(running.values(), key=lambda it: statistics.median(it.samples_ms)) if running else None
    times = [_timed(ranked, all_of_them.get(number), notes.get(number, "")) for number, ranked in enumerate(plans)]
    return Measurement(best.ranked if best is not None else None, tuple(times))


def _prepared(ranked: RankedPlan, prepare: Prepare, budget: Budget) -> Launch | str:
    if not budget.with_compiles:
        budget.pause()
    try:
        return prepare(ranked.plan)
    finally:
        if not budget.with_compiles:
            budget.start()


def _drop_hopeless(running: dict[int, _Contender]) -> None:
    best = min((it.samples_ms[0] for it in running.values()), default=0.0)
    for number, contender in list(running.items()):
        if contender.samples_ms[0] > HOPELESS * best:
            contender.note = f"stopped early: more than {HOPELESS:g} times as slow as another"
            del running[number]


def _drop_slower(running: dict[int, _Contender]) -> None:
    if not running:
        return
    best = min(running.values(), key=lambda it: statistics.median(it.samples_ms))
    for number, contender in list(running.items()):
        if min(contender.samples_ms) > max(best.samples_ms):
            contender.note = "stopped early: slower in every burst"
            del running[number]


def _timed(ranked: RankedPlan, contender: _Contender | None, note: str) -> Timed:
    plan = ranked.plan.to_dict()
    if contender is None:
        return Timed(ranked.words, plan, note=note)
    samples = contender.samples_ms
    quartiles = statistics.quantiles(samples, n=4) if len(samples) > 1 else [samples[0]] * 3
    median, spread = statistics.median(samples), quartiles[2] - quartiles[0]
    return Timed(ranked.words, plan, round(median * 1000, 3), round(spread * 1000, 3), contender.note)


__all__ = ["Budget", "Check", "Launch", "Measurement", "NoCheck", "Timer", "is_fatal", "measure"]
