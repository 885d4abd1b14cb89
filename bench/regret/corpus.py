"""The kernels of other packages in the regret bench: entries of the corpus, by workers that a candidate may end.

Entries are taken in batches. Those of a batch are first compiled and checked side by side; then each is measured alone,
with its kernels found on disk. The second job chooses, ranks and checks for itself: its configurations are those that
stock Triton's autotuners choose while nothing else runs.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from bench.corpus.entry import Entry, Package
from bench.corpus.regret import RUNNING
from bench.harness import Report, Row, Timing
from bench.workers import Answer, Job, is_fatal, run_jobs

WORKER = "bench.corpus.worker"
LIMIT_S = 180.0
MOST_DEATHS = 8  # processes that one entry may cost in one step
Pair = tuple[Package, Entry]


def case_name(pair: Pair) -> str:
    """An entry as the rows have it: ``package: operation M=64``."""
    package, entry = pair
    return f"{package.name}: {entry.key}"


def measure_corpus(
    report: Report,
    pairs: Sequence[Pair],
    packages: str,
    end: float,
    processes: int,
    worker: str = WORKER,
    say: Callable[[str], object] = print,
    rows: Callable[[str, Answer], list[Row]] | None = None,
) -> None:
    """Measures entries; their rows are written after each.

    packages: a folder with packages that are not installed. end: `time.monotonic` after which no job is begun; entries
    that are not reached have no rows. rows: makes them of an answer that is not timed: entries are only checked.
    """
    timed = rows is None
    folders = [os.path.abspath(packages)] if packages else []
    with tempfile.TemporaryDirectory(prefix="regret-") as folder:

        def run(jobs: Sequence[Job], side_by_side: int, take: Callable[[Job, Answer], object]) -> None:
            def again_or_take(job: Job, answer: Answer) -> list[Job]:
                more = without_the_last(job, answer)
                if more is None:
                    take(job, answer)
                return [] if more is None else [more]

            if jobs:
                run_jobs(worker, jobs, again_or_take, side_by_side, LIMIT_S, end, folders)

        def measured(job: Job, answer: Answer) -> None:
            found = (rows or rows_of)(job["case"], answer)
            report.add(*found)
            faults = sum(row.error is not None for row in found)
            say(f"{job['case']}: {len(found)} candidates, {faults} not measured; {answer.get('note', '')}".rstrip("; "))

        for first in range(0, len(pairs), max(1, processes)):
            batch = [_job(pair, packages, folder) for pair in pairs[first : first + max(1, processes)]]
            sound: list[Job] = []

            def compiled(job: Job, answer: Answer, sound: list[Job] = sound) -> None:
                if timed and answer["status"] == "done" and answer["kernels"]:
                    sound.append({**job, "timed": True, "deaths": 0})
                else:
                    measured(job, answer)

            run(batch, processes, compiled)
            run(sound, 1, measured)


def _job(pair: Pair, packages: str, folder: str) -> Job:
    package, entry = pair
    return {
        "task": "regret",
        "case": case_name(pair),
        "package": package.name,
        "entry": entry.key,
        "packages": os.path.abspath(packages) if packages else "",
        "configs": entry.configs,
        "part": 0,
        "parts": 1,
        "modes": [],
        "kernels": True,
        "timed": False,
        "lost": {},
        "apart": [],
        "deaths": 0,
        "progress": str(Path(folder) / f"{package.name}.{entry.key}".replace("/", "_")),
    }


def without_the_last(job: Job, answer: Answer) -> Job | None:
    """The job without the candidates that ended its process; None if none did, or after too many.

    Candidates of several kernels are first run one by one, to find the one that is to blame.
    """
    ended = answer["status"] in ("hung", "crashed") or is_fatal(str(answer.get("message", "")))
    path = Path(job["progress"])
    reached = path.read_text() if path.exists() else ""
    if not ended or not reached.startswith(RUNNING) or job["deaths"] >= MOST_DEATHS:
        return None
    running = json.loads(reached[len(RUNNING) :])
    mode, candidates = running["mode"], running["candidates"]
    if mode == "stock":
        return None
    more = {**job, "deaths": job["deaths"] + 1}
    if len(candidates) > 1 and mode != "automatic" and mode not in job["apart"]:
        return {**more, "apart": [*job["apart"], mode]}
    text = f"{answer['status']}: {answer.get('message', '')}"
    lost: dict[str, dict[str, str]] = {kernel: dict(of) for kernel, of in job["lost"].items()}
    for kernel, name in candidates.items():
        lost.setdefault(kernel, {})[name] = text
    return {**more, "lost": lost}


def rows_of(case: str, answer: Answer) -> list[Row]:
    """The rows of one entry; none if it was not reached, or its package is not there."""
    if answer["status"] == "skipped":
        return []
    about = {"source": "corpus", "case": case}
    if answer["status"] != "done" or not answer["kernels"]:
        text = answer["note"] if answer["status"] == "done" else f"{answer['status']}: {answer.get('message', '')}"
        return [Row({**about, "kernel": "", "size": 0}, "all", error=text)]
    rows: list[Row] = []
    for kernel, candidates in answer["kernels"].items():
        for it in candidates:
            told: dict[str, Any] = {**about, "kernel": kernel, "size": len(candidates), "options": it["options"],
                                    "predicted_us": it["predicted_us"], **it["about"]}  # fmt: skip
            if it["us"] and not it["error"]:
                timing = Timing(*(round(us / 1e3, 6) for us in it["us"]))
                rows.append(Row.timed(told, it["name"], timing, 0.0))
            else:
                rows.append(Row(told, it["name"], error=it["error"] or answer["note"] or "not timed"))
    return rows


def entries_left(pairs: Sequence[Pair], done: Collection[str]) -> list[Pair]:
    """The entries without rows."""
    return [pair for pair in pairs if case_name(pair) not in done]
