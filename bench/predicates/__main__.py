"""Verdicts on random programs of which the truth is known: ``python -m bench.predicates``, no GPU.

A producer fills a ring by TMA, and a consumer releases slots where a random predicate holds: over the loops, the
arguments, the program and numbers from memory. `draw` makes the programs, `programs` writes them, `runs` makes their
runs, and `truth` decides: a program is *faulty* if one of some hundred launches, with small and with large numbers,
deadlocks or overruns; it is *right* if its predicate holds by construction, or if it has one launch only. Programs that
are neither are not used. A launch whose running count wraps around (after 2**31 iterations) does not count.

``--dump N DIR`` writes program N, as ``N.refuted.ttgir`` if it is faulty and as ``N.proved.ttgir`` if it is right.

Results: ``bench/results/predicates.json``. Rows, by candidate: the verdicts on the programs of one kind and truth, with
the time of the check ("verdicts"); a faulty program that is proved ("false proved"), with a launch that is faulty; a
right one that is refuted ("false refuted"), with the reason as its error; how often an unknown verdict has a reason
("unknown").
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # there are as many processes as cores already

from bench.harness import Report, Row, Timing  # noqa: E402
from bench.predicates.draw import program_at  # noqa: E402
from bench.predicates.programs import text  # noqa: E402
from bench.predicates.verdicts import FALSE, Judged, judge  # noqa: E402

VERDICTS = ("proved", "checked", "refuted", "unknown", "failed")


def rows(found: Sequence[Judged]) -> Iterable[Row]:
    """The rows of the result file."""
    groups: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for it in found:
        groups[it.drawn.program.kind, it.drawn.known.truth].append(it)
    for (kind, truth), group in sorted(groups.items()):
        counts = Counter(it.verdict for it in group)
        case = {"kind": kind, "truth": truth, "programs": len(group), **{name: counts[name] for name in VERDICTS}}
        yield Row.timed(case, "verdicts", Timing.of([round(it.ms, 3) for it in group]), 0)
    for it in found:
        if it.false:
            case: dict[str, Any] = {"program": it.place, "kind": it.drawn.program.kind, "text": str(it.drawn.program)}
            if it.drawn.known.truth == "faulty":
                case |= {"launch": dict(it.drawn.known.launch), "wrong": it.drawn.known.wrong}
            yield Row(case, it.false, error=it.why or None)
    reasons = Counter(re.sub(r"\d+", "N", it.why) for it in found if it.verdict == "unknown")
    for reason, count in sorted(reasons.items()):
        yield Row({"reason": reason, "programs": count}, "unknown")


def print_table(found: Sequence[Judged]) -> None:
    """Verdicts by kind and truth, and the numbers of the programs with a false one."""
    counts = Counter((it.drawn.program.kind, it.drawn.known.truth, it.verdict) for it in found)
    shown = [it for it in VERDICTS if any(key[2] == it for key in counts)]
    print(f"\n{'kind':16}{'truth':8}" + "".join(f"{name:>10}" for name in shown))
    pairs = sorted({key[:2] for key in counts})
    for kind, truth in pairs:
        print(f"{kind:16}{truth:8}" + "".join(f"{counts[kind, truth, it]:10}" for it in shown))
    for truth in sorted({truth for _, truth in pairs}):
        sums = [sum(counts[kind, truth, it] for kind, _ in pairs) for it in shown]
        print(f"{'all':16}{truth:8}" + "".join(f"{it:10}" for it in sums))
    for name in (*FALSE.values(), "failed"):
        places = [it.place for it in found if it.false == name]
        print(f"{name}: {len(places)}   {' '.join(map(str, places))}".rstrip())


def dump(seed: int, place: int, folder: Path) -> Path:
    """Writes one program to a folder."""
    drawn = program_at(seed, place)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{place}.{'refuted' if drawn.known.truth == 'faulty' else 'proved'}.ttgir"
    path.write_text(text(drawn.program))
    print(f"{path}: {drawn.program}")
    if drawn.known.truth == "faulty":
        launch = ", ".join(f"{name} = {value}" for name, value in drawn.known.launch.items())
        print(f"{drawn.known.wrong}: {launch}")
    return path


def main(given: Sequence[str] | None = None) -> int:
    """Judges all programs; fails if one verdict is the opposite of the truth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--effort", choices=("fast", "full"), default="full")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--dump", nargs=2, metavar=("N", "DIR"), help="write program N to a folder, and check nothing")
    arguments = parser.parse_args(given)
    if arguments.dump:
        dump(arguments.seed, int(arguments.dump[0]), Path(arguments.dump[1]))
        return 0
    report, found, start = Report("predicates"), list[Judged](), time.monotonic()
    work = partial(judge, arguments.seed, arguments.effort)
    with get_context("spawn").Pool(arguments.processes) as pool:
        for it in pool.imap(work, range(arguments.count), chunksize=20):
            found.append(it)
            if len(found) % 500 == 0:
                print(f"{len(found)} programs, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    report.about |= {"seed": arguments.seed, "effort": arguments.effort}
    report.about["dropped"] = sum(it.drawn.dropped for it in found)
    report.add(*rows(found))
    print_table(found)
    print(report.save())
    good = not any(it.false for it in found)
    print(f"wanted: no verdict is the opposite of the truth: {'pass' if good else 'FAIL'}")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
