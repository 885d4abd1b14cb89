"""``tawa tune``: measures the Plans of a program's kernels on every GPU of the machine, and remembers the fastest.

SCRIPT ARGS   →  the program runs, its launches are noted   →  jobs
jobs          →  worker processes, one for each GPU         →  entries of the user's tables, results
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from tawa.cli.failures import UsageError, reports_failures, require_folder
from tawa.cli.inputs.arguments import parse_arguments
from tawa.cli.inputs.job import ConstOption, JsonFlag, PlanOptionsOption, SigOption, StagesOption, WarpsOption
from tawa.cli.inputs.launch_arguments import read_grid

if TYPE_CHECKING:
    from tawa.runtime.tuning.session import Run, Session

_KERNEL = re.compile(r"\.py:\w+$")


class TuneCommand(TyperCommand):
    """Options may follow FILE.py:KERNEL; what follows a script belongs to the script."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments."""
        if any(map(_KERNEL.search, args)):
            ctx.allow_interspersed_args, ctx.ignore_unknown_options = True, False
        return super().parse_args(ctx, args)


class Timer(StrEnum):
    """Who times the Plans."""

    gpu = "gpu"
    simulated = "simulated"


TargetArgument = Annotated[
    str, typer.Argument(metavar="SCRIPT.py | FILE.py:KERNEL", help="A program; with -m a module; or one kernel.")
]
RestArgument = Annotated[list[str] | None, typer.Argument(metavar="[ARGUMENTS]", help="Passed on to the program.")]
ModuleFlag = Annotated[bool, typer.Option("-m", help="Run a module, as python -m does.")]
BudgetOption = Annotated[
    float,
    typer.Option("--budget", min=0.0, metavar="SECONDS", help="For timing one kernel and shape class; compiles extra."),
]
LimitOption = Annotated[
    float,
    typer.Option("--limit", min=1.0, metavar="SECONDS", help="A worker that is silent for longer is killed."),
]
GpusOption = Annotated[
    str, typer.Option("--gpus", metavar="0,1,…", help="The GPUs to use, as CUDA_VISIBLE_DEVICES names them.")
]
ResumeOption = Annotated[
    bool, typer.Option("--resume/--fresh", help="Continue what was interrupted, or measure everything anew.")
]
TimerOption = Annotated[
    Timer,
    typer.Option(
        "--timer",
        metavar="TIMER",
        help="gpu: times on the GPU. simulated: by the simulator's clock, without a GPU, to see how tuning works; no "
        "launch uses these entries.",
    ),
]
RayOption = Annotated[
    str, typer.Option("--ray", metavar="ADDRESS", help="Spread the work over a Ray cluster: auto, local, HOST:PORT.")
]
ExportOption = Annotated[
    Path | None,
    typer.Option(
        "--export", metavar="FILE", help="Write a table to ship: of this run, or without a program all you have."
    ),
]
ImportOption = Annotated[
    list[Path] | None, typer.Option("--import", metavar="FILE", help="Merge a table into yours. Repeatable.")
]
GridOption = Annotated[str, typer.Option("--grid", metavar="X[,Y[,Z]]", help="With FILE.py:KERNEL: how many programs.")]
ArgOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arg", metavar="NAME=VALUE", help="With FILE.py:KERNEL: its arguments, as tawa simulate takes them."
    ),
]


@reports_failures
def tune_command(
    target: TargetArgument = "",
    arguments: RestArgument = None,
    module: ModuleFlag = False,
    budget: BudgetOption = 2.0,
    gpus: GpusOption = "all",
    resume: ResumeOption = True,
    limit: LimitOption = 120.0,
    timer: TimerOption = Timer.gpu,
    ray: RayOption = "",
    export: ExportOption = None,
    imported: ImportOption = None,
    grid: GridOption = "",
    arg: ArgOption = None,
    sig: SigOption = "",
    const: ConstOption = "",
    num_warps: WarpsOption = 4,
    num_stages: StagesOption = 3,
    option: PlanOptionsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure the Plans of a program's kernels, and remember the fastest for each kernel and size.

    The program runs once, as under `tawa run`, and its launches are noted. Then each kernel is compiled by the Plans
    that are worth it, and timed on tensors of the same shapes, in a process of its own on each GPU. Later launches of
    these kernels, in any program, get the fastest Plan.

    tawa tune train.py --steps 2                  the kernels of a program
    tawa tune --export tuned.json                 a table to ship: tawa.use_table("tuned.json"), or --import
    """
    if not target and not export and not imported:
        raise UsageError("nothing to tune", "tawa tune SCRIPT.py, or tawa tune --import FILE")
    if export is not None:
        require_folder("--export", export)
    for path in imported or []:
        _import(path, as_json)
    if not target:
        if export is not None:
            _export(export, None, as_json)
        return
    from tawa.runtime.tuning.session import Session, session_name

    simulated = timer is Timer.simulated
    places = _places(gpus, simulated, ray)
    words = [target, *(["-m"] if module else []), *(arguments or [])]
    described = [sig, const, grid, str(num_warps), str(num_stages), *(option or []), *(arg or [])]
    session = Session(session_name(words, [Path(target)], json.dumps([str(Path.cwd()), timer.value, described])))
    with session.locked():
        if not resume:
            session.forget()
        if _KERNEL.search(target):
            _note_one(session, target, simulated, grid, arg, sig, const, num_warps, num_stages, option)
        else:
            _run_program(session, target, arguments or [], module)
        from tawa.cli.tuning import print_results, tune

        silent = limit + budget  # a worker says nothing while it times
        run = _on_ray(ray, silent) if ray else _here(places, silent, session.folder)
        try:
            tune(session, run, budget, simulated)
        except KeyboardInterrupt:
            _say("interrupted; the same command takes it up again")
            raise typer.Exit(130) from None
        print_results(session, simulated, as_json)
        if export is not None:
            _export(export, session, as_json)
    if any("failed" in it for it in session.done().values()):
        raise typer.Exit(1)


def _import(path: Path, quiet: bool) -> None:
    from tawa.cli.doctor.machine import gpus
    from tawa.runtime.tuning.store import user_store
    from tawa.runtime.tuning.table import read_table, refuse_foreign

    entries, here = read_table(path), gpus()
    refuse_foreign(path, entries, here[0]["name"] if here else "")
    new = user_store().put(entries)
    typer.echo(f"{path}: {len(entries)} entries, {new} of them new or newer", err=quiet)


def _export(path: Path, session: Session | None, quiet: bool) -> None:
    from tawa.runtime.tuning.simulated import GPU
    from tawa.runtime.tuning.store import user_store
    from tawa.runtime.tuning.table import table_text, versions_here

    known = session.entries() if session is not None else user_store().all()
    entries = [it for it in known if dict(it.versions) == versions_here()]
    if session is None:
        entries = [it for it in entries if it.gpu != GPU]
    if not entries:
        raise UsageError("there is nothing to export", "tune first: tawa tune SCRIPT.py")
    path.write_text(table_text(entries), encoding="utf-8")
    typer.echo(f"{path}: {len(entries)} entries", err=quiet)


def _places(gpus: str, simulated: bool, ray: str) -> list[str]:
    """The GPUs to use; for the simulated timer, names for its processes."""
    named = [it.strip() for it in gpus.split(",") if it.strip()]
    if named != ["all"]:
        return named
    if simulated or ray:
        return ["0"]
    from tawa.cli.doctor.machine import gpus as installed

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = visible.split(",") if visible else [str(number) for number in range(len(installed()))]
    if not found or visible == "":
        raise UsageError("there is no GPU here", "tune on a machine with one; --timer simulated shows how it works")
    return found


def _run_program(session: Session, target: str, arguments: list[str], module: bool) -> None:
    """Runs the program and notes its launches, unless that was done in a run that did not end."""
    if not module and not Path(target).exists():
        raise UsageError(f"no such file: {target}", "tawa tune SCRIPT.py, or tawa tune -m MODULE")
    if session.collected and session.unfinished:
        _say(f"taking up an interrupted run: {len(session.done())} of {len(session.jobs())} launches are tuned")
        return
    session.forget_jobs()
    command = [sys.executable, "-m", "tawa", "run", *(["-m"] if module else []), target, *arguments]
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        command, env={**os.environ, "TAWA_COLLECT": str(session.jobs_folder), "PYTHONPATH": path}, check=False
    )
    found = len(session.jobs())
    if done.returncode == 0:
        session.mark_collected()
    if not found:
        what = f"the program ended with status {done.returncode}" if done.returncode else "the program ran"
        cure = "tawa run --report shows which kernels it launches, and what becomes of them"
        if not module and done.returncode:
            cure += f"; without a GPU: tawa tune {target}:KERNEL --timer simulated --grid … --arg …"
        raise UsageError(f"{what}, and launched no kernel that could be tuned", cure)
    if done.returncode:
        _say(f"the program ended with status {done.returncode}; the {found} launches before that are tuned")


def _note_one(
    session: Session, target: str, simulated: bool, grid: str, arg: list[str] | None, sig: str, const: str,
    num_warps: int, num_stages: int, option: list[str] | None,
) -> None:  # fmt: skip
    from tawa.cli.inputs.launch_job import launch_job
    from tawa.machine.machines import SM_90

    if not grid:
        raise UsageError(f"{target}: a launch has a grid", "--grid 32,16")
    programs = read_grid(grid)
    if simulated:
        processors = SM_90.processors
    else:
        from tawa.bridge.launch.added_arguments import multiprocessors

        processors = multiprocessors()
    job = launch_job(
        target, parse_arguments(arg or []), programs, sig, const, num_warps, num_stages, option, processors
    )
    job.save(session.jobs_folder)


def _here(places: list[str], limit: float, folder: Path) -> Run:
    """Workers of this machine, one for each GPU. folder: for their logs."""
    from functools import partial

    from tawa.processes import inherited
    from tawa.runtime.tuning.workers import run_tasks, tuning_worker

    plain = inherited(without=("TAWA_COLLECT",))
    workers = [
        tuning_worker({**plain, "CUDA_VISIBLE_DEVICES": place}, folder / f"worker-{number}.log")
        for number, place in enumerate(places)
    ]
    return partial(run_tasks, workers=workers, limit_s=limit)


def _on_ray(address: str, limit: float) -> Run:
    from functools import partial

    from tawa.runtime.tuning.ray_pool import run_on_ray

    return partial(run_on_ray, address=address, limit_s=limit)


def _say(text: str) -> None:
    typer.echo(f"tawa tune: {text}", err=True)
