"""Runs every GEMM case on a GPU and compares it with float64: ``python -m bench.gemm.correctness [--only NAME]``.

For each case and each plan (D, P): fresh random normal inputs, outputs full of NaN, and a set of problems: the case's
own, the trip counts {0, 1, D-1, D, D+1, 2D, 2D+1}, and one that fills the GPU (persistent kernels: two waves and
more). Each is run several times.

A problem passes if
- the largest error against float64 is at most 2 x that of PyTorch in the same precision (`tests.cases.check`);
- it writes every element of its own and no other (NaN stays NaN);
- repeated runs give the same bits (other bits are a race).
Whether the bits are those of the stock kernel, which sums in the same order, is recorded; a difference within the
tolerance passes.

Cases run in several processes under a watchdog (`bench.workers`): a kernel that hangs is one failed row. Results go to
``bench/results/gemm_correctness.json``; the ``error`` of a row is the error divided by the allowed error (at most 1
passes), or a text.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.harness import Report, Row, describe
from bench.workers import Answer, Job, is_fatal, run_jobs, serve_jobs
from tests.cases.case import Specimen
from tests.cases.gemm.cases import CASES, find

SMALL_RUNS, LARGE_RUNS = 3, 6


@dataclass(frozen=True, slots=True)
class Problem:
    """One set of sizes for a case."""

    label: str
    case: Specimen
    runs: int


def problems(case: Specimen, depth: int) -> Iterator[Problem]:
    """The case's own problem, the trip counts around the depth, and one that fills the GPU."""
    yield Problem("own", case, SMALL_RUNS)
    if "BK" not in case.constexprs or "K" not in case.sizes or case.expect.verdict == "declined":
        return
    block = case.size("BK")
    if "varying" not in case.tags:
        for trips in sorted({0, 1, depth - 1, depth, depth + 1, 2 * depth, 2 * depth + 1}):
            yield Problem(f"trips {trips}", case.with_sizes(K=max(0, trips * block - block // 4)), SMALL_RUNS)
    if "K2" in case.sizes:
        yield Problem("second loop empty", case.with_sizes(K2=0), SMALL_RUNS)
        yield Problem("both loops empty", case.with_sizes(K=0, K2=0), SMALL_RUNS)
    if case.reference != "ragged":
        yield Problem("whole GPU", case.with_sizes(**_large(case)), LARGE_RUNS)


def _large(case: Specimen) -> dict[str, int]:
    """Sizes for at least two waves of 132 programs, with a K that does not divide."""
    if "Z" in case.sizes:
        return {"M": 1024, "N": 1024, "K": 264}
    k = 2048 if case.reference == "triangular" else 9 * case.size("BK") + 16
    more = {"PROGRAMS": 132} if "PROGRAMS" in case.sizes else {}
    return {"M": 4096, "N": 2048, "K": min(k, 16 * case.size("BK")) if case.reference == "in_loop_scale" else k, **more}


# --- the worker's side ---


def handle(job: Job) -> Answer:
    """One case with one plan: all its problems. The answer has one entry a problem."""
    from tests.cases import launch

    launch.allow_device_descriptors()
    case = find(job["case"])
    results: list[dict[str, Any]] = []
    for problem in problems(case, job["depth"]):
        try:
            results.append({"problem": problem.label, **check(problem, job)})
        except Exception as error:
            message = describe(error)
            results.append({"problem": problem.label, "status": "failed", "message": message})
            if is_fatal(message):
                break
    worst = "failed" if any(result["status"] == "failed" for result in results) else "ok"
    return {
        "status": worst,
        "results": results,
        "fatal": any(is_fatal(result.get("message", "")) for result in results),
    }


def check(problem: Problem, job: Job) -> dict[str, Any]:
    """Runs one problem and judges it."""
    import torch

    import tawa
    from tawa.errors import UnsupportedKernel
    from tests.cases import launch
    from tests.cases.check import judge

    case = problem.case
    options: dict[str, Any] = {}
    if case.expect.verdict != "declined":
        options = {"enable_warp_specialization": True, "aref_depth": job["depth"], "mma_depth": job["mma_depth"]}
    kernel = tawa.jit(case.kernel)
    tensors = launch.make_tensors(case, seed=hash_of(case.name, problem.label))
    declined = ""
    outputs: list[Any] = []
    compiled: Any = None
    for _ in range(problem.runs):
        launch.poison(case, tensors)
        try:
            compiled = launch.launch(case, kernel, tensors, **options)
        except UnsupportedKernel as error:
            if case.expect.verdict != "either":
                raise
            declined, options = error.remark.reason, {}
            compiled = launch.launch(case, kernel, tensors, **options)
        torch.cuda.synchronize()
        outputs.append(tensors["c"].clone())
    launch.poison(case, tensors)
    launch.launch(case, case.kernel, tensors)
    torch.cuda.synchronize()
    stock = tensors["c"].clone()
    verdict = judge(case, tensors, outputs, stock)
    aref = str(getattr(compiled, "asm", {}).get("aref", ""))
    answer: dict[str, Any] = {
        "status": "failed" if verdict.faults else "ok",
        "ratio": min(verdict.ratio, 1e9),
        "same_bits_as_stock": verdict.same_bits_as_stock,
        "specialised": bool(aref) and not aref.startswith("//"),
        "declined": declined,
    }
    return {**answer, "message": "; ".join(verdict.faults)} if verdict.faults else answer


def hash_of(*words: str) -> int:
    """A seed that is the same in every process."""
    import zlib

    return zlib.crc32("|".join(words).encode())


# --- the parent's side ---


def make_jobs(only: str) -> list[Job]:
    """One job for each case and each of its plans; cases with many plans first, since they take longest."""
    jobs = []
    for case in CASES:
        if only in case.name and case.reference:
            for depth, mma_depth in case.plans if case.expect.verdict != "declined" else ((2, 1),):
                jobs.append({"case": case.name, "depth": depth, "mma_depth": mma_depth})
    return sorted(jobs, key=lambda job: -len(find(job["case"]).plans))


def rows_of(job: Job, answer: Answer) -> list[Row]:
    """The rows of one job."""
    case = find(job["case"])
    about = {"name": case.name, "verdict": case.expect.verdict, "D": job["depth"], "P": job["mma_depth"]}
    if not answer.get("results"):
        return [
            Row({**about, "status": answer["status"]}, "tawa", error=f"{answer['status']}: {answer.get('message', '')}")
        ]
    rows = []
    for result in answer["results"]:
        good = result["status"] == "ok"
        details = {
            key: result[key]
            for key in ("problem", "status", "specialised", "same_bits_as_stock", "declined")
            if result.get(key) not in (None, "")
        }
        rows.append(
            Row(
                {**about, **details},
                "tawa",
                error=round(result["ratio"], 4) if good else result.get("message", "failed"),
            )
        )
    return rows


def main() -> int:
    """Runs everything; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--minutes", type=float, default=8.0, help="begin no case after so many minutes")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--limit", type=float, default=90.0, help="seconds after which a case counts as hung")
    parser.add_argument("--name", default="gemm_correctness", help="name of the result file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        serve_jobs(handle)
        return 0
    report = Report(arguments.name)
    jobs = make_jobs(arguments.only)
    counts: Counter[str] = Counter()
    start = time.monotonic()

    def take(job: Job, answer: Answer) -> None:
        rows = rows_of(job, answer)
        report.add(*rows)
        for row in rows:
            status = str(row.case["status"])
            counts[status] += 1
            counts["differs from stock"] += row.case.get("same_bits_as_stock") is False
            counts["not specialised"] += row.case.get("specialised") is False and row.case["verdict"] == "specialised"
            if status != "ok":
                where = f"{row.case['name']} D={row.case['D']} P={row.case['P']} {row.case.get('problem', '')}"
                print(f"{status.upper():8} {where}: {row.error}", flush=True)

    run_jobs("bench.gemm.correctness", jobs, take, arguments.processes, arguments.limit, start + arguments.minutes * 60)
    report.rows.sort(key=lambda row: (row.case["name"], row.case["D"], row.case["P"]))
    path = report.save()
    summary = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()) if count)
    print(f"{len(jobs)} jobs, {len(report.rows)} problems in {time.monotonic() - start:.0f} s: {summary}\n{path}")
    return 0 if set(counts) <= {"ok", "differs from stock", "not specialised"} and not counts["not specialised"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
