"""Fresh processes: a worker that has imported PyTorch and Triton, and forks for each job.

The fork begins without a CUDA context and without Tawa. It measures (`bench.first_launch.process`), writes its answer
to a file and ends as any program does, so that what was learned is stored. ``fork: false`` in a job starts a new
interpreter instead.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.harness import describe
from bench.workers import Answer, Job, serve_jobs

Run = Callable[[Job], Answer]


def handle(job: Job) -> Answer:
    """Does a job in a fresh process. template: a folder whose copy the caches begin as; empty: they are there."""
    folder = Path(job["caches"])
    if job["template"]:
        shutil.copytree(job["template"], folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "answer.json"
    path.unlink(missing_ok=True)
    status = (forked if job["fork"] else started)(job, path)
    if not path.exists():
        return {"status": "crashed", "message": f"the process ended with status {status}"}
    answer: Answer = json.loads(path.read_text())
    return {**answer, "message": f"after its answer, the process ended with status {status}"} if status else answer


def forked(job: Job, path: Path, run: Run | None = None) -> int:
    """Runs a job in a fork of this process; returns its exit status."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        answer_to(path, job, run)
        raise SystemExit(0)  # the interpreter ends as usual
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def started(job: Job, path: Path) -> int:
    """Runs a job in a new interpreter; returns its exit status."""
    command = [sys.executable, "-m", "bench.first_launch.worker", json.dumps(job), str(path)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode


def answer_to(path: Path, job: Job, run: Run | None = None) -> None:
    """Writes the answer to a job to a file."""
    if run is None:
        from bench.first_launch.process import measure as run
    try:
        answer = run(job)
    except Exception as error:
        answer = {"status": "failed", "message": describe(error)}
    path.write_text(json.dumps(answer))


def import_all() -> None:
    """Imports what every process needs.

    Parts of PyTorch ask for a GPU while they are imported. Real answers would initialise CUDA, which forks could not
    use any more.
    """
    import torch

    cuda: Any = torch.cuda
    asked = cuda.is_available
    cuda.is_available = lambda: True
    try:
        import torch._dynamo
        import torch._inductor.compile_fx
        import torch.profiler
        import triton
    finally:
        cuda.is_available = asked
    del torch, triton


if __name__ == "__main__":
    if "--worker" in sys.argv:
        import_all()
        serve_jobs(handle)
    else:
        answer_to(Path(sys.argv[2]), json.loads(sys.argv[1]))
