"""Times both forms of kernels that have one tile per program: ``python -m bench.persistent [--minutes 3]``.

The persistent form keeps more tiles in shared memory than the form as written, so its rings may have fewer slots. For
attention and GEMM kernels this compares stock Triton, the form as written (``persistent=False``) and the persistent
form (``persistent=True``), with the D of the rings of both. `MOST_SLOTS` in `tawa.plan.defaults` comes from here.

Kernels are compiled and checked in parallel, each in a process of its own (`bench.workers`), then timed one after the
other. Results: ``bench/results/persistent.json``; the `rings` of a row are the slots of each ring.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from bench.harness import Report, Row, Timing, time_round_robin
from bench.workers import Answer, Job, run_jobs, serve_jobs

STOCK, WRITTEN, PERSISTENT = "stock Triton", "Tawa, as written", "Tawa, persistent"
WAYS: dict[str, dict[str, Any]] = {
    STOCK: {"enable_warp_specialization": False},
    WRITTEN: {"only_if_faster": False, "persistent": False},
    PERSISTENT: {"only_if_faster": False, "persistent": True},
}
ATTENTION = (
    ("bf16", 256, (128, 64, 8)), ("fp16", 256, (128, 64, 8)), ("bf16", 256, (128, 32, 8)),
    ("bf16", 128, (128, 128, 8)), ("fp16", 128, (128, 128, 8)), ("bf16", 128, (128, 64, 8)),
    ("bf16", 64, (128, 128, 8)), ("fp8", 128, (128, 128, 8)), ("fp8", 256, (128, 64, 8)),
)  # fmt: skip
"""Element type, d, and the tile with its warps. Full attention: the programs of a causal one differ in work."""
GEMM = (
    ("fp16", (128, 256, 64, 8, 3)), ("fp16", (128, 256, 128, 8, 2)), ("fp16", (128, 128, 128, 8, 3)),
    ("fp16", (256, 128, 64, 8, 3)), ("fp8e4nv", (128, 256, 128, 8, 3)), ("fp8e4nv", (128, 256, 256, 8, 2)),
)  # fmt: skip
"""Triton's tutorial GEMM: element type, tile, warps and stages; B is K-major in fp8."""
LENGTHS = (16384, 4096, 1024)
KS = (512, 2048, 8192)
CHECKED = 1024
LIMIT_S = 120.0


def handle(job: Job) -> Answer:
    """Compiles one kernel in every form and compares the bits with the form as written; times it if the job asks."""
    import torch

    from tests.cases import launch

    rings: dict[str, list[int]] = {}
    errors: dict[str, str] = {}
    sizes = LENGTHS if job["kernel"] == "attention" else KS
    case, tensors, calls = calls_of(job, CHECKED)
    results: dict[str, Any] = {}
    for way, call in calls.items():
        launch.poison(case, tensors)
        try:
            compiled = call()
            torch.cuda.synchronize()
        except Exception as error:
            errors[way] = f"{type(error).__name__}: {error}"[:300]
            continue
        record = getattr(compiled.metadata, "tawa", None) or {"applied": False, "plan": None, "reason": ""}
        if record["plan"]:
            rings[way] = [ring["depth"] for ring in record["plan"]["rings"]]
        elif way != STOCK:
            errors[way] = f"not specialised: {record['reason']}"
        results[way] = tensors["o" if job["kernel"] == "attention" else "c"].clone()
        if results[way].isnan().any():
            errors[way] = "not all of the result was written"
    if WRITTEN in results and PERSISTENT in results and not torch.equal(results[WRITTEN], results[PERSISTENT]):
        errors[PERSISTENT] = errors.get(PERSISTENT, "other bits than the form as written")
    rows: list[dict[str, Any]] = []
    for size in sizes if job["timed"] else ():
        case, tensors, calls = calls_of(job, size)
        sound = {way: call for way, call in calls.items() if way not in errors}
        timings, failed = time_round_robin(sound, rounds=8, burst_ms=3.0, rest_s=0.008)
        ms = {way: [it.median_ms, it.p10_ms, it.p90_ms] for way, it in timings.items()}
        rows.append({"size": size, "ms": ms, "errors": errors | failed})
    return {"status": "ok", "rings": rings, "rows": rows, "errors": errors}


def calls_case(job: Job, size: int) -> Any:
    """The case of a kernel and a problem (S, or K)."""
    from tests.cases.attention.cases import bench_case
    from tests.cases.pointers.builders import gemm_case

    if job["kernel"] == "attention":
        dtype = "fp8e4nv" if job["dtype"] == "fp8" else job["dtype"]
        return bench_case("two_loops", dtype, job["d"], False, size, tile=tuple(job["tile"]))
    *tile, warps, stages = job["tile"]
    return gemm_case("persistent", dtype=job["dtype"], b_t=job["dtype"] != "fp16", tile=tuple(tile), warps=warps,
                     stages=stages, sizes={"M": 8192, "N": 8192, "K": size}, GROUP_M=8)  # fmt: skip


def calls_of(job: Job, size: int) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The case of a kernel and a problem (S, or K), its tensors, and a callable for each form that launches it."""
    import tawa
    from tests.cases import launch

    case = calls_case(job, size)
    tensors = launch.make_tensors(case, seed=0)
    arguments, grid = launch.bind(case, tensors), case.launch_grid()
    kernel = _ours.setdefault(str(job), tawa.jit(case.kernel))

    def call(options: dict[str, Any]) -> Any:
        return lambda: kernel[grid](**arguments, **case.options(), **options)

    return case, tensors, {way: call(options) for way, options in WAYS.items()}


_ours: dict[str, Any] = {}
"""The kernels under `tawa.jit`, which keep what is compiled."""


def rows_of(job: Job, answer: Answer) -> list[Row]:
    """The rows of one kernel."""
    about = {name: job[name] for name in ("kernel", "dtype", "d", "tile") if name in job}
    if answer["status"] != "ok":
        return [Row(about, PERSISTENT, error=f"{answer['status']}: {answer.get('message', '')}")]
    rows: list[Row] = []
    for found in answer["rows"]:
        size = found["size"]
        attention = job["kernel"] == "attention"
        case = {**about, "S" if attention else "K": size}
        flop = 4.0 * 16384 * 2048 * size if attention else 2.0 * 8192 * 8192 * size
        for way in WAYS:
            told = {**case, "rings": answer["rings"].get(way, [])}
            if way in found["ms"]:
                rows.append(Row.timed(told, way, Timing(*found["ms"][way]), flop))
            else:
                rows.append(Row(told, way, error=found["errors"].get(way, "")))
    return rows


def print_rows(rows: list[Row]) -> None:
    """For each problem the rates, the slots of the rings, and the ratio of the persistent form to the other."""
    for stock, written, persistent in zip(*[iter(rows)] * 3, strict=True):
        case = stock.case
        name = f"{case['kernel']} {case['dtype']} {case.get('d', '')} {'x'.join(map(str, case['tile']))}"
        rates = "  ".join(f"{row.candidate} {row.tflops} {row.case['rings']}" for row in (stock, written, persistent))
        ratio = written.median_ms / persistent.median_ms if written.median_ms and persistent.median_ms else 0.0
        print(f"{name:36} {case.get('S', case.get('K')):6}  {rates}  persistent over written {ratio:.3f}")
    sys.stdout.flush()


def main() -> int:
    """Checks all kernels in parallel, then times them one by one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0, help="begin no kernel after so many minutes")
    parser.add_argument("--processes", type=int, default=15)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        serve_jobs(handle)
        return 0
    end = time.monotonic() + arguments.minutes * 60
    report = Report("persistent")
    jobs: list[Job] = [
        *({"kernel": "attention", "dtype": dtype, "d": d, "tile": tile} for dtype, d, tile in ATTENTION),
        *({"kernel": "gemm", "dtype": dtype, "tile": tile} for dtype, tile in GEMM),
    ]
    sound: list[Job] = []

    def check(job: Job, answer: Answer) -> None:
        if answer["status"] == "ok":
            sound.append({**job, "timed": True})
        if answer["status"] != "ok" or answer["errors"]:
            print(f"  {job}: {answer['status']} {answer.get('message', '')} {answer.get('errors', '')}", flush=True)

    def take(job: Job, answer: Answer) -> None:
        rows = rows_of(job, answer)
        report.add(*rows)
        if answer["status"] == "ok":
            print_rows(rows)

    checks = [{**job, "timed": False} for job in jobs]
    run_jobs("bench.persistent", checks, check, arguments.processes, LIMIT_S, end)
    run_jobs("bench.persistent", sound, take, 1, LIMIT_S, end)
    report.note_clocks()
    print(f"{report.save()}", flush=True)
    return 0 if len(sound) == len(jobs) else 1


if __name__ == "__main__":
    raise SystemExit(main())
