"""What launches that learn cost and bring: ``python -m bench.first_launch [--only TEXT …]``. Needs a Hopper GPU.

Each workload (`bench.first_launch.workloads`) runs in processes of its own: under stock Triton and under
``tawa.install(start="stock")``, with empty caches and then again with what the first process left. One process runs at
a time, because first launches depend on the processors; the modes alternate in being the first. A process has a CUDA
context and has launched a small kernel before its clock starts. `--repeat` adds first launches with empty caches,
round by round, while there is time.

A row is a workload, a mode and a process (``first``: empty caches, ``second``: with the caches of the first).
`median_ms` is the time of the first launch until the GPU is done. The case of a row has, for Tawa:

    over_stock            first launch over stock Triton's
    import_ms             `import tawa` and `tawa.install`, before it
    ready_s               from then until nothing is compiled any more
    meanwhile_calls       steps meanwhile; meanwhile_host_us: how long these, and the first that load what was compiled,
                          kept the host
    meanwhile_over_stock  their mean over that of stock Triton's steps
    learning_calls        steps until the kernels have learned (`tawa.warmup`); learning_s: how long they took
    learned               what they have learned, by kernel and shape class
    summed_over_best      GPU time of a thousand steps after that, those of learning and the loading of forms included,
                          over as many of the best form
    host_over_stock       host time of a step after learning
    gain                  GPU time of a step of stock Triton over that after learning
    is_stock              whether the kernels after learning are stock Triton's
    begins_learned        whether the second step of the second process runs the kernels of the learned steps

What has rows in the file stays unless it is measured again, so `--only` measures the table in parts, and `--missing`
takes up what was cut short. Results:
``bench/results/first_launch.json``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.first_launch.rows import OURS, STOCK, Key, lines_of, rows_of
from bench.first_launch.workloads import workloads
from bench.harness import RESULTS, Report, Row
from bench.workers import Answer, Job, run_jobs

WORKER = "bench.first_launch.worker"
LIMIT_S = 180.0
STARTS = {STOCK: None, OURS: "stock", f"{OURS}, ready": "ready"}
"""By candidate, the `start` of `tawa.install`; None: without Tawa."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints; returns 1 if a process failed, 2 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="workloads whose name contains one")
    parser.add_argument("--seconds", type=float, default=500.0, help="begin no process after this time")
    parser.add_argument("--repeat", type=int, default=3, help="first launches with empty caches, of each mode")
    parser.add_argument("--ready", action="store_true", help='also tawa.install(start="ready")')
    parser.add_argument(
        "--packages", metavar="FOLDER", help="also operations of the corpus, from here or installed ('')"
    )
    parser.add_argument("--missing", action="store_true", help="only workloads that the file lacks, or has in part")
    parser.add_argument("--no-fork", action="store_true", help="a new interpreter for each process: slower")
    parser.add_argument("--out", type=Path, default=RESULTS / "first_launch.json", metavar="FILE", help="the results")
    parser.add_argument("--list", action="store_true", help="name the workloads")
    given = parser.parse_args(arguments)
    names = [name for name in workloads(given.packages is not None)
             if not given.only or any(text in name for text in given.only)]  # fmt: skip
    if given.list:
        print(*names, sep="\n")
        return 0
    report = Report(given.out.stem, folder=given.out.parent)
    if report.about["device"] == "none":
        print("there is no GPU here: nothing can be launched", file=sys.stderr)
        return 2
    earlier = report.earlier_rows()
    if given.missing:
        done = {row.case["workload"] for row in earlier if row.candidate == OURS and row.case["process"] == "second"}
        names = [name for name in names if name not in done]
    answers = run(report, earlier, names, given)
    rows = [row for row in report.rows if row.case["workload"] in names]
    print(*lines_of(rows), sep="\n")
    print(report.save())
    return 1 if any(row.error for row in rows) or not answers else 0


def run(report: Report, earlier: Sequence[Row], names: Sequence[str], given: argparse.Namespace) -> dict[Key, Any]:
    """Runs all processes; the file is written after each. Returns the answers."""
    answers: dict[Key, list[Answer]] = {}
    report.rows = list(earlier)
    began = time.monotonic()

    def take(job: Job, answer: Answer) -> None:
        if job["scratch"]:
            shutil.rmtree(job["caches"], ignore_errors=True)
        if not job["workload"] or answer["status"] == "skipped":
            if answer["status"] not in ("ok", "skipped"):
                print(f"the caches that processes begin with: {answer.get('message', '')}", flush=True)
            return
        key = job["workload"], job["candidate"], "second" if job["again"] else "first"
        answers.setdefault(key, []).append(answer)
        measured = rows_of(answers)
        again = {row.case["workload"] for row in measured}
        report.rows = [*(row for row in earlier if row.case["workload"] not in again), *measured]
        report.save()
        told = f"{answer['first_s'] * 1e3:9.1f} ms" if "first_s" in answer else answer.get("message", answer["status"])
        print(f"{time.monotonic() - began:6.1f} s  {' | '.join(key)}: {told}", flush=True)

    with tempfile.TemporaryDirectory(prefix="tawa-first-launch-") as folder:
        todo = list(jobs(names, folder, given))
        run_jobs(WORKER, todo, take, 1, LIMIT_S, began + given.seconds, [given.packages] if given.packages else [])
    report.note_clocks()
    return answers


def jobs(names: Sequence[str], folder: str, given: argparse.Namespace) -> Iterator[Job]:
    """All processes in order: caches to begin with, everything once, then further first launches."""
    root, known = Path(folder), workloads(given.packages is not None)
    candidates = [name for name in STARTS if given.ready or name in (STOCK, OURS)]
    template = str(root / "template")

    def job(name: str, candidate: str, caches: Path, until: str, again: bool = False, **more: Any) -> Job:
        """until: what is measured last (`bench.first_launch.process`). again: with the caches of an earlier process."""
        return {
            "workload": name, "compiled": name in known and known[name].compiled, "corpus": given.packages is not None,
            "candidate": candidate, "start": STARTS[candidate], "caches": str(caches), "until": until, "again": again,
            "template": "" if again else template, "fork": not given.no_fork, "scratch": False, **more,
        }  # fmt: skip

    if names:
        compiled = any(known[name].compiled for name in names)
        yield job("", STOCK, root / "template", "ready", template="", compiled=compiled)
    for number, name in enumerate(names):
        places = {it: root / f"{number}.{candidates.index(it)}" for it in _rotated(candidates, number)}
        yield from (job(name, it, place, "steady") for it, place in places.items())
        yield from (job(name, it, place, "first" if it == STOCK else "second", True) for it, place in places.items())
    for count in range(1, given.repeat):
        for number, name in enumerate(names):
            for it in _rotated(candidates, number + count):
                place = root / f"{number}.{candidates.index(it)}.{count}"
                yield job(name, it, place, "first", scratch=True)


def _rotated(items: Sequence[str], number: int) -> list[str]:
    start = number % len(items)
    return [*items[start:], *items[:start]]
