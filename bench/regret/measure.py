"""Measures the candidates of each kernel: every one is compiled and checked in a process of its own, then timed.

Outputs are compared with those of stock Triton on fresh random inputs, outputs poisoned with NaN: equal bits, or the
largest difference relative to the largest value.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from typing import Any

from bench.compiled import learned, tables_in
from bench.harness import Report, Row, Timing, time_round_robin
from bench.regret.candidates import LEARNED, MEASURED, Candidate, candidates_of, learn, ranked_of
from bench.regret.problems import problems
from bench.workers import Answer, Job, run_jobs, say_alive

TOLERANCE = 2e-2
LIMIT_S = 240.0
_cases: dict[str, Any] = {}


def handle(job: Job) -> Answer:
    """Compiles and checks one kernel's candidates; times those that are right if the job asks.

    candidates: of the job; empty: those of `candidates_of`. They are in the answer.
    """
    import torch

    import tawa
    from tests.cases import launch

    launch.allow_device_descriptors()
    if not _cases:
        _cases.update({case.name: (kernel, case) for kernel, case in problems()})
    _, case = _cases[job["case"]]
    tensors = launch.make_tensors(case, seed=0)
    bound, grid = launch.bind(case, tensors), case.launch_grid()
    calls: dict[str, Any] = {}
    about: dict[str, Any] = {}
    errors: dict[str, str] = {}
    wanted: dict[str, Any] = {}
    chosen = [Candidate(**entry) for entry in job["candidates"]] or candidates_of(case, ranked_of(case))
    for it in chosen:
        kernel = tawa.jit(case.kernel)

        def call(kernel: Any = kernel, options: dict[str, Any] = it.options) -> Any:
            return kernel[grid](**bound, **case.options(), **options)

        launch.poison(case, tensors)
        told: dict[str, Any] = {}
        try:
            with tempfile.TemporaryDirectory(prefix="regret-") as folder, tables_in(folder):
                compiled = call()
                if it.name == LEARNED["name"]:
                    learn(call, job["timed"])
                    launch.poison(case, tensors)
                    call()
                    told = learned()
            torch.cuda.synchronize()
        except Exception as error:
            errors[it.name] = f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
            continue
        record = getattr(compiled.metadata, "tawa", None) or {}
        about[it.name] = {"applied": bool(record.get("applied")), "reason": record.get("reason", ""),
                          "plan": brief(record.get("plan")), "equal": True, **told}  # fmt: skip
        got = {name: tensors[name].clone() for name in launch.outputs(case)}
        if not wanted:
            wanted = got
        for name, value in got.items():
            if not torch.equal(value, wanted[name]):
                about[it.name]["equal"] = False
                worst = (value.double() - wanted[name].double()).abs().max() / wanted[name].double().abs().max()
                if not float(worst) <= TOLERANCE:
                    errors[it.name] = f"{name} differs from stock Triton's by {float(worst):.2e} of its largest value"
        if it.name not in errors:
            calls[it.name] = call
        say_alive()
    ms: dict[str, list[float]] = {}
    if job["timed"]:
        timings, failed = time_round_robin(calls, rounds=8, burst_ms=2.0, rest_s=0.004)
        ms = {name: [it.median_ms, it.p10_ms, it.p90_ms] for name, it in timings.items()}
        errors |= failed
    entries = [{"name": it.name, "options": it.options, "predicted_us": it.predicted_us} for it in chosen]
    return {"status": "ok", "candidates": entries, "about": about, "errors": errors, "ms": ms}


def brief(plan: dict[str, Any] | None) -> dict[str, Any] | None:
    """What tells Plans apart: form, groups, rings, P and stages of loops, paths of operands."""
    if plan is None:
        return None
    loops = [{key: it[key] for key in ("loop", "mma_depth", "stages") if key in it} for it in plan["loops"]]
    return {
        "form": plan["form"],
        "groups": plan["groups"],
        "ctas_per_sm": plan.get("ctas_per_sm"),
        "rings": {it["name"]: it["depth"] for it in plan["rings"]},
        "loops": loops,
        "paths": {it["argument"]: it.get("path") for it in plan["operands"] if it.get("argument")},
        "narrow": False,  # of older results: whether schedules carry 8-bit elements where wider ones are possible
    }


def rows_of(job: Job, answer: Answer) -> list[Row]:
    """The rows of one kernel on one problem."""
    case = {"kernel": job["kernel"], "case": job["case"], "size": len(job["candidates"])}
    if answer["status"] != "ok":
        return [Row(case, "all", error=f"{answer['status']}: {answer.get('message', '')}")]
    rows: list[Row] = []
    for entry in job["candidates"]:
        name = entry["name"]
        told = {
            **case,
            "options": entry["options"],
            "predicted_us": entry["predicted_us"],
            **answer["about"].get(name, {}),
        }
        if name in answer["ms"]:
            rows.append(Row.timed(told, name, Timing(*answer["ms"][name]), 0.0))
        else:
            rows.append(Row(told, name, error=answer["errors"].get(name, "not timed")))
    return rows


def measured_cases(rows: Iterable[Row]) -> set[str]:
    """The cases that were measured, or failed as a whole; not those that were only checked when the time was over."""
    return {
        row.case["case"]
        for row in rows
        if row.median_ms or (row.candidate == "all" and not str(row.error).startswith("skipped"))
    }


def measure(
    report: Report, only: Sequence[str], end: float, processes: int, worker: str = "bench.regret.worker"
) -> None:
    """Measures the kernels that have no rows yet, on this machine's GPU; results are written after each kernel.

    Kernels are taken in batches: their candidates are compiled and checked side by side, then each kernel is measured
    alone. end: `time.monotonic` after which no job is begun.
    """
    known = {case.name for _, case in problems()}
    done = measured_cases(report.rows) & known
    report.rows = [row for row in report.rows if "source" in row.case or row.case["case"] in done]
    left = [it for it in problems() if any(text in it[1].name for text in only) and it[1].name not in done]
    sound: list[Job] = []

    def check(job: Job, answer: Answer) -> None:
        if answer["status"] != "ok":
            report.add(*rows_of(job, answer))
            return
        failed = [entry for entry in answer["candidates"] if entry["name"] in answer["errors"]]
        report.add(*(Row({"kernel": job["kernel"], "case": job["case"], "options": entry["options"]}, entry["name"],
                         error=answer["errors"][entry["name"]]) for entry in failed))  # fmt: skip
        right = [entry for entry in answer["candidates"] if entry not in failed]
        sound.append({**job, "candidates": [*right, MEASURED], "timed": True})

    def take(job: Job, answer: Answer) -> None:
        report.add(*rows_of(job, answer))

    for first in range(0, len(left), max(1, processes)):
        batch = left[first : first + max(1, processes)]
        jobs = [{"kernel": kernel, "case": case.name, "candidates": [], "timed": False} for kernel, case in batch]
        run_jobs(worker, jobs, check, processes, LIMIT_S, end)
        if sound:
            run_jobs(worker, sound, take, 1, LIMIT_S, end)
        sound.clear()
