"""Whether the checks refute broken programs, by kind of mutant: ``python -m bench.mutations``, no GPU.

The programs are all specialised kernels, at both levels with D = 2 and P = 1 (some also with D = 3 and P = 2), and the
hand-written Gluon programs of the tests. Each is mutated in every way of ``tests/verify/mutations_aref.py`` and
``mutations_barrier.py``; ``mutations_sweep.py`` lists the possible outcomes. A row is one of three: the counts of a
level and a kind ("check"); an unbroken program with the time of its full check ("unbroken"); a mutant that was neither
refuted nor equivalent, with the reason as its error ("mutant").

``--most N`` takes N mutants per kind, operation and program; ``--only TEXT`` takes some programs.

``--arch sm_100`` takes attention for Blackwell instead, whose accumulator a partition of its own rewrites.

Results: ``bench/results/mutations.json``, for Blackwell ``mutations_blackwell.json``.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing import get_context

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # there are as many processes as cores already

from bench.harness import Report, Row, Timing, describe  # noqa: E402
from tawa.ir import parse_module  # noqa: E402
from tawa.verify.verdict import Checked, Proved  # noqa: E402
from tests.cases.gemm.cases import SPECIALISED  # noqa: E402
from tests.verify.mutations_edits import Site  # noqa: E402
from tests.verify.mutations_oracle import (  # noqa: E402
    CONVERTER,
    CORRECTION,
    GLUON,
    Level,
    Oracle,
    Subject,
    converter,
    correction,
    hand_written,
    kernel,
)
from tests.verify.mutations_sweep import (  # noqa: E402
    FATES,
    Finding,
    all_sites,
    check,
    family,
    judge,
    kinds,
    mutant_of,
)

DEEP = ("tile_64x64", "persistent", "gate_up", "two_loops")
"""Kernels that are mutated with D = 3 and P = 2 as well."""


@dataclass(frozen=True, slots=True)
class Job:
    """One program at one level with D and P; `most` mutants of each kind, 0 for all.

    part, parts: it takes one in so many of the mutants.
    """

    name: str
    level: Level
    most: int
    depth: int = 2
    mma_depth: int = 1
    part: int = 0
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a job: time and error of the unbroken program, and a finding for each mutant."""

    job: Job
    unbroken_ms: float
    error: str | None
    findings: tuple[Finding, ...]


def _subject(job: Job) -> Subject:
    if job.name in GLUON:
        return hand_written(job.name)
    if job.name == CONVERTER:
        return converter(job.level)
    if job.name == CORRECTION:
        return correction(job.level)
    return kernel(job.name, job.level, job.depth, job.mma_depth)


def work(job: Job) -> Done:
    """Checks one program and all its mutants."""
    subject = _subject(job)
    start = time.perf_counter()
    verdict = check(subject.level, parse_module(subject.text))
    unbroken_ms = (time.perf_counter() - start) * 1000
    error = None if isinstance(verdict, Proved | Checked) else f"does not pass: {verdict}"[:300]
    oracle = Oracle(subject)
    groups: dict[str, list[Site]] = {}
    for site in all_sites(subject)[job.part :: job.parts]:
        groups.setdefault(f"{site.kind.name} {site.target}", []).append(site)
    findings = [it for sites in groups.values() for it in attempts(sites, job.most, oracle)]
    return Done(job, unbroken_ms, error, tuple(findings))


def attempts(sites: list[Site], most: int, oracle: Oracle) -> list[Finding]:
    """The findings of one kind and one operation at all sites, or at `most` of them, beginning with the middle one."""
    findings: list[Finding] = []
    middle = len(sites) // 2 if most else 0
    for site in sites[middle:] + sites[:middle]:
        mutant = mutant_of(oracle.subject, site)
        if mutant is None:
            continue
        try:
            findings.append(judge(mutant, oracle, thorough=True))
        except Exception as failure:
            names = (oracle.subject.name, oracle.subject.level, mutant.kind, str(mutant))
            findings.append(Finding(*names, "unknown", describe(failure)))
        if len(findings) == most:
            break
    return findings


def rows(done: list[Done]) -> list[Row]:
    """The rows of the result file: counts by level and kind, unbroken programs, unexpected outcomes."""
    found: list[Row] = []
    findings = [finding for it in done for finding in it.findings]
    for level in ("aref", "barrier"):
        for kind in kinds(level, any(it.job.name == CORRECTION for it in done)):
            of_kind = [it for it in findings if it.level == level and it.kind == kind.name]
            fates = Counter(it.fate for it in of_kind)
            reasons = Counter(it.why for it in of_kind if it.fate == "equivalent")
            counts = {"made": len(of_kind), **{fate: fates[fate] for fate in FATES}}
            found.append(Row({"level": level, "kind": kind.name, **counts, "reasons": dict(reasons)}, "check"))
    for it in (it for it in done if it.job.part == 0):
        case = {"program": it.job.name, "level": it.job.level, "D": it.job.depth, "P": it.job.mma_depth}
        timing = Timing.of([it.unbroken_ms])
        found.append(Row(case, "unbroken", timing.median_ms, timing.p10_ms, timing.p90_ms, error=it.error))
    for it in findings:
        if it.fate not in ("refuted", "equivalent"):
            case = {"program": it.subject, "level": it.level, "mutant": it.mutant, "fate": it.fate}
            found.append(Row(case, "mutant", error=it.why[:300]))
    return found


def print_table(report: Report) -> None:
    """Kinds by level, with the sums."""
    print(f"\n{'level':8}{'kind':28}" + "".join(f"{name:>13}" for name in ("made", *FATES)))
    total: Counter[str] = Counter()
    for row in report.rows:
        if row.candidate != "check":
            continue
        counts = {name: row.case[name] for name in ("made", *FATES)}
        total.update(counts)
        print(f"{row.case['level']:8}{row.case['kind']:28}" + "".join(f"{it:13}" for it in counts.values()))
    print(f"{'':8}{'all':28}" + "".join(f"{total[name]:13}" for name in ("made", *FATES)))


PARTS = 8
"""Jobs for one program, where there is only one."""
LEVELS: tuple[Level, ...] = ("aref", "barrier")


def jobs(only: str, most: int) -> list[Job]:
    """Every program at every level. The first kernel of each shape comes before the second of any."""
    seen: Counter[str] = Counter()
    places: dict[str, int] = {}
    for case in SPECIALISED:
        seen[family(case)] += 1
        places[case.name] = seen[family(case)]
    names = [*GLUON, CONVERTER, *sorted(places, key=lambda name: places[name])]
    plain = [Job(name, level, most) for name in names for level in LEVELS if level == "barrier" or name not in GLUON]
    deep = [Job(name, level, most, 3, 2) for name in DEEP for level in LEVELS]
    return [job for job in (*plain, *deep) if only in job.name]


def main() -> int:
    """Runs the sweep; fails if a mutant is proved or unclear, or an unbroken program does not pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--arch", choices=("sm_90", "sm_100"), default="sm_90")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    hopper = arguments.arch == "sm_90"
    report, done = Report("mutations" if hopper else "mutations_blackwell"), list[Done]()
    blackwell = [
        Job(CORRECTION, level, arguments.most, part=part, parts=PARTS) for level in LEVELS for part in range(PARTS)
    ]
    work_list = jobs(arguments.only, arguments.most) if hopper else blackwell
    with get_context("spawn").Pool(arguments.processes) as pool:
        for it in pool.imap_unordered(work, work_list):
            done.append(it)
            fates = Counter(finding.fate for finding in it.findings)
            text = ", ".join(f"{fates[fate]} {fate}" for fate in FATES if fates[fate])
            error = f"   {it.error}" if it.error else ""
            print(f"{it.job.name:36}{it.job.level:9}{it.unbroken_ms:8.0f} ms   {text}{error}", flush=True)
            report.rows = rows(done)
            report.about["programs"] = f"{len(done)} of {len(work_list)}"
            report.save()
    print_table(report)
    print(report.save())
    good = all(
        it.error is None and all(f.fate in ("refuted", "equivalent", "other values", "checked") for f in it.findings)
        for it in done
    )
    print(f"wanted: no mutant proved or unclear, every unbroken program passes: {'pass' if good else 'FAIL'}")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
