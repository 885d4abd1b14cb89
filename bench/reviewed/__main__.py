"""Faulty and right programs, and what ``tawa verify`` says of them: ``python -m bench.reviewed``, no GPU.

Faults are planted in the programs of `bench.reviewed.kernels` (``faults_*.py``), each with a sentence that says why the
program is wrong, and with numbers with which a run goes wrong. The interpreter of `bench.reviewed.interpreter`, which
shares nothing with the checks, finds that run. Harmless edits (``right.py``) give programs that must not be refuted;
it finds no wrong run of them. A fault that is proved, and a right program that is refuted, are errors.

``--only KERNEL`` takes one kernel, ``--dump DIR`` also writes each program as ``DIR/KERNEL.NUMBER.ttgir``, for
``tawa verify FILE``; the first line names it. Results: ``bench/results/reviewed_mutants.json``, of a whole run only.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.harness import Report, Row
from bench.reviewed.interpreter import outcome
from bench.reviewed.kernels import KERNELS
from bench.reviewed.kinds import Fault
from bench.reviewed.programs import FAULTS, RIGHT
from bench.verdicts import VERDICTS, answer_of, table
from tawa.ir import parse_module, print_module
from tawa.verify.check import check_levels

LIMIT_S, ANSWER_S = 300, 2.0


@dataclass(frozen=True, slots=True)
class Judged:
    """A program, whether it is right, the verdict, the wrong run that the interpreter found, and what both took."""

    fault: Fault
    right: bool
    verdict: str
    run: str
    check_s: float
    runs_s: float

    @property
    def error(self) -> str | None:
        """What must not be."""
        if not self.right and self.verdict == "proved":
            return "a faulty program is proved"
        if self.right and self.verdict == "refuted":
            return "a right program is refuted"
        if self.right == bool(self.run):
            return f"the interpreter does not agree: {self.run or 'no run goes wrong'}"
        return None


def judge(fault: Fault, right: bool) -> Judged:
    """Verifies a program, and runs it."""
    text, kernel = print_module(fault.program().module), KERNELS[fault.kernel]
    start = time.perf_counter()
    numbers, tables = {**kernel.numbers, **fault.numbers}, {**kernel.tables, **fault.tables}
    run = outcome(parse_module(text), numbers, tables) if fault.shown else "not made"
    between = time.perf_counter()
    verdict, _ = answer_of(lambda: check_levels(None, parse_module(text), effort="full"), ANSWER_S)
    return Judged(fault, right, verdict, run, time.perf_counter() - between, between - start)


def dump(folder: Path, fault: Fault, right: bool, number: int) -> None:
    """Writes a program as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    head = f"// {fault.kernel}, {'right' if right else 'faulty'}: {fault.name}. {fault.why}\n"
    text = print_module(fault.program().module, locations=False)
    (folder / f"{fault.kernel}.{number:03}.ttgir").write_text(head + text)


def rows(found: Sequence[Judged]) -> Iterator[Row]:
    """The counts of each kernel, and a row for each program."""
    for name, kernel in KERNELS.items():
        for right in (False, True):
            some = [it for it in found if it.fault.kernel == name and it.right == right]
            counts = Counter(it.verdict for it in some)
            case = {"kernel": name, "kind": kernel.kind, "programs": len(some), **{it: counts[it] for it in VERDICTS}}
            yield Row(case, "right programs" if right else "faulty programs")
    for it in found:
        case = {"kernel": it.fault.kernel, "program": it.fault.name, "why": it.fault.why, "verdict": it.verdict}
        yield Row({**case, "run": it.run}, "right" if it.right else "faulty", error=it.error)


def main() -> int:
    """Judges all programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="KERNEL", choices=KERNELS)
    parser.add_argument("--dump", metavar="DIR", type=Path)
    arguments = parser.parse_args()
    report, start, found = Report("reviewed_mutants"), time.perf_counter(), list[Judged]()
    report.about["device"] = "cpu"
    for number, (fault, right) in enumerate((*((it, False) for it in FAULTS), *((it, True) for it in RIGHT))):
        if arguments.only in (None, fault.kernel):
            if arguments.dump:
                dump(arguments.dump, fault, right, number)
            found.append(judge(fault, right))
    seconds = time.perf_counter() - start
    print("\n".join(table("kernel", [(it.fault.kernel, it.right, it.verdict) for it in found])))
    for it in found:
        if it.error:
            print(f"{it.error}: {it.fault.kernel}: {it.fault.name}")
    if not arguments.only:
        report.add(*rows(found))
        print(report.save())
    good = not any(it.error for it in found)
    print(f"wanted: no fault is proved, no right program is refuted: {'pass' if good else 'FAIL'}")
    print(f"wanted: at most {LIMIT_S} s: {seconds:.0f} s: {'pass' if seconds <= LIMIT_S else 'FAIL'}")
    return 0 if good and seconds <= LIMIT_S else 1


if __name__ == "__main__":
    raise SystemExit(main())
