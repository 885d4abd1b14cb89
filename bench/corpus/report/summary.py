"""A summary of all results, compared with the targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.corpus.report.kernels import KernelSummary, summarise_kernels, untimed
from bench.corpus.report.kernels import applied as applied_kernels
from bench.corpus.report.results import Result, geomean, title

WANTED = 1.15


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of the corpus.

    compared: configurations that were compared with stock's kernel one by one. kernels: those that automatic mode
    specialised, in stock's configurations. tuned: the same with each mode in the configurations of its own tuning.
    untimed: how many specialised kernels were not timed. geomean: of the speed-ups of whole entries with a specialised
    kernel. worst: over all timed entries.
    """

    entries: int
    ok: int
    wrong: int
    crashed: int
    hung: int
    skipped: int
    applied: int
    legal: int
    compared: int
    kernels: KernelSummary
    untimed: int
    tuned: KernelSummary
    geomean: float | None
    worst: float | None
    worst_entry: str

    def met(self) -> bool:
        """Whether the targets are met: nothing wrong, crashed or hung, 1.15 in the mean, nothing below 0.98."""
        good = self.wrong == self.crashed == self.hung == 0
        return good and (self.tuned.geomean or 0.0) >= WANTED and self.kernels.slower == self.tuned.slower == 0


def summarise(results: Sequence[Result]) -> Summary:
    """Counts and speed-ups."""
    counts = {status: sum(it.status == status for it in results) for status in _STATUSES}
    timed = [(speed, it) for it in results if (speed := it.speedup()) is not None]
    applied = [speed for speed, it in timed if it.applied]
    worst = min(timed, key=lambda pair: pair[0], default=None)
    return Summary(
        len(results),
        counts["ok"],
        counts["wrong"],
        counts["crashed"],
        counts["hung"],
        counts["skipped"],
        applied=sum(it.applied for it in results),
        legal=sum(it.legal for it in results),
        compared=sum(it.compared for it in results),
        kernels=summarise_kernels(applied_kernels(results)),
        untimed=untimed(results),
        tuned=summarise_kernels(applied_kernels(results, own_choice=True)),
        geomean=geomean(applied),
        worst=worst[0] if worst else None,
        worst_entry=title(worst[1]) if worst else "",
    )


_STATUSES = ("ok", "wrong", "crashed", "hung", "skipped")
