"""Kernels one by one: the gain of those that Tawa specialises, and the missed gain of those that it declines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.corpus.report.results import Microseconds, Result, geomean, title

NO_SLOWER = 0.98
WHOLE = "(whole entry)"  # in place of a kernel's name if only the operation was timed
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
        """The smallest and the largest ratio over the 10th to 90th percentile of both."""
        return (self.stock.p10 / self.mode.p90, self.stock.p90 / self.mode.p10)

    @property
    def slower(self) -> bool:
        """Whether it is slower than allowed; this may be noise."""
        return self.ratio < NO_SLOWER

    @property
    def surely_slower(self) -> bool:
        """Whether it is slower by more than the spread of the measurement."""
        return self.spread[1] < NO_SLOWER

    @property
    def name(self) -> str:
        """Kernel, package, operation and shape."""
        return f"{self.kernel} of {title(self.result)}"


def compared_mode(result: Result) -> str:
    """The mode that is compared with stock: ``same`` (in stock's configurations) if it was timed, else ``tawa``."""
    return "same" if "same" in result.kernels else "tawa"


def applied(results: Iterable[Result], own_choice: bool = False) -> list[Comparison]:
    """Each timed kernel that automatic mode specialises; an entry whose kernels were not timed counts as a whole.

    Both run in the configurations that stock Triton chose. With `own_choice`, each mode runs in the configurations of
    its own tuning, as for a user who tunes; these choices vary, and Triton's autotuner measures with an empty L2 cache.
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
    """Each kernel that automatic mode declines although it can be specialised, if it was timed specialised."""
    found: list[Comparison] = []
    for result in results:
        own = _names(result, "tawa", applied=True)
        for name in _names(result, "legal", applied=True):
            if name not in own and (it := _compare(result, name, "legal")) is not None:
                found.append(it)
    return found


def untimed(results: Iterable[Result]) -> int:
    """How many specialised kernels of automatic mode were timed neither by themselves nor with their entry."""
    results = list(results)
    timed = {(id(it.result), it.kernel) for it in applied(results)}
    return sum(
        (id(result), name) not in timed and (id(result), WHOLE) not in timed
        for result in results
        for name in _names(result, compared_mode(result), applied=True)
    )


@dataclass(frozen=True, slots=True)
class KernelSummary:
    """A summary of comparisons.

    whole: how many of them are entries as a whole. usual: the geometric mean of the ratios below `UNUSUAL`, without the
    few kernels that stock Triton compiles badly.
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
