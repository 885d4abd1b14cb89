"""Runs the corpus: every entry checked in several processes at once, then timed, one after the other.

Each check has a process of its own, since a kernel that hangs or crashes takes its CUDA context with it. Timings share
one process (imports take longer than they do) until one of them fails; nothing else runs beside them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corpus.entry import Entry, Package
from corpus.results import Result, judge, title

sys.path.append(str(Path(__file__).resolve().parent.parent / "bench"))

from workers import Answer, Job, run_jobs

OUT_OF_TIME = "out of time"  # as `run_jobs` answers for a job that it does not begin
WORKER = Path(__file__).resolve().with_name("worker.py")


@dataclass(frozen=True, slots=True)
class Options:
    """How to run. packages: a folder with packages that are not installed; configs: most of each autotuner, 0: all."""

    packages: str = ""
    processes: int = 8
    limit_s: float = 180.0
    configs: int = 4
    deadline: float | None = None
    timing: bool = True
    time_legal: bool = False
    worker: Path = WORKER


Pair = tuple[Package, Entry]


def run(
    pairs: Sequence[Pair],
    options: Options,
    say: Callable[[str], None] = print,
    keep: Callable[[Sequence[Result]], object] = lambda results: None,
) -> list[Result]:
    """Checks some, then times them, then the next; returns what was reached, in the order of `pairs`.

    keep: called with all results so far after each of these steps, so that a run cut short loses little.
    """
    results: list[Result] = []
    step = 2 * options.processes
    for start in range(0, len(pairs), step):
        part = pairs[start : start + step]
        reached = check_all(part, options, say)
        part = [pair for pair, it in zip(part, reached, strict=True) if it.message != OUT_OF_TIME]
        found = [it for it in reached if it.message != OUT_OF_TIME]
        keep([*results, *found])
        results += time_all(part, found, options, say) if options.timing else found
        keep(results)
    return results


def check_all(pairs: Sequence[Pair], options: Options, say: Callable[[str], None]) -> list[Result]:
    """Every entry in every mode, against its reference."""
    results: dict[int, Result] = {}
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:

        def take(job: Job, answer: Answer) -> None:
            at = job["number"]
            results[at] = judge(_about(*pairs[at]), answer, _reached(job))
            say(line(results[at]))

        modes = ["stock", "tawa", "legal"]
        jobs = [_job(at, pair, "check", modes, options, folder) for at, pair in enumerate(pairs)]
        run_jobs(options.worker, jobs, take, options.processes, options.limit_s, options.deadline)
    return [results[at] for at in range(len(pairs))]


def time_all(
    pairs: Sequence[Pair], checked: Sequence[Result], options: Options, say: Callable[[str], None]
) -> list[Result]:
    """Times the entries that are right and of which Tawa changes a kernel: all others run stock's very code."""
    results = list(checked)
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:

        def take(job: Job, answer: Answer) -> None:
            at = job["number"]
            results[at] = with_times(results[at], answer, _reached(job))
            say(line(results[at]))

        jobs = [
            _job(at, pairs[at], "time", ["stock", "tawa", *(["legal"] if options.time_legal and it.legal else [])],
                 options, folder)
            for at, it in enumerate(checked)
            if it.status == "ok" and (it.applied or (options.time_legal and it.legal))
        ]  # fmt: skip
        if jobs:
            run_jobs(options.worker, jobs, take, 1, options.limit_s, options.deadline)
    return results


def with_times(result: Result, answer: Answer, reached: str) -> Result:
    """A checked result with what its timing gave."""
    status = answer["status"]
    if status in ("hung", "crashed", "failed"):
        text = f"while timed, in {reached}: {answer['message']}"
        fault = "hung" if status == "hung" else "crashed"
        return replace(result, status="ok" if reached in ("stock", "import") else fault, message=text)
    if status != "done":
        return replace(result, message=f"not timed: {answer.get('message', status)}")
    errors = [f"{mode} not timed: {text}" for mode, text in answer["errors"].items()]
    notes = errors or [result.message] * bool(result.message)
    if not answer["captured"]:
        notes.append("timed without CUDA graphs: launches from Python count")
    times = {mode: (it[0], it[1], it[2]) for mode, it in answer["timings"].items()}
    return replace(result, times=times, message="; ".join(notes))


def compile_all(pairs: Sequence[Pair], options: Options, say: Callable[[str], None]) -> list[Result]:
    """Compiles every entry's kernels, without a GPU; one counts as specialised where some configuration of it is."""
    results: dict[int, Result] = {}
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:

        def take(job: Job, answer: Answer) -> None:
            at = job["number"]
            results[at] = compiled(_about(*pairs[at]), answer, _reached(job))
            say(line(results[at]))

        jobs = [_job(at, pair, "compile", ["tawa", "legal"], options, folder) for at, pair in enumerate(pairs)]
        run_jobs(options.worker, jobs, take, options.processes, options.limit_s, options.deadline)
    return [results[at] for at in range(len(pairs))]


def compiled(about: dict[str, Any], answer: Answer, reached: str) -> Result:
    """The result of compiling: there are kernels, and neither errors nor times. reached: as for `judge`."""
    if answer["status"] != "done":
        return judge(about, answer, reached)
    modes = {mode: {**found, "worst": 0.0, "peak": 0.0, "equal_bits": True} for mode, found in answer["modes"].items()}
    found = judge(about, {"status": "done", "modes": {"stock": _NOTHING, **modes}}, "")
    kernels = {mode: it for mode, it in found.kernels.items() if mode != "stock"}
    return replace(found, status="compiled", errors={}, equal_bits={}, kernels=kernels)


_NOTHING: dict[str, Any] = {"worst": 0.0, "peak": 0.0, "equal_bits": True, "kernels": []}


def line(result: Result) -> str:
    """A result in one line, for a run to watch."""
    applied = {mode: {it.kernel for it in result.kernels.get(mode, ()) if it.applied} for mode in ("tawa", "legal")}
    total = len({it.kernel for it in result.kernels.get("tawa", ())})
    text = f"{result.status:8} {title(result)}"
    if total:
        text += f"; {len(applied['tawa'])} of {total} kernels specialised, {len(applied['legal'])} could be"
    speed = result.speedup()
    return text + (f"; x {speed:.3f}" if speed else "") + (f"; {result.message}" if result.message else "")


def _about(package: Package, entry: Entry) -> dict[str, Any]:
    return {"package": package.name, "name": entry.name, "shape": dict(entry.shape), "backward": entry.backward}


def _job(at: int, pair: Pair, task: str, modes: list[str], options: Options, folder: str) -> Job:
    package, entry = pair
    return {
        "number": at,
        "task": task,
        "package": package.name,
        "entry": entry.key,
        "packages": os.path.abspath(options.packages) if options.packages else "",
        "configs": options.configs,
        "modes": modes,
        "progress": str(Path(folder) / f"{at}.{task}"),
    }


def _reached(job: Job) -> str:
    """The mode in which the worker was last heard of."""
    path = Path(job["progress"])
    return path.read_text() if path.exists() else "start"


def deadline_in(seconds: float | None) -> float | None:
    """A moment for `Options.deadline`."""
    return None if seconds is None else time.monotonic() + seconds
