"""A worker that plays a package: what each entry does is in its name."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from bench.workers import say_alive, serve_jobs

APPLIED = {"kernel": "gemm", "applied": True, "reason": "one producer", "location": None, "launches": 1, "versions": 1}
DECLINED = {**APPLIED, "applied": False, "reason": "no tl.dot in the kernel", "location": "pack/gemm.py:7"}


def handle(job: dict[str, Any]) -> dict[str, Any]:
    """Answers as a real worker would, or dies as a real kernel would."""
    what, _, where = job["entry"].split()[0].partition("_in_")
    if job["task"] == "regret":
        return measure_candidates(what, job)
    early = what.startswith("early-")
    if job["task"] == "prepare" and what != "missing" and not (early and job["modes"] == [where]):
        return {"status": "done", "seconds": {job["modes"][0]: 1.0}}
    what = what.removeprefix("early-")
    Path(job["progress"]).write_text(where or "stock")
    if what == "missing":
        return {"status": "skipped", "message": "not installed: No module named 'pack'"}
    if what == "hangs":
        child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        if job["packages"]:  # of this test, a folder to leave word in
            Path(job["packages"], "child").write_text(str(child.pid))
        time.sleep(600)
    if what.startswith("compiles"):
        for _ in range(8):
            time.sleep(0.5)
            say_alive()
    if what == "dies":
        os._exit(7)
    if what == "screams":
        os.write(2, b"ptxas died\nSegmentation fault\n")
        os.abort()
    if job["task"] == "time":
        return time_it(what, job)
    kernels = [DECLINED] if what == "declined" else [APPLIED]
    found = {mode: {"worst": 0.5, "peak": 1.0, "equal_bits": True, "kernels": kernels} for mode in job["modes"]}
    found["stock"]["kernels"] = []
    if what == "wrong":
        found["tawa"] |= {"worst": 3.0, "equal_bits": False}
    if what == "raises":
        found["tawa"] = {"failed": "RuntimeError: CUDA error: an illegal instruction was encountered"}
    return {"status": "done", "modes": found}


def time_it(what: str, job: dict[str, Any]) -> dict[str, Any]:
    """Times, of the operation and of its kernel; the profiler kills the process of one entry."""
    answer: dict[str, Any] = {
        "status": "done",
        "errors": {},
        "timings": {"stock": [2.0, 1.9, 2.1], "tawa": [1.6, 1.5, 1.7]},
        "captured": what != "uncaptured",
        "apart": {"tawa": 2.5 if "apart" in what else 0.5},
        "off": {"stock": 2.3 if what == "apartstock" else 0.3, "tawa": 0.3 if what == "apartstock" else 2.3},
        "kernels": {"stock": [], "tawa": [APPLIED]},
    }
    if not job["kernels"]:
        return answer
    Path(job["progress"]).write_text("kernels " + json.dumps(answer))
    if what == "unprofiled":
        os._exit(7)
    us = {"stock": {"gemm": [20.0, 19.0, 21.0]}, "tawa": {"gemm": [10.0, 9.0, 11.0]}}
    return {**answer, "us": us, "note": ""}


def measure_candidates(what: str, job: dict[str, Any]) -> dict[str, Any]:
    """Candidates of two kernels; in the entry `kills`, one of them ends the process."""
    if what == "missing":
        return {"status": "skipped", "message": "not installed: No module named 'pack'"}
    if what == "dotless":
        return {"status": "done", "kernels": {}, "note": "no kernel with a dot"}
    name, kernels = "model 1: two groups", ("gemm", "scan")
    lost = {kernel: of[name] for kernel, of in job["lost"].items()}
    if what == "kills" and "scan" not in lost:
        alone = "model 1" in job["apart"]
        running = {"mode": "model 1 of scan", "candidates": {"scan": name}}
        together = {"mode": "model 1", "candidates": dict.fromkeys(kernels, name)}
        Path(job["progress"]).write_text("running " + json.dumps(running if alone else together))
        os._exit(7)
    us = [20.0, 19.0, 21.0] if job["timed"] else None
    it = {"name": name, "options": {"plan": {}}, "predicted_us": 18.0, "about": {"applied": True}, "us": us}
    found = {kernel: [{**it, "error": lost.get(kernel)}] for kernel in kernels}
    return {"status": "done", "kernels": found, "note": ""}


if __name__ == "__main__":
    serve_jobs(handle)
