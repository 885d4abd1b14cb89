"""The frame of a correctness bench: a job is one case with one set of launch options; each of its problems is a row.

A bench is a `CaseBench`; its file ends with ``raise SystemExit(BENCH.main())``. Results: ``bench/results/NAME.json``.
The ``error`` of a row is the error divided by the allowed error (at most 1 passes), or a text.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.harness import Report, Row, describe
from bench.workers import Answer, Job, is_fatal, run_jobs, serve_jobs

if TYPE_CHECKING:
    from tests.cases.case import Specimen

LIMIT_S = 90.0


@contextmanager
def on_processors(count: int | None) -> Iterator[None]:
    """Launches the kernels that are loaded in this block as on a GPU with `count` SMs; None: as on the real one.

    With few SMs, a persistent kernel needs several rounds even for a small problem.
    """
    from tawa.bridge.launch import added_arguments

    real = added_arguments.multiprocessors
    if count is not None:
        added_arguments.multiprocessors = lambda: count
    try:
        yield
    finally:
        added_arguments.multiprocessors = real


@dataclass(frozen=True)
class CaseBench:
    """What is run.

    module: the module of the bench. name: of its result file. ways: launch options by name. problems: yields the
    problems of a case with their labels. check: runs one problem with some options and judges it.
    """

    module: str
    name: str
    about: str
    cases: Sequence[Specimen]
    ways: Mapping[str, dict[str, Any]]
    problems: Callable[[Specimen], Iterator[tuple[str, Specimen]]]
    check: Callable[[Specimen, dict[str, Any]], dict[str, Any]]

    # --- the worker's side ---

    def handle(self, job: Job) -> Answer:
        """One case in one way: all its problems. The answer has one entry a problem."""
        from tests.cases import launch

        launch.allow_device_descriptors()
        asked = next(case for case in self.cases if case.name == job["case"])
        results: list[dict[str, Any]] = []
        for label, case in self.problems(asked):
            try:
                results.append({"problem": label, **self.check(case, self.ways[job["way"]])})
            except Exception as error:
                results.append({"problem": label, "status": "failed", "message": describe(error)})
                if is_fatal(describe(error)):
                    break
        failed = any(result["status"] == "failed" for result in results)
        fatal = any(is_fatal(result.get("message", "")) for result in results)
        return {"status": "failed" if failed else "ok", "results": results, "fatal": fatal}

    # --- the parent's side ---

    def main(self) -> int:
        """Runs everything; returns the exit status."""
        parser = argparse.ArgumentParser(description=self.about, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT",
                            help="cases whose name contains one of these; rows of others stay in the file")  # fmt: skip
        parser.add_argument("--minutes", type=float, default=8.0, help="begin no case after so many minutes")
        parser.add_argument("--processes", type=int, default=12)
        parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
        arguments = parser.parse_args()
        if arguments.worker:
            serve_jobs(self.handle)
            return 0
        names = [case.name for case in self.cases if any(text in case.name for text in arguments.only)]
        start, report, counts = time.monotonic(), self._begun(set(names)), Counter[str]()
        jobs = [{"case": name, "way": way} for name in names for way in self.ways]

        def take(job: Job, answer: Answer) -> None:
            for row in rows_of(job, answer):
                report.add(row)
                counts[str(row.case["status"])] += 1
                counts["specialised"] += row.case.get("specialised") is True
                if row.case["status"] != "ok":
                    print(f"{job['case']} {job['way']} {row.case.get('problem', '')}: {row.error}"[:300], flush=True)

        run_jobs(self.module, jobs, take, arguments.processes, LIMIT_S, start + arguments.minutes * 60)
        report.rows.sort(key=lambda row: (row.case["name"], row.case["way"]))
        path = report.save()
        summary = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()) if count)
        ran = f"{len(jobs)} jobs, {counts.total() - counts['specialised']} problems"
        print(f"{ran} in {time.monotonic() - start:.0f} s: {summary}\n{path}")
        return 0 if set(counts) <= {"ok", "specialised"} else 1

    def _begun(self, names: set[str]) -> Report:
        """A report with the rows of the cases in the file that are not run, and of which run those are."""
        report = Report(self.name)
        known = {case.name for case in self.cases} - names
        if known:
            report.rows = [row for row in report.earlier_rows() if row.case["name"] in known]
        return report


def rows_of(job: Job, answer: Answer) -> list[Row]:
    """The rows of one job."""
    about = {"name": job["case"], "way": job["way"]}
    if not answer.get("results"):
        message = f"{answer['status']}: {answer.get('message', '')}"
        return [Row({**about, "status": answer["status"]}, "tawa", error=message)]
    rows: list[Row] = []
    for result in answer["results"]:
        details = {key: value for key, value in result.items() if key not in ("message", "ratio")}
        ratio = result.get("ratio")
        error = result.get("message") or (None if ratio is None else round(ratio, 4))
        rows.append(Row({**about, **details}, "tawa", error=error))
    return rows
