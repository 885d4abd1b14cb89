"""Times short GEMMs and small tiles: ``python -m bench.pointers.small [--minutes 2]``.

The pointer GEMM of Triton's tutorial on squares of 256 to 4096, and on one wave of long programs, with tiles that let
several programs share an SM. The candidates are stock Triton, Tawa in automatic mode (short launches go to the stock
kernel), Tawa wherever it is legal, and Tawa with P = 0 and P = 1 asked for. `AMPLE_SLOTS` in
`tawa.plan.defaults` comes from here.

Tiles are compiled and checked in parallel, each in a process of its own (`bench.workers`), then timed one after the
other. Results: ``bench/results/small.json``.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from bench.harness import Report, Row, Timing, time_round_robin
from bench.workers import Answer, Job, run_jobs, serve_jobs

FP16 = (
    (64, 256, 32, 4, 4), (128, 256, 64, 8, 3), (128, 128, 32, 4, 4), (64, 128, 32, 4, 4), (128, 64, 32, 4, 4),
    (128, 128, 64, 4, 3), (64, 256, 64, 4, 3), (64, 128, 64, 4, 4),
)  # fmt: skip
FP8 = (
    (64, 256, 128, 4, 4), (128, 256, 128, 8, 3), (128, 128, 128, 4, 4), (64, 128, 64, 4, 4), (64, 256, 64, 4, 4),
    (128, 64, 64, 4, 4), (64, 256, 32, 4, 4), (128, 128, 64, 4, 4),
)  # fmt: skip
SIZES = ((256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (512, 512, 4096))
WAYS: dict[str, dict[str, Any]] = {
    "stock Triton": {"enable_warp_specialization": False},
    "Tawa": {},
    "Tawa, wherever legal": {"only_if_faster": False},
    "Tawa, P = 0": {"only_if_faster": False, "mma_depth": 0},
    "Tawa, P = 1": {"only_if_faster": False, "mma_depth": 1},
}
LIMIT_S = 120.0


def handle(job: Job) -> Answer:
    """Compiles one tile in every way and compares the bits with stock Triton's; times all sizes if the job asks."""
    import torch

    from tests.cases import launch

    plans: dict[str, str] = {}
    errors: dict[str, str] = {}
    case, tensors, calls = calls_of(job, SIZES[2])
    wanted: Any = None
    for way, call in calls.items():
        launch.poison(case, tensors)
        compiled = call()
        torch.cuda.synchronize()
        record = getattr(compiled.metadata, "tawa", None) or {"reason": "stock Triton"}
        plans[way] = record["reason"]
        result = tensors["c"].clone()
        if wanted is None:
            wanted = result
        elif not torch.equal(result, wanted):
            errors[way] = "other bits than stock Triton"
    rows: list[dict[str, Any]] = []
    for sizes in SIZES if job["timed"] else ():
        _, _, calls = calls_of(job, sizes)
        sound = {way: call for way, call in calls.items() if way not in errors}
        timings, failed = time_round_robin(sound, rounds=8, burst_ms=2.0, rest_s=0.004)
        ms = {way: [it.median_ms, it.p10_ms, it.p90_ms] for way, it in timings.items()}
        rows.append({"sizes": sizes, "ms": ms, "errors": errors | failed})
    return {"status": "ok", "plans": plans, "rows": rows, "errors": errors}


def calls_of(job: Job, sizes: tuple[int, int, int]) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The case of a tile and a problem, its tensors, and a callable for each way that launches it."""
    import tawa
    from tests.cases import launch
    from tests.cases.pointers import gemm
    from tests.cases.pointers.builders import gemm_case

    *tile, warps, stages = job["tile"]
    case = gemm_case("small", dtype=job["dtype"], b_t=job["b_t"], tile=tuple(tile), warps=warps, stages=stages,
                     sizes=dict(zip("MNK", sizes, strict=True)), GROUP_M=8)  # fmt: skip
    tensors = launch.make_tensors(case, seed=0)
    arguments, grid = launch.bind(case, tensors), case.launch_grid()
    kernel = _ours.setdefault("gemm", tawa.jit(gemm.gemm_tutorial))

    def call(options: dict[str, Any]) -> Any:
        return lambda: kernel[grid](**arguments, **case.options(), **options)

    return case, tensors, {way: call(options) for way, options in WAYS.items()}


_ours: dict[str, Any] = {}
"""The kernel under `tawa.jit`, which keeps what is compiled."""


def rows_of(job: Job, answer: Answer) -> list[Row]:
    """The rows of one tile."""
    about = {name: job[name] for name in ("dtype", "b_t", "tile")}
    if answer["status"] != "ok":
        return [Row(about, "Tawa", error=f"{answer['status']}: {answer.get('message', '')}")]
    rows: list[Row] = []
    for found in answer["rows"]:
        m, n, k = found["sizes"]
        case = {**about, "M": m, "N": n, "K": k}
        for way in WAYS:
            told = {**case, "plan": answer["plans"].get(way, "")}
            if way in found["ms"]:
                rows.append(Row.timed(told, way, Timing(*found["ms"][way]), 2.0 * m * n * k))
            else:
                rows.append(Row(told, way, error=found["errors"].get(way, "")))
    return rows


def print_rows(rows: list[Row]) -> None:
    """Prints stock Triton's time of each problem, and the speed of the other ways relative to it."""
    stock = 0.0
    for row in rows:
        case = row.case
        if not row.median_ms:
            print(f"  {case.get('tile')} {row.candidate}: {row.error}")
        elif row.candidate == "stock Triton":
            stock = row.median_ms
            name = f"{case['dtype']} {'x'.join(map(str, case['tile'][:3]))} w{case['tile'][3]}"
            print(f"\n{name:26} {case['M']:5} {case['N']:5} {case['K']:5} {stock * 1e3:8.2f} us", end="")
        else:
            print(f"  {row.candidate.removeprefix('Tawa').lstrip(', ') or 'Tawa'} {stock / row.median_ms:.3f}", end="")
    print(flush=True)


def main() -> int:
    """Checks all tiles in parallel, then times them one by one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0, help="begin no tile after so many minutes")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        serve_jobs(handle)
        return 0
    end = time.monotonic() + arguments.minutes * 60
    report = Report("small")
    tiles = [("fp16", False, tile) for tile in FP16] + [("fp8e4nv", True, tile) for tile in FP8]
    jobs = [{"dtype": dtype, "b_t": b_t, "tile": tile, "timed": False} for dtype, b_t, tile in tiles]
    sound: list[Job] = []

    def check(job: Job, answer: Answer) -> None:
        if answer["status"] == "ok" and not answer["errors"]:
            sound.append({**job, "timed": True})
        else:
            print(f"  {job['tile']}: {answer['status']} {answer.get('message', '')} {answer.get('errors', '')}")
            report.add(*rows_of(job, answer))

    def take(job: Job, answer: Answer) -> None:
        rows = rows_of(job, answer)
        report.add(*rows)
        print_rows(rows)

    run_jobs("bench.pointers.small", jobs, check, arguments.processes, LIMIT_S, end)
    run_jobs("bench.pointers.small", sound, take, 1, LIMIT_S, end)
    report.note_clocks()
    print(f"{report.save()}", flush=True)
    return 0 if len(sound) == len(jobs) else 1


if __name__ == "__main__":
    raise SystemExit(main())
