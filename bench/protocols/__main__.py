"""Protocols written by hand, and what ``tawa verify`` says of them: ``python -m bench.protocols``, no GPU.

Somebody who had not read the checks wrote them to find faults that are proved and right programs that are refuted; what
was found was mended. The programs are text files beside this one (`bench.protocols.programs`), by topic.

``--only TOPIC`` takes one file, ``--dump DIR`` also writes each program as ``DIR/TOPIC_NAME.py``, for ``tawa verify
FILE:kernel``. Results: ``bench/results/protocols.json``, of a whole run only.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.harness import Report, Row
from bench.protocols.programs import Program, programs, topics
from bench.verdicts import VERDICTS, answer_of, table

ANSWER_S = 30.0


@dataclass(frozen=True, slots=True)
class Judged:
    """A program, and what the check says of it in how many seconds."""

    program: Program
    verdict: str
    said: str
    seconds: float

    @property
    def error(self) -> str | None:
        """What must not be."""
        if not self.program.right and self.verdict == "proved":
            return "a faulty program is proved"
        if self.program.right and self.verdict == "refuted":
            return "a right program is refuted"
        if self.verdict == "proved" and self.program.bound not in self.said:
            return f"the verdict does not say that it holds below {self.program.bound} accesses"
        return None


def judge(program: Program, folder: Path) -> Judged:
    """Verifies a program; "no answer" if the check fails, or takes more than ANSWER_S of processor time."""
    import tawa

    kernel, start, constants = kernel_of(program, folder), time.perf_counter(), {"D": program.depth}
    check = partial(tawa.check_protocol, kernel, program.signature, constants, assume=program.assume)
    verdict, said = answer_of(check, ANSWER_S)
    return Judged(program, verdict, said, time.perf_counter() - start)


def kernel_of(program: Program, folder: Path) -> Any:
    """The kernel of a program, from a file in a folder: Triton reads the source of a kernel from its file."""
    path = folder / f"{program.topic}_{program.name}.py"
    path.write_text(program.text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def rows(found: Sequence[Judged]) -> Iterator[Row]:
    """The counts of each topic, and a row for each program."""
    for topic in topics():
        for right in (False, True):
            some = [it for it in found if it.program.topic == topic and it.program.right == right]
            counts = Counter(it.verdict for it in some)
            case = {"topic": topic, "programs": len(some), **{it: counts[it] for it in VERDICTS}}
            yield Row(case, "right programs" if right else "faulty programs")
    for it in found:
        case = {"topic": it.program.topic, "program": it.program.name, "why": it.program.why, "verdict": it.verdict}
        yield Row(case, "right" if it.program.right else "faulty", error=it.error)


def main() -> int:
    """Judges all programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TOPIC", choices=topics())
    parser.add_argument("--dump", metavar="DIR", type=Path)
    arguments = parser.parse_args()
    report, found = Report("protocols"), list[Judged]()
    report.about["device"] = "cpu"
    with tempfile.TemporaryDirectory(prefix="tawa-protocols-") as made:
        folder = arguments.dump or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        for program in programs(arguments.only or ""):
            found.append(judge(program, folder))
            if found[-1].error or found[-1].verdict == "no answer":
                print(f"{program.topic}: {program.name}: {found[-1].error or found[-1].said[:200]}", flush=True)
    print("\n".join(table("topic", [(it.program.topic, it.program.right, it.verdict) for it in found])))
    if not arguments.only:
        report.add(*rows(found))
        print(report.save())
    good = not any(it.error for it in found)
    print(f"wanted: no fault is proved, no right program is refuted: {'pass' if good else 'FAIL'}")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
