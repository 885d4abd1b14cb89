"""A worker that plays processes: what a workload does is decided by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.workers import serve_jobs

STOCK_KERNEL, OUR_KERNEL = ["gemm", [1], [256], 90, 0], ["gemm", [1], [384], 168, 0]
HOST = {"mean": 20.0, "median": 19.0, "p99": 30.0, "worst": 40.0}


def handle(job: dict[str, Any]) -> dict[str, Any]:
    """Answers as a process would. It leaves a file in its caches; a second process fails without it."""
    folder = Path(job["caches"])
    left = folder / "left"
    if job["again"] and not left.exists():
        return {"status": "failed", "message": "nothing was left"}
    if not job["again"] and left.exists():
        return {"status": "failed", "message": "the caches are not fresh"}
    folder.mkdir(parents=True, exist_ok=True)
    left.touch()
    if job["until"] == "ready":
        left.unlink()
        return {"status": "ok"}
    if job["workload"] == "softmax":
        return {"status": "crashed", "message": "the process ended with status -11"}
    ours = job["start"] is not None
    answer: dict[str, Any] = {"status": "ok", "first_s": 0.1 if job["again"] else 1.05 if ours else 1.0}
    if ours:
        answer["import_s"] = 0.3
    if job["until"] == "second":
        return {**answer, "kernels": [OUR_KERNEL]}
    if job["until"] == "steady":
        answer |= {"host": {**HOST, "mean": 22.0} if ours else HOST, "gpu_ms": 0.5 if ours else 0.6}
        answer["kernels"] = [OUR_KERNEL if ours else STOCK_KERNEL]
    if job["until"] == "steady" and ours:
        answer |= {"ready": True, "ready_s": 2.0, "meanwhile_calls": 900, "meanwhile": {**HOST, "mean": 30.0}}
        answer |= {
            "learning_calls": 40,
            "learning_s": 0.1,
            "learned": "gemm: persistent",
            "summed_calls": 1000,
            "summed_ms": 510.0,
        }
    return answer


if __name__ == "__main__":
    serve_jobs(handle)
