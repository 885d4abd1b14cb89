"""The report on the kernels of a process: returned by `tawa.report`, printed by `tawa report`.

Kernels are grouped by name. The versions of a kernel, one for each set of constants and argument types, are grouped by
their verdict, since a kernel may be specialised for some shapes and declined for others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tawa.outside import names_and_values, read

_MS: Any = float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The versions of a kernel with the same outcome.

    versions: how many compiled kernels. launches: through Triton's launcher; None if PyTorch launched them by its own
    launcher, which nobody counts. compile_ms, tawa_ms: of their compiles, and Tawa's share, when they were compiled.
    """

    applied: bool
    reason: str
    location: str | None
    cure: str | None
    versions: int
    launches: int | None
    compile_ms: float
    tawa_ms: float


@dataclass(frozen=True, slots=True)
class KernelHistory:
    """One kernel: its verdicts, most launched first. gpu_ms: GPU time of all versions; None if not profiled.

    learning: what its launches have learned and are learning, for people.
    """

    name: str
    verdicts: tuple[Verdict, ...]
    gpu_ms: float | None = None
    learning: tuple[str, ...] = ()

    @property
    def launches(self) -> int | None:
        """Of all versions; None if some were not counted."""
        counts = [verdict.launches for verdict in self.verdicts]
        return None if None in counts else sum(count for count in counts if count is not None)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "kernel": self.name,
            "launches": self.launches,
            "gpu_ms": self.gpu_ms,
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
            "learning": list(self.learning),
        }

    @staticmethod
    def from_data(data: object) -> KernelHistory:
        """The inverse of `to_dict`; raises Unfit on other data."""
        known = names_and_values(data, "a kernel")
        verdicts = read(tuple[Verdict, ...], known.get("verdicts"), "verdicts")
        learning = read(tuple[str, ...], known.get("learning", ()), "learning")
        name, time = read(str, known.get("kernel"), "kernel"), read(_MS, known.get("gpu_ms"), "gpu_ms")
        return KernelHistory(name, verdicts, time, learning)


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """All kernels that were recorded, of one process or several.

    kernels: by GPU time, else by launches. gpu_ms: time of everything that ran on the GPU, Triton's kernels or not;
    None if nothing was profiled. note: why a profile that was asked for is missing. processes: how many. reason: why
    the kernels that Triton compiled were not recorded; empty if they were.
    """

    kernels: tuple[KernelHistory, ...]
    gpu_ms: float | None = None
    note: str = ""
    processes: int = 1
    reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernels", _ordered(self.kernels))

    def share(self, kernel: KernelHistory) -> float | None:
        """A kernel's share of the GPU time, 0 to 1."""
        return kernel.gpu_ms / self.gpu_ms if self.gpu_ms and kernel.gpu_ms is not None else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "processes": self.processes,
            "gpu_ms": self.gpu_ms,
            "note": self.note,
            "reason": self.reason,
            "kernels": [it.to_dict() for it in self.kernels],
        }

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def to_html(self) -> str:
        """One page, a file of its own that needs no network (`tawa report --html`)."""
        from tawa.runtime.page.report import report_page

        return report_page(self)

    def _repr_html_(self) -> str:
        """The headline and the kernels, for a notebook."""
        from tawa.runtime.page.report import report_cell

        return report_cell(self)

    def table(self) -> Any:
        """A rich table for a terminal."""
        from tawa.runtime.history.table import report_table

        return report_table(self)

    def __str__(self) -> str:
        from tawa.runtime.explain.table import as_text

        return as_text(self.table())


def merge_reports(parts: Iterable[ProcessReport]) -> ProcessReport:
    """One report of several processes; times and launches are added up."""
    reports = list(parts)
    verdicts: dict[str, dict[tuple[Any, ...], Verdict]] = {}
    times: dict[str, float | None] = {}
    learning: dict[str, dict[str, None]] = {}
    for kernel in (kernel for part in reports for kernel in part.kernels):
        found = verdicts.setdefault(kernel.name, {})
        for verdict in kernel.verdicts:
            key = (verdict.applied, verdict.reason, verdict.location, verdict.cure)
            found[key] = _added(found[key], verdict) if key in found else verdict
        times[kernel.name] = _sum(times.get(kernel.name), kernel.gpu_ms)
        learning.setdefault(kernel.name, {}).update(dict.fromkeys(kernel.learning))
    kernels = [
        KernelHistory(name, by_launches(found.values()), times[name], tuple(learning[name]))
        for name, found in verdicts.items()
    ]
    total: float | None = None
    for part in reports:
        total = _sum(total, part.gpu_ms)
    notes = dict.fromkeys(part.note for part in reports if part.note)
    reasons = dict.fromkeys(part.reason for part in reports if part.reason)
    processes = sum(part.processes for part in reports)
    return ProcessReport(tuple(kernels), total, "; ".join(notes), processes, "; ".join(reasons))


def by_launches(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts of one kernel, most launched first."""
    return tuple(sorted(verdicts, key=lambda it: (-(it.launches or 0), -it.versions, it.reason)))


def _ordered(kernels: Iterable[KernelHistory]) -> tuple[KernelHistory, ...]:
    """The kernels by GPU time, longest first; if that is unknown, by launches."""
    return tuple(sorted(kernels, key=lambda it: (-(it.gpu_ms or 0.0), -(it.launches or 0), it.name)))


def _added(first: Verdict, second: Verdict) -> Verdict:
    launches = None if first.launches is None or second.launches is None else first.launches + second.launches
    return Verdict(
        first.applied,
        first.reason,
        first.location,
        first.cure,
        first.versions + second.versions,
        launches,
        round(first.compile_ms + second.compile_ms, 3),
        round(first.tawa_ms + second.tawa_ms, 3),
    )


def _sum(first: float | None, second: float | None) -> float | None:
    return first if second is None else second if first is None else first + second
