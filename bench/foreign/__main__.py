"""Verifies Gluon kernels of other projects, and finds seeded faults: ``python -m bench.foreign PATH …``, no GPU.

PATH is a file, a folder of files, or a checkout of Triton's repository (its Gluon tutorials and examples are taken).
Nothing of them comes into this repository. `bench.foreign.collect` runs the tests of each file without launching
anything, and compiles for Hopper what they would launch, or with ``--arch 100`` for Blackwell. Every version of every
kernel is verified. Each kernel is then broken in the ways of `bench.foreign.faults`, at every place of one version of
each shape (the same operations of the protocol in the same order), and every broken program must be refuted. The
kernels with named barriers of ``tests/verify/barriers`` are verified and broken as well; for Blackwell, those of
``tests/verify/tensor_memory``.

Needs PyTorch; its build without CUDA is enough. Results: ``bench/results/foreign.json``, for Blackwell
``foreign_blackwell.json``. Rows, by candidate: the
verdicts on all versions of a kernel ("verdicts"), with what is wrong with a refuted one as its error; the counts of one
fault in one kernel ("fault") and in all of them ("all kernels"); a program with a fault that is not refuted
("not refuted"), with an error unless a reason of ``tests/verify/mutations_reasons.py`` says why it is still right, and
no run of the simulator says otherwise (`bench.foreign.runs`).
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # there are as many processes as cores already

from bench.foreign.faults import FAULTS  # noqa: E402
from bench.foreign.programs import Program, files_of, own_programs, programs_of  # noqa: E402
from bench.foreign.verdicts import Broken, Judged, broken_by, verify  # noqa: E402
from bench.harness import Report, Row, Timing  # noqa: E402
from tawa.machine.machines import MACHINES  # noqa: E402

VERDICTS = ("proved", "checked", "refuted", "unknown")


def verdict_row(programs: Sequence[Program], found: Sequence[Judged]) -> Row:
    """The verdicts on the versions of one kernel."""
    counts = Counter(it.verdict for it in found)
    case = {"file": programs[0].file, "kernel": programs[0].kernel, "versions": len(programs)}
    times = Timing.of([it.seconds * 1000 for it in found])
    error = next((it.why for it in found if it.why), None)
    made = Row.timed({**case, **{name: counts[name] for name in VERDICTS}}, "verdicts", times, 0)
    return Row(made.case, made.candidate, made.median_ms, made.p10_ms, made.p90_ms, None, error)


def fault_rows(place: dict[str, str], faults: dict[str, list[Broken]], candidate: str) -> Iterator[Row]:
    """The counts of each fault, with the reasons why programs pass in spite of it."""
    for name, found in faults.items():
        counts = Counter(it.verdict for it in found)
        reasons = Counter(it.why for it in found if it.verdict in ("proved", "checked"))
        case = {**place, "fault": name, "places": len(found), **{it: counts[it] for it in VERDICTS}}
        yield Row({**case, "simulated": sum(it.simulated for it in found), "reasons": dict(reasons)}, candidate)


def odd_rows(place: dict[str, str], faults: dict[str, list[Broken]]) -> Iterator[Row]:
    """The programs with a fault that are not refuted."""
    for name, found in faults.items():
        for it in found:
            if it.verdict != "refuted":
                error = None if it.explained else f"{it.verdict}: {it.why}"
                case = {**place, "fault": name, "change": it.mutant, "reason": it.why, "simulated": it.simulated}
                yield Row(case, "not refuted", error=error)


def break_kernel(
    programs: Sequence[Program], found: Sequence[Judged], pool: Pool, patience_s: float
) -> dict[str, list[Broken]]:
    """All faults at all places of the versions without a fault, one of each shape, if their check is fast enough."""
    shapes: dict[tuple[str, ...], Program] = {}
    for program, judged in zip(programs, found, strict=True):
        if judged.verdict in ("proved", "checked") and judged.seconds <= patience_s:
            shapes.setdefault(program.shape(), program)
    jobs = [(program, number) for program in shapes.values() for number in range(len(FAULTS))]
    broken: dict[str, list[Broken]] = {it.name: [] for it in FAULTS}
    for (_, number), some in zip(jobs, pool.imap(broken_by, jobs), strict=True):
        broken[FAULTS[number].name] += some
    return {name: some for name, some in broken.items() if some}


def all_programs(paths: Sequence[Path], architecture: int, only: Sequence[str], report: Report) -> Iterator[Program]:
    """The programs of this repository and of the paths; those that do not compile get a row. only: names of files."""
    yield from own_programs(architecture)
    for path in paths:
        for name, file in files_of(path):
            if only and not any(text in name for text in only):
                continue
            programs, failed = programs_of(name, file, architecture)
            report.add(*failed)
            yield from programs


def main() -> int:
    """Verifies everything; fails if a fault is neither refuted nor explained, or a verdict is unknown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--no-faults", action="store_true", help="only the verdicts")
    parser.add_argument("--only", nargs="+", default=(), metavar="TEXT", help="files whose name contains one of these")
    parser.add_argument("--patience", type=float, default=float("inf"), help="seconds; break what is checked faster")
    parser.add_argument("--arch", type=int, default=90, choices=[it.capability for it in MACHINES])
    arguments = parser.parse_args()
    name = "foreign" if arguments.arch == 90 else "foreign_blackwell"
    report, total = Report(name), {it.name: list[Broken]() for it in FAULTS}
    with get_context("spawn").Pool(arguments.processes) as pool:
        for (file, kernel), group in groupby(
            all_programs(arguments.paths, arguments.arch, arguments.only, report), lambda it: (it.file, it.kernel)
        ):
            programs, place = list(group), {"file": file, "kernel": kernel}
            found = pool.map(verify, programs)
            report.add(verdict_row(programs, found))
            counts = Counter(it.verdict for it in found)
            faults = {} if arguments.no_faults else break_kernel(programs, found, pool, arguments.patience)
            for name, some in faults.items():
                total[name] += some
            report.add(*fault_rows(place, faults, "fault"), *odd_rows(place, faults))
            fates = Counter(it.verdict for some in faults.values() for it in some)
            print(f"{file:48.48} {kernel:44.44} {dict(counts)}   faults: {dict(fates)}", flush=True)
            report.save()
    report.add(*fault_rows({}, total, "all kernels"))
    for name, some in total.items():
        fates = Counter(it.verdict for it in some)
        odd = [it for it in some if it.verdict != "refuted" and not it.explained]
        print(f"{name:48} {len(some):5} places   {dict(fates)}   not explained: {len(odd)}")
    print(report.save())
    good = all(it.verdict == "refuted" or it.explained for some in total.values() for it in some)
    print(f"wanted: every fault refuted or explained: {'pass' if good else 'FAIL'}")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
