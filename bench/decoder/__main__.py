"""Times whole models, training, reading a prompt and decoding: ``python -m bench.decoder [--only TEXT …]``.

Models: a decoder of Llama's shape (`bench.decoder.llama`), and models with linear attention or a state space
(`bench.decoder.linear`), all 2048 wide with 32000 words, bf16, random weights. A training step is forward, backward and
AdamW; a prompt is read without gradients; a decoding step is one token for each sequence, in a CUDA graph. All ways of
a model have the same weights. The loss of the first step, or its logits, may differ from stock's by rounding only; the
largest relative difference is the `error` of a row. tflops: of dots, with three passes in training; for Llama with
attention, causal counted half, for the others of their linear layers alone. `dots_ms`: of the step, in the package's
kernels with a dot, which Tawa can change.
Results: ``bench/results/decoder.json``; rows of what is not run stay.

Packages of models with linear attention: ``python -m bench.corpus fetch FOLDER --only flash-linear mamba-ssm``.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict

from bench.compiled import use_caches
from bench.decoder.family import Shape
from bench.decoder.linear import LINEAR, PARTS
from bench.decoder.worker import FAMILIES
from bench.harness import Report, Row
from bench.workers import Answer, Job, run_jobs

STALL_S = 200.0
WORKER = "bench.decoder.worker"


def main(given: Sequence[str] | None = None) -> int:
    """Times the shapes asked for; returns 1 if a way of this project failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=[""], nargs="+", metavar="TEXT", help="as in 'GLA, training' or Llama")
    parser.add_argument("--ways", default=[""], nargs="+", metavar="TEXT", help="beside stock Triton, as in operators")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--packages", default="", metavar="FOLDER", help="packages that are not installed")
    parser.add_argument("--processes", type=int, default=14, help="how many compile side by side")
    parser.add_argument("--minutes", type=float, help="begin nothing after this")
    arguments = parser.parse_args(given)
    deadline = time.monotonic() + 60 * arguments.minutes if arguments.minutes else None
    shapes = [
        Shape(family.name, kind, *size, arguments.layers)
        for kind in ("training", "prompt", "decoding")
        for family in FAMILIES.values()
        if (size := family.shapes.get(kind)) and any(text in f"{family.name}, {kind}" for text in arguments.only)
    ]
    folders = [os.path.abspath(arguments.packages)] if arguments.packages else []
    report, sound, began = Report("decoder"), True, time.monotonic()
    report.rows = report.earlier_rows()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    tuned = [shape for shape in shapes if shape.model in {it.name for it in LINEAR}]
    left = {title(shape): PARTS for shape in tuned}

    def prepared(job: Job, answer: Answer) -> list[Job]:
        shape = Shape(**job["shape"])
        say(f"{title(shape)}: {job['task']} {answer['status']} {answer.get('message', '')}")
        left[title(shape)] -= 1
        return [] if left[title(shape)] else [_job("forms", shape)]

    def take(job: Job, answer: Answer) -> None:
        nonlocal sound
        name = title(Shape(**job["shape"]))
        if answer["status"] != "done":
            say(f"{name}: {answer['status']}: {answer.get('message')}")
            sound &= answer["status"] == "skipped"
            return
        rows = [Row(**it) for it in answer["rows"]]
        # Ways of one step are compared within a run alone.
        report.rows = [it for it in report.rows if title_of(it) != name]
        report.add(*rows)
        for row in rows:
            sound &= row.median_ms is not None or not row.candidate.startswith("Tawa")
            time_of = f"{row.median_ms:9.3f} ms" if row.median_ms else "        -   "
            say(f"{name:26} {row.candidate:16} {time_of}  {row.error}  {row.case.get('first_s', '')}")
            if "learned" in row.case:
                say(f"{row.case['steps']} steps; {row.case['learned']}")

    timed: list[Job] = [{**_job("time", it), "ways": arguments.ways} for it in shapes]
    with tempfile.TemporaryDirectory(prefix="tawa-decoder-") as folder:
        use_caches(folder)
        jobs = [_job("configurations", shape, part) for shape in tuned for part in range(PARTS)]
        for them, on_answer, processes in ((jobs, prepared, arguments.processes), (timed, take, 1)):
            if them:
                run_jobs(WORKER, them, on_answer, processes, STALL_S, deadline, folders)
    report.note_clocks()
    report.save()
    return 0 if sound else 1


def _job(task: str, shape: Shape, part: int = 0) -> Job:
    return {"task": task, "shape": asdict(shape), "part": part}


def title_of(row: Row) -> str:
    """What a row is about."""
    return f"{row.case['model']}, {row.case['kind']}"


def title(shape: Shape) -> str:
    """What a job is about."""
    return f"{shape.model}, {shape.kind}"


if __name__ == "__main__":
    raise SystemExit(main())
