"""Protocols written by hand, and what ``tawa verify`` says of them: ``python -m bench.protocols``, no GPU.

Somebody who had not read the checks wrote them to find faults that are proved and right programs that are refuted; what
was found was mended. The programs are text files beside this one (`bench.protocols.programs`), by topic.

``--only TOPIC`` takes one file, ``--dump DIR`` also writes each program as ``DIR/TOPIC_NAME.py``, for ``tawa verify
FILE:kernel``. Results: ``bench/results/protocols.json``, of a whole run only.
"""

from __future__ import annotations

import argparse
import importlib.util
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import Report, Row
from bench.protocols.programs import Program, programs, topics

VERDICTS = ("proved", "checked", "refuted", "unknown", "no answer")
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


class _TooLong(BaseException):
    """The check takes too much processor time."""


def _give_up(*_: object) -> None:
    raise _TooLong


def judge(program: Program, folder: Path) -> Judged:
    """Verifies a program; "no answer" if the check fails, or takes more than ANSWER_S of processor time."""
    import tawa

    kernel, start = kernel_of(program, folder), time.perf_counter()
    before = signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, ANSWER_S)
    try:
        found = tawa.check_protocol(kernel, program.signature, {"D": program.depth}, assume=program.assume)
        verdict, said = type(found).__name__.lower(), str(found)
    except (Exception, _TooLong) as error:
        verdict, said = "no answer", f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
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


def table(found: Sequence[Judged]) -> Iterator[str]:
    """Topics by verdicts: faulty programs, then right ones."""
    yield f"{'':16}{'faulty':>50}{'right':>50}"
    yield f"{'topic':16}" + "".join(f"{name:>10}" for _ in range(2) for name in VERDICTS)
    for topic in (*dict.fromkeys(it.program.topic for it in found), "all"):
        counts = Counter((it.program.right, it.verdict) for it in found if topic in (it.program.topic, "all"))
        yield f"{topic:16}" + "".join(f"{counts[right, it]:10}" for right in (False, True) for it in VERDICTS)


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
    print("\n".join(table(found)))
    if not arguments.only:
        report.add(*rows(found))
        print(report.save())
    good = not any(it.error for it in found)
    print(f"wanted: no fault is proved, no right program is refuted: {'pass' if good else 'FAIL'}")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
