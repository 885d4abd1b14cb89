"""Judged alone: Plans of one launch are measured against each other, within a budget.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tawa.plan.plan import Plan
from tawa.plan.search.candidate import Candidate, Effort
from tawa.plan.thresholds import BURST_MS, HOPELESS_ALONE, LEAST_MEASURED, LEAST_ROUNDS, MOST_LAUNCHES, MOST_ROUNDS

Launch = Callable[[], None]
Prepare = Callable[[Plan], Launch | str]
"""Compiles and loads the kernel of a Plan, and returns a function that launches it once; a text says why it cannot."""
Timer = Callable[[Launch, int], float]
"""A launch and how many in a row → milliseconds."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One Plan that was considered, as JSON data.

    median_us, spread_us: of one launch: the median, and the distance of the quartiles; None if it was not timed.
    note: why it was not timed, or not to the end; or how it was timed.
    """

    words: str
    plan: Mapping[str, Any]
    median_us: float | None = None
    spread_us: float | None = None
    note: str = ""

    @staticmethod
    def of(words: str, plan: Plan, times_ms: Sequence[float] = (), note: str = "") -> Timed:
        """A Plan with the times of its launches."""
        if not times_ms:
            return Timed(words, plan.to_dict(), note=note)
        quartiles = statistics.quantiles(times_ms, n=4) if len(times_ms) > 1 else [times_ms[0]] * 3
        median_us, spread_us = statistics.median(times_ms) * 1e3, (quartiles[2] - quartiles[0]) * 1e3
        return Timed(words, plan.to_dict(), round(median_us, 3), round(spread_us, 3), note)


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
class _Contender:
    candidate: Candidate
    launch: Launch
    samples_ms: list[float] = field(default_factory=list[float])
    count: int = 1
    note: str = ""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result. best: None if no Plan could be timed. times: of all Plans, in their order."""

    best: Candidate | None
    times: tuple[Timed, ...]


def _ignore(_: Candidate) -> None:
    return None


def measure(
    candidates: Sequence[Candidate],
    prepare: Prepare,
    timer: Timer,
    budget_s: float,
    check: Check | None = None,
    trying: Callable[[Candidate], None] = _ignore,
    *,
    with_compiles: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Measurement:
    """Measures.

    budget_s: seconds. trying: is told of each Plan before it is compiled and run for the first time. with_compiles:
    whether compiles take of the budget, as at a launch that a user waits for.
    """
    start, effort = clock(), Effort(seconds=budget_s, least=LEAST_MEASURED)
    notes: dict[int, str] = {}
    running: dict[int, _Contender] = {}
    checked = check or NoCheck()
    # Stock Triton's kernel comes first: its outputs are the right ones, and nothing may be slower than it.
    for number, candidate in sorted(enumerate(candidates), key=lambda it: it[1].plan.form != "stock"):
        if effort.is_spent(len(running), clock() - start):
            notes[number] = "not tried: the budget was spent"
            continue
        trying(candidate)
        before = clock()
        launch = prepare(candidate.plan)
        start += 0.0 if with_compiles else clock() - before
        if isinstance(launch, str):
            notes[number] = launch
            continue
        try:
            if differs := checked.differs(launch):
                notes[number] = f"wrong results: {differs}"
                continue
            running[number] = _Contender(candidate, launch, [min(timer(launch, 1) for _ in range(2))])
        except Exception as error:
            if is_fatal(error):
                raise
            notes[number] = f"{type(error).__name__}: {error}"
    running = dict(sorted(running.items()))
    all_of_them = dict(running)
    _drop_hopeless(running)
    for contender in running.values():
        once = contender.samples_ms.pop()
        contender.count = max(1, min(MOST_LAUNCHES, round(BURST_MS / max(once, 1e-3))))
    for round_number in range(MOST_ROUNDS):
        if round_number >= LEAST_ROUNDS and (effort.is_spent(len(running), clock() - start) or len(running) == 1):
            break
        order = list(running.values())
        for contender in order if round_number % 2 == 0 else order[::-1]:
            contender.samples_ms.append(timer(contender.launch, contender.count) / contender.count)
        if round_number + 1 >= LEAST_ROUNDS:
            _drop_slower(running)
    best = min(running.values(), key=lambda it: statistics.median(it.samples_ms)) if running else None
    times = [
        Timed.of(it.words, it.plan, made.samples_ms, made.note)
        if (made := all_of_them.get(number)) is not None
        else Timed.of(it.words, it.plan, note=notes[number])
        for number, it in enumerate(candidates)
    ]
    return Measurement(best.candidate if best is not None else None, tuple(times))


def _drop_hopeless(running: dict[int, _Contender]) -> None:
    best = min((it.samples_ms[0] for it in running.values()), default=0.0)
    for number, contender in list(running.items()):
        if contender.samples_ms[0] > HOPELESS_ALONE * best:
            contender.note = f"stopped early: more than {HOPELESS_ALONE:g} times as slow as another"
            del running[number]


def _drop_slower(running: dict[int, _Contender]) -> None:
    if not running:
        return
    best = min(running.values(), key=lambda it: statistics.median(it.samples_ms))
    for number, contender in list(running.items()):
        if min(contender.samples_ms) > max(best.samples_ms):
            contender.note = "stopped early: slower in every burst"
            del running[number]
