"""Runs the corpus: every entry prepared and checked, in several processes at once, then timed, one after the other.

Compiling takes most of the time, so the compiles of one entry are spread over several processes: one job per mode and
part of the autotuners' lists (`prepare`). The check of an entry, and later its timing, find the kernels on disk. A
kernel that hangs or crashes leaves the CUDA context unusable, so a worker is replaced after any failure. While an entry
is timed, nothing else runs.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.corpus.entry import Entry, Package
from bench.corpus.modes import LEARNING
from bench.corpus.report.kernels import WHOLE
from bench.corpus.report.kernels import applied as applied_kernels
from bench.corpus.report.results import Result, judge, title
from bench.corpus.timed import KERNELS, with_times, without_kernels
from bench.workers import Answer, Job, run_jobs

OUT_OF_TIME = "out of time"  # the message of `run_jobs` for a job that was not begun
WORKER = "bench.corpus.worker"
CHECK_SHARE = 0.55  # share of a limited time; the rest is for timing
CONFIGS_A_JOB, MOST_JOBS = 2, 6  # configurations of each autotuner per job, and how many jobs share a longer list
TIMING_LIMIT_S = 60.0  # seconds of silence: nothing is left to compile
KEEP_EVERY = 12


@dataclass(frozen=True, slots=True)
class Options:
    """How to run.

    packages: a folder with packages that are not installed. configs: how many configurations of an autotuner are tried
    at most, 0: all; None: as each entry says. legal: whether kernels that automatic mode declines are checked too.
    time_legal: whether they are also timed. learned: stock Triton is timed beside what launches have learned, and
    nothing else. seconds: begin nothing after so many seconds; checks get `CHECK_SHARE` of
    them.
    """

    packages: str = ""
    processes: int = 8
    limit_s: float = 180.0
    configs: int | None = None
    seconds: float | None = None
    timing: bool = True
    legal: bool = True
    time_legal: bool = False
    learned: bool = False
    worker: str = WORKER

    def modes(self) -> list[str]:
        """The modes that are checked. What launches learn is compared with stock Triton's results when it is timed."""
        if self.learned:
            return ["stock"]
        return ["stock", "tawa", *(["legal"] if self.legal else [])]

    def folders(self) -> list[str]:
        """The folders that come first on the import path of the workers."""
        return [self.packages] if self.packages else []

    def deadline(self, share: float = 1.0) -> float | None:
        """The time (`time.monotonic`) at which a share of the seconds is over; None without a limit."""
        return None if self.seconds is None else time.monotonic() + share * self.seconds


Pair = tuple[Package, Entry]
Say = Callable[[str], None]
Keep = Callable[[Sequence[Result]], object]


def run(pairs: Sequence[Pair], options: Options, say: Say = print, keep: Keep = lambda results: None) -> list[Result]:
    """Checks all entries, then times them; returns the results that were reached, in the order of `pairs`.

    In both steps, the first shapes of all operations come before the second ones. keep: called now and then with all
    results so far, so that an interrupted run loses little.
    """
    began = time.monotonic()
    end = options.deadline()
    order = varied(pairs)
    spent = Spent(began, say)
    checked = check_all([pairs[at] for at in order], options, spent, keep)
    reached = [(at, it) for at, it in zip(order, checked, strict=True) if it.message != OUT_OF_TIME]
    found = [it for _, it in reached]
    if not found:
        return []
    spent.summarise("checked", len(found))
    keep(found)
    if options.timing:
        found = time_all([pairs[at] for at, _ in reached], found, options, spent, keep, end)
        spent.summarise("timed", sum(bool(it.times) for it in found))
        keep(found)
    return [it for _, it in sorted(zip((at for at, _ in reached), found, strict=True), key=lambda pair: pair[0])]


def varied(pairs: Sequence[Pair]) -> list[int]:
    """An order in which the first shapes of all operations come before the second ones."""
    seen: dict[tuple[str, str], int] = {}
    rank: list[int] = []
    for package, entry in pairs:
        operation = (package.name, entry.name)
        rank.append(seen.get(operation, 0))
        seen[operation] = rank[-1] + 1
    return sorted(range(len(pairs)), key=lambda at: rank[at])


@dataclass
class Spent:
    """Prints each result with the time since the run began, and at the end how the workers spent their time."""

    began: float
    out: Say
    phases: dict[str, float] = field(default_factory=dict[str, float])

    def note(self, answer: Mapping[str, Any], task: str) -> None:
        """Adds the time of a job; task: its kind."""
        for phase, seconds in answer.get("seconds", {}).items():
            name = f"{task}: {phase}"
            self.phases[name] = self.phases.get(name, 0.0) + seconds

    def say(self, result: Result, answer: Mapping[str, Any]) -> None:
        """Prints a line for a result."""
        took = sum(answer.get("seconds", {}).values())
        self.out(f"{time.monotonic() - self.began:6.1f} s  {line(result)}" + (f" ({took:.1f} s)" if took else ""))

    def summarise(self, what: str, count: int) -> None:
        """Prints a line at the end of a step."""
        shares = sorted(self.phases.items(), key=lambda it: -it[1])
        text = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in shares)
        self.out(f"{time.monotonic() - self.began:6.1f} s  {count} entries {what}; all processes together: {text}")
        self.phases.clear()


def check_all(pairs: Sequence[Pair], options: Options, spent: Spent, keep: Keep = lambda results: None) -> list[Result]:
    """Checks every entry in every mode against its reference, once its kernels are prepared."""
    results: dict[int, Result] = {}
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        jobs = [job for at, pair in enumerate(pairs) for job in _preparations(at, pair, options, folder)]
        left = [sum(job["number"] == at for job in jobs) for at in range(len(pairs))]

        def take(job: Job, answer: Answer) -> list[Job]:
            at, task = job["number"], job["task"]
            spent.note(answer, task)
            final = task == "check" or answer["status"] in ("hung", "crashed", "skipped")
            if final and at not in results:
                results[at] = judge(_about(*pairs[at]), answer, _reached(job))
                spent.say(results[at], answer)
                if len(results) % KEEP_EVERY == 0:
                    keep([results[it] for it in sorted(results) if results[it].message != OUT_OF_TIME])
            left[at] -= task == "prepare"
            if task == "check" or left[at] or at in results:
                return []
            return [_job(at, pairs[at], "check", options.modes(), options, folder)]

        share = CHECK_SHARE if options.timing else 1.0
        run_jobs(
            options.worker, jobs, take, options.processes, options.limit_s, options.deadline(share), options.folders()
        )
    return [results[at] for at in range(len(pairs))]


def _preparations(at: int, pair: Pair, options: Options, folder: str) -> list[Job]:
    """Jobs that compile what an entry needs."""
    configs = _configs(pair[1], options)
    parts = min(MOST_JOBS, math.ceil(configs / CONFIGS_A_JOB)) if configs else MOST_JOBS
    return [
        _job(at, pair, "prepare", [mode], options, folder, part, parts)
        for part in range(parts)
        for mode in [*options.modes(), *(LEARNING if options.learned else ())]
    ]


def time_all(
    pairs: Sequence[Pair],
    checked: Sequence[Result],
    options: Options,
    spent: Spent,
    keep: Keep = lambda results: None,
    end: float | None = None,
) -> list[Result]:
    """Times the entries that are right and have a specialised kernel; all others run the same code as stock.

    What launches learn is timed for all.
    """
    results = list(checked)
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        jobs = [
            _job(at, pairs[at], "time", _timed_modes(it, options), options, folder)
            for at, it in enumerate(checked)
            if it.status == "ok" and len(_timed_modes(it, options)) > 1
        ]
        count = 0

        def take(job: Job, answer: Answer) -> None:
            nonlocal count
            at, reached = job["number"], _reached(job)
            spent.note(answer, "time")
            if reached.startswith(KERNELS) and answer["status"] in ("hung", "crashed", "failed"):
                answer = without_kernels(reached, answer)
                for it in jobs:
                    it["kernels"] = False  # the next try would end in the same way
            results[at] = with_times(results[at], answer, reached)
            spent.say(results[at], answer)
            count += 1
            if count % KEEP_EVERY == 0:
                keep(results)

        if jobs:
            run_jobs(options.worker, jobs, take, 1, min(options.limit_s, TIMING_LIMIT_S), end, options.folders())
    return results


def _timed_modes(result: Result, options: Options) -> list[str]:
    """The modes that are timed: stock alone if Tawa changes nothing; ``legal`` only if it specialises more kernels.

    Stock comes first, because ``same`` uses the configurations that stock chose.
    """
    if options.learned:
        return ["stock", *LEARNING]
    ours, legal = (
        {it.kernel for it in result.kernels.get(mode, ()) if it.applied} or ({""} if result.tried.get(mode) else set())
        for mode in ("tawa", "legal")
    )
    more = options.time_legal and bool(legal - ours)
    return ["stock", *(["tawa"] if ours or more else []), *(["same"] if ours else []), *(["legal"] if more else [])]


def compile_all(pairs: Sequence[Pair], options: Options, say: Say) -> list[Result]:
    """Compiles every entry's kernels without a GPU; a kernel counts as specialised if one of its configurations is."""
    results: dict[int, Result] = {}
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:

        def take(job: Job, answer: Answer) -> None:
            at = job["number"]
            results[at] = compiled(_about(*pairs[at]), answer, _reached(job))
            say(line(results[at]))

        jobs = [_job(at, pair, "compile", ["tawa", "legal"], options, folder) for at, pair in enumerate(pairs)]
        run_jobs(options.worker, jobs, take, options.processes, options.limit_s, options.deadline(), options.folders())
    return [results[at] for at in range(len(pairs))]


def compiled(about: dict[str, Any], answer: Answer, reached: str) -> Result:
    """The result of a compile, which has kernels, but neither errors nor times. reached: as for `judge`."""
    if answer["status"] != "done":
        return judge(about, answer, reached)
    modes = {mode: {**found, "worst": 0.0, "peak": 0.0, "equal_bits": True} for mode, found in answer["modes"].items()}
    found = judge(about, {"status": "done", "modes": {"stock": _NOTHING, **modes}}, "")
    kernels = {mode: it for mode, it in found.kernels.items() if mode != "stock"}
    return replace(found, status="compiled", errors={}, equal_bits={}, kernels=kernels)


_NOTHING: dict[str, Any] = {"worst": 0.0, "peak": 0.0, "equal_bits": True, "kernels": []}


def line(result: Result) -> str:
    """A result in one line, printed during the run."""
    applied = {mode: {it.kernel for it in result.kernels.get(mode, ()) if it.applied} for mode in ("tawa", "legal")}
    total = len({it.kernel for it in result.kernels.get("tawa", ())})
    text = f"{result.status:8} {title(result)}"
    if total:
        text += f"; {len(applied['tawa'])} of {total} kernels specialised"
        text += f", {len(applied['legal'])} could be" if "legal" in result.kernels else ""
    speed = result.speedup()
    speed = speed or result.speedup("learned")
    later = result.speedup("later")
    ratios = [f"{it.kernel} {it.ratio:.2f}" for it in applied_kernels([result]) if it.kernel != WHOLE]
    text += f"; x {speed:.3f}" if speed else ""
    text += f", in a later process {later:.3f}" if later else ""
    return text + (f"; {', '.join(ratios)}" if ratios else "") + (f"; {result.message}" if result.message else "")


def _about(package: Package, entry: Entry) -> dict[str, Any]:
    return {"package": package.name, "name": entry.name, "shape": dict(entry.shape), "backward": entry.backward}


def _configs(entry: Entry, options: Options) -> int:
    """How many configurations of each autotuner are tried at most; 0: all."""
    return entry.configs if options.configs is None else options.configs


def _job(
    at: int, pair: Pair, task: str, modes: list[str], options: Options, folder: str, part: int = 0, parts: int = 1
) -> Job:
    package, entry = pair
    return {
        "number": at,
        "task": task,
        "package": package.name,
        "entry": entry.key,
        "packages": os.path.abspath(options.packages) if options.packages else "",
        "configs": _configs(entry, options),
        "part": part,
        "parts": parts,
        "modes": modes,
        "kernels": True,
        "progress": str(Path(folder) / f"{at}.{task}.{'-'.join(modes)}.{part}"),
    }


def _reached(job: Job) -> str:
    """The last mode that the worker reported."""
    path = Path(job["progress"])
    return path.read_text() if path.exists() else "start"
