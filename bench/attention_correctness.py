"""Runs every attention case on a GPU and compares it with float64: ``python bench/attention_correctness.py``.

For each case of `tawa.kernels.attention.cases`: fresh random inputs, outputs full of NaN, the kernel specialised
wherever that is legal, as planned and with the groups taking turns (``ping_pong=True``); persistent kernels also on
other numbers of programs. Each is run four times: the same bits every time, every element that must be written and no
other, and an error of at most twice that of PyTorch in the same precision (`tawa.kernels.check`).

Cases run in several processes under a watchdog (`workers.py`). Results: ``bench/results/attention_correctness.json``;
``error`` of a row is its error divided by what is allowed (at most 1 passes), or a text. ``--only NAME`` takes some.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from harness import Report, Row, describe
from workers import Answer, Job, is_fatal, run_jobs, serve_jobs

from tawa.kernels.attention.cases import CASES, find
from tawa.kernels.case import Case

RUNS = 4
PROGRAMS = (2, 12)
WAYS: dict[str, dict[str, Any]] = {"planned": {}, "turns": {"ping_pong": True}}


def problems(case: Case) -> Iterator[tuple[str, Case]]:
    """The case's own problem; of a persistent kernel also on few and on many programs."""
    yield "own", case
    if "persistent" in case.tags:
        yield from ((f"{count} programs", case.with_sizes(PROGRAMS=count)) for count in PROGRAMS)


# --- the worker's side ---


def handle(job: Job) -> Answer:
    """One case in one way: all its problems. The answer has one entry a problem."""
    from tawa.kernels import launch

    launch.allow_device_descriptors()
    results: list[dict[str, Any]] = []
    for label, case in problems(find(job["case"])):
        try:
            results.append({"problem": label, **check(case, WAYS[job["way"]])})
        except Exception as error:
            results.append({"problem": label, "status": "failed", "message": describe(error)})
            if is_fatal(describe(error)):
                break
    failed = any(result["status"] == "failed" for result in results)
    fatal = any(is_fatal(result.get("message", "")) for result in results)
    return {"status": "failed" if failed else "ok", "results": results, "fatal": fatal}


def check(case: Case, options: dict[str, Any]) -> dict[str, Any]:
    """Runs one problem and judges it."""
    import torch

    import tawa
    from tawa.errors import PlanError
    from tawa.kernels import launch
    from tawa.kernels.check import judge_all

    kernel = tawa.jit(case.kernel)
    tensors = launch.make_tensors(case, seed=zlib.crc32(case.name.encode()))
    outputs: list[dict[str, Any]] = []
    compiled: Any = None
    for _ in range(RUNS):
        launch.poison(case, tensors)
        try:
            compiled = launch.launch(case, kernel, tensors, only_if_faster=False, **options)
        except PlanError as error:
            return {"status": "ok", "declined": str(error)}
        torch.cuda.synchronize()
        outputs.append({name: tensors[name].clone() for name in launch.outputs(case)})
    verdict = judge_all(case, tensors, outputs)
    record = compiled.metadata.tawa
    answer: dict[str, Any] = {
        "status": "failed" if verdict.faults else "ok",
        "ratio": min(verdict.ratio, 1e9),
        "specialised": record["applied"],
        "registers": compiled.n_regs,
        "spills": compiled.n_spills,
    }
    if record["applied"]:
        parts = record["plan"]["partitions"]
        answer["groups"] = sum(part["role"] == "consumer" for part in parts)
        answer["D"] = [ring["depth"] for ring in record["plan"]["rings"]]
    else:
        answer["declined"] = record["reason"]
    return {**answer, "message": "; ".join(verdict.faults)} if verdict.faults else answer


# --- the parent's side ---


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


def main() -> int:
    """Runs everything; returns how the process should end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--minutes", type=float, default=8.0, help="begin no case after this")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        serve_jobs(handle)
        return 0
    start, report, counts = time.monotonic(), Report("attention_correctness"), Counter[str]()
    jobs = [{"case": case.name, "way": way} for case in CASES if arguments.only in case.name for way in WAYS]

    def take(job: Job, answer: Answer) -> None:
        for row in rows_of(job, answer):
            report.add(row)
            counts[str(row.case["status"])] += 1
            counts["specialised"] += row.case.get("specialised") is True
            if row.case["status"] != "ok":
                print(f"{job['case']} {job['way']} {row.case.get('problem', '')}: {row.error}"[:300], flush=True)

    run_jobs(Path(__file__).resolve(), jobs, take, arguments.processes, 90.0, start + arguments.minutes * 60)
    report.rows.sort(key=lambda row: (row.case["name"], row.case["way"]))
    path = report.save()
    summary = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()) if count)
    print(f"{len(jobs)} jobs, {len(report.rows)} problems in {time.monotonic() - start:.0f} s: {summary}\n{path}")
    return 0 if set(counts) <= {"ok", "specialised"} else 1


if __name__ == "__main__":
    raise SystemExit(main())
