"""Kernels one by one: where Tawa specialises, what it gains; where it may but does not, what it would have gained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.corpus.report.results import Microseconds, Result, geomean, title

NO_SLOWER = 0.98
WHOLE = "(whole entry)"  # in place of a kernel's name, where only the operation was timed
UNUSUAL = 4.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """One kernel of one entry, under stock Triton and in a mode. reason: why automatic mode declines it, if it does."""

    result: Result
    kernel: str
    stock: Microseconds
    mode: Microseconds
    reason: str = ""

    @property
    def ratio(self) -> float:
        """How many times faster than stock it is, of the medians."""
        return self.stock.median / self.mode.median

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the largest ratio that the middle 80 of 100 runs would give."""
        return (self.stock.p10 / self.mode.p90, self.stock.p90 / self.mode.p10)

    @property
    def slower(self) -> bool:
        """Whether it is slower than is allowed, noise or not."""
        return self.ratio < NO_SLOWER

    @property
    def surely_slower(self) -> bool:
        """Whether it is slower beyond the spread of what was measured."""
        return self.spread[1] < NO_SLOWER

    @property
    def name(self) -> str:
        """Kernel, package, operation and shape."""
        return f"{self.kernel} of {title(self.result)}"


def compared_mode(result: Result) -> str:
    """The mode in which kernels are compared with stock's: in the same configurations, where that was timed."""
    return "same" if "same" in result.kernels else "tawa"


def applied(results: Iterable[Result], own_choice: bool = False) -> list[Comparison]:
    """Each kernel that automatic mode specialises, and was timed; entries whose kernels were not, as a whole.

    In the configurations that stock Triton chose for itself, or, with `own_choice`, each mode in those that its own
    tuning chose: what a user gets, who tunes. That differs from one time to the next, and Triton's autotuner measures
    with an empty L2 cache.
    """
    found: list[Comparison] = []
    for result in results:
        mode = "tawa" if own_choice else compared_mode(result)
        names = _names(result, mode, applied=True)
        kernels = [it for name in names if (it := _compare(result, name, mode)) is not None]
        if names and not kernels and result.speedup() is not None:
            kernels = [Comparison(result, WHOLE, _whole(result, "stock"), _whole(result, "tawa"))]
        found += kernels
    return found


def declined(results: Iterable[Result]) -> list[Comparison]:
    """Each kernel that automatic mode declines, though it may be specialised, and that was timed so."""
    found: list[Comparison] = []
    for result in results:
        own = _names(result, "tawa", applied=True)
        for name in _names(result, "legal", applied=True):
            if name not in own and (it := _compare(result, name, "legal")) is not None:
                found.append(it)
    return found


def untimed(results: Iterable[Result]) -> int:
    """How many kernels that automatic mode specialises were not timed, by themselves or with their entry."""
    results = list(results)
    timed = {(id(it.result), it.kernel) for it in applied(results)}
    return sum(
        (id(result), name) not in timed and (id(result), WHOLE) not in timed
        for result in results
        for name in _names(result, compared_mode(result), applied=True)
    )


@dataclass(frozen=True, slots=True)
class KernelSummary:
    """Comparisons in a few numbers. whole: how many of them are entries as a whole.

    usual: the geometric mean of those under `UNUSUAL`: a few kernels that stock Triton compiles badly do not move it.
    """

    count: int
    whole: int
    geomean: float | None
    usual: float | None
    worst: Comparison | None
    slower: int
    surely_slower: int


def summarise_kernels(found: Sequence[Comparison]) -> KernelSummary:
    """Counts, mean and worst."""
    return KernelSummary(
        len(found),
        sum(it.kernel == WHOLE for it in found),
        geomean(it.ratio for it in found),
        geomean(it.ratio for it in found if it.ratio < UNUSUAL),
        min(found, key=lambda it: it.ratio, default=None),
        sum(it.slower for it in found),
        sum(it.surely_slower for it in found),
    )


def _names(result: Result, mode: str, applied: bool) -> list[str]:
    """The kernels with a verdict of this kind in a mode, each once."""
    return list(dict.fromkeys(it.kernel for it in result.kernels.get(mode, ()) if it.applied is applied))


def _compare(result: Result, kernel: str, mode: str) -> Comparison | None:
    stock, other = (_us(result, kernel, it) for it in ("stock", mode))
    if stock is None or other is None or min(stock.p10, other.p10) <= 0:
        return None
    reasons = [it.reason for it in result.kernels.get("tawa", ()) if it.kernel == kernel and not it.applied]
    return Comparison(result, kernel, stock, other, reasons[0] if reasons else "")


def _us(result: Result, kernel: str, mode: str) -> Microseconds | None:
    return next((it.us for it in result.kernels.get(mode, ()) if it.kernel == kernel), None)


def _whole(result: Result, mode: str) -> Microseconds:
    median, p10, p90 = (1000 * it for it in result.times[mode])
    return Microseconds(median, p10, p90)
