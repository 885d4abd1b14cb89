"""Spreads the jobs of `tawa tune` over a Ray cluster: one GPU for each job, and a worker under a watchdog there.

Jobs travel as bytes, so the machines need not share a file system. Each needs Tawa and Triton in the versions of the
machine that asks: entries of others are refused. Ray is an optional extra (``ray`` in pyproject.toml), imported here
only when it is asked for.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tawa.errors import TawaError
from tawa.processes import inherited
from tawa.runtime.tuning.table import one_line, versions_here
from tawa.runtime.tuning.worker import Task
from tawa.runtime.tuning.workers import Event, tune_with_patience, tuning_worker


class NoCluster(TawaError):
    """Ray is not installed, or the cluster cannot be reached."""


def run_on_ray(
    tasks: Sequence[Task], on_event: Callable[[Event], None], address: str, limit_s: float, ray: Any = None
) -> None:
    """Runs all tasks on a cluster; `on_event` is called in this thread.

    address: of the cluster; "auto" finds a running one, "local" starts one on this machine. limit_s: seconds that a
    worker may be silent. ray: the module. Raises NoCluster.
    """
    ray = ray or _ray()
    _connect(ray, address)
    try:
        asked = {
            ray.remote(num_gpus=0 if task.simulated else 1, max_retries=1)(tune_packed).remote(
                packed(Path(task.job)), task, limit_s
            ): task
            for task in tasks
        }
        while asked:
            ready, _ = ray.wait(list(asked), num_returns=1)
            for reference in ready:
                task = asked.pop(reference)
                for event in _events(ray, reference):
                    on_event({**event, "job": task.job})
    finally:
        ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise NoCluster("--ray needs Ray, which is not installed; cure: pip install ray") from error
    return ray


def _connect(ray: Any, address: str) -> None:
    try:
        ray.init(address=address, log_to_driver=False)
    except Exception as error:  # Ray raises errors of many kinds
        what = one_line(f"{type(error).__name__}: {error}")
        raise NoCluster(
            f"--ray {address}: no cluster answers ({what}); cure: ray start --head there, or --ray local"
        ) from error


def _events(ray: Any, reference: Any) -> Sequence[Event]:
    """What happened to one job; a failure of the cluster is a failure of the job, which a later run tries again."""
    try:
        events: Sequence[Event] = ray.get(reference)
    except Exception as error:
        return [{"failed": one_line(f"{type(error).__name__}: {error}")}]
    *before, last = events
    versions: Mapping[str, str] = last.get("entry", {}).get("versions", versions_here())
    if dict(versions) != versions_here():
        there, here = (f"Tawa {it['tawa']}, Triton {it['triton']}" for it in (versions, versions_here()))
        return [{"failed": f"the machine of the cluster has {there}; here are {here}; cure: install the same there"}]
    return [*before, last]


def packed(folder: Path) -> bytes:
    """A job's folder as bytes."""
    with io.BytesIO() as stream:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                archive.write(path, path.relative_to(folder))
        return stream.getvalue()


def tune_packed(job: bytes, task: Task, limit_s: float) -> list[Event]:
    """Runs on a machine of the cluster: tunes one job in a worker process; returns what happened."""
    events: list[Event] = []
    with tempfile.TemporaryDirectory(prefix="tawa-tune-") as folder:
        at = Path(folder) / "job"
        with zipfile.ZipFile(io.BytesIO(job)) as archive:
            archive.extractall(at)
        worker = tuning_worker(inherited(), Path(folder) / "worker.log")
        try:
            last = tune_with_patience(worker, replace(task, job=str(at)), limit_s, events.append)
        finally:
            worker.stop()
    return [*(it for it in events if "lost" in it), last]
