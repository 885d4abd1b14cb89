"""A worker of `tawa tune`: tunes jobs that its parent hands it, on one GPU or by the simulator's clock.

python -m tawa.runtime.tuning.worker       reads jobs from its standard input, a line of JSON each

It answers in lines that begin with a mark; other output, of libraries and kernels, may stand between them:

    {"trying": "persistent, 2 groups", "id": "…"}     before a Plan is compiled and run for the first time
    {"entry": {…}}                                    the job is done
    {"only_stock": "reason"}                          the same: no Plan can specialise the kernel
    {"failed": "reason", "fatal": false}              the job cannot be done; fatal: nor any other, by this process

The parent kills a worker that stays silent, so a kernel that hangs costs one process. No worker outlives its parent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tawa.processes import Say, answers
from tawa.runtime.tuning.table import one_line


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker is asked. job: its folder. budget_s: seconds for timing. skip: the ids of Plans that hung before.

    simulated: by the simulator's clock, without a GPU.
    """

    job: str
    budget_s: float
    skip: tuple[str, ...] = ()
    simulated: bool = False


def run_task(task: Task, say: Say) -> dict[str, Any]:
    """Tunes one job; returns the answer."""
    from tawa.plan.search.measured import Measurement, Timed
    from tawa.runtime.tuning.choices import entry_of, measured, plans_of
    from tawa.runtime.tuning.jobs import Job

    job = Job.load(Path(task.job))
    say({"trying": "automatic mode", "id": "automatic"})
    record, run = _simulated(job) if task.simulated else _on_gpu(job)
    if not record["applied"]:
        return {"only_stock": one_line(record["reason"])}
    facts = record["tuning"]
    if not facts["ranked"]:
        return {"failed": "no Plans are known for this kernel; it stays in automatic mode"}
    ranked = [it for it in plans_of(facts) if plan_id(it.plan) not in task.skip]
    skipped = [it for it in plans_of(facts) if plan_id(it.plan) in task.skip]

    def trying(it: Any) -> None:
        say({"trying": it.words, "id": plan_id(it.plan)})

    def measure(prepare: Any, timer: Any, check: Any) -> Measurement:
        return measured(ranked, prepare, timer, task.budget_s, check, trying=trying, with_compiles=False)

    name, gpu, found = run(measure)
    if found is None or found.best is None:
        reasons = (
            "; ".join(dict.fromkeys(one_line(it.note) for it in found.times if it.note)) if found is not None else ""
        )
        return {"failed": reasons or "no Plan could be timed"}
    hung = [Timed.of(it.words, it.plan, note="left out: it hung or crashed before") for it in skipped]
    about = {**facts, "key": job.key}
    entry = entry_of(about, job.name, gpu, name, found.best.plan, found.best.words, (*found.times, *hung))
    return {"entry": entry.to_dict()}


def plan_id(plan: Any) -> str:
    """What tells a Plan from the others of a kernel; their words may be the same."""
    return hashlib.sha256(plan.to_json().encode()).hexdigest()[:16]


def _request(job: Any, host: Any) -> Any:
    from tawa.bridge.driver.request import Request
    from tawa.plan import Plan, PlanOptions
    from tawa.runtime.settings import Settings

    settings = Settings.from_environment()
    options = PlanOptions(**{**job.tawa, "mode": "measure", "only_if_faster": False})
    plan = Plan.from_data(job.plan) if job.plan is not None else None
    return Request(options, plan, settings.reproducer_dir, settings.verify, host=host)


def _compiled(job: Any, host: Any) -> tuple[Any, Mapping[str, Any]]:
    from tawa.bridge.driver.tuning.recorded_source import compile_recorded, recorded_source
    from tawa.bridge.report.record import KEY

    source = recorded_source(job.source, job.name, job.signature, job.may_be_one)
    kernel = compile_recorded(source, _request(job, host), job.options)
    return kernel, getattr(kernel.metadata, KEY)


Run = Callable[[Any], tuple[str, str, Any]]


def _simulated(job: Any) -> tuple[Mapping[str, Any], Run]:
    """The record of the kernel, and a function that measures it: shape class, GPU, measurement."""
    from tawa.bridge.launch.host import NO_HOST
    from tawa.runtime.tuning.simulated import GPU, prepare_simulated, simulated_ms

    kernel, record = _compiled(job, NO_HOST)

    def run(measure: Any) -> tuple[str, str, Any]:
        return job.shape_class, GPU, measure(prepare_simulated(kernel, job), simulated_ms, None)

    return record, run


def _on_gpu(job: Any) -> tuple[Mapping[str, Any], Run]:
    import torch

    from tawa.bridge.launch.added_arguments import multiprocessors
    from tawa.bridge.launch.host import Choices, Host
    from tawa.runtime.pytorch.clock import gpu_ms, gpu_name
    from tawa.runtime.pytorch.scratch import allocate
    from tawa.runtime.tuning.outputs import output_check
    from tawa.runtime.tuning.replay import arguments_on_gpu
    from tawa.runtime.tuning.shape_class import shape_class

    found: list[tuple[str, Any]] = []
    asked: list[Any] = []

    class Measuring(Choices):
        """The choices of the kernel of the job: its one launch measures."""

        def __init__(self, facts: Mapping[str, Any]) -> None:
            self.facts, self.sizes = facts, [(index, name) for index, name in facts["sizes"]]
            self.arguments = frozenset(index for index, _ in self.sizes)

        def measure(self, values: Sequence[Any], grid: Sequence[int], args: Sequence[Any], prepare: Any) -> Any:
            """Measures, and keeps the result."""
            name = shape_class(self.sizes, values, grid, multiprocessors())
            types, facts = tuple(kernel.src.signature.values()), self.facts
            check = output_check(types, args, facts["writes"], poison=facts["may_run_twice"])
            found.append((name, asked[0](prepare, gpu_ms, check)))
            return None

    def choices(kernel: Any) -> Any:
        facts = kernel.metadata.tawa["tuning"]
        return Measuring(facts) if facts["measure"] else None

    kernel, record = _compiled(job, Host(allocate, choices))

    def run(measure: Any) -> tuple[str, str, Any]:
        asked.append(measure)
        arguments, stream = arguments_on_gpu(job), torch.cuda.current_stream().cuda_stream
        launch = kernel.run  # loads the kernel
        launch(*job.grid, stream, kernel.function, kernel.packed_metadata, None, None, None, *arguments)
        torch.cuda.synchronize()
        name, measurement = found[0] if found else (job.shape_class, None)
        return name, gpu_name(), measurement

    return record, run


# -- the process -------------------------------------------------------------------------------------------------------


def main() -> None:
    """Answers tasks from standard input until it closes."""
    for data, say in answers():
        try:
            say(run_task(Task(data["job"], data["budget_s"], tuple(data["skip"]), data["simulated"]), say))
        except Exception as error:
            from tawa.plan.search.measured import is_fatal

            say({"failed": one_line(f"{type(error).__name__}: {error}"), "fatal": is_fatal(error)})


if __name__ == "__main__":
    main()
