"""``tawa run``: runs an unmodified script with every Triton kernel of its process under Tawa."""

from __future__ import annotations

import runpy
import sys
import traceback
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Annotated

import typer

from tawa.cli.completion import complete_option
from tawa.cli.failures import UsageError, failures_reported
from tawa.cli.inputs.job import read_options
from tawa.cli.terminal import own_terminal

TargetArgument = Annotated[str, typer.Argument(metavar="SCRIPT.py", help="The script; with -m the module.")]
RestArgument = Annotated[list[str] | None, typer.Argument(metavar="[ARGUMENTS]", help="Passed on to the script.")]
ModuleFlag = Annotated[bool, typer.Option("-m", help="Run a module, as python -m does.")]
ReportFlag = Annotated[bool, typer.Option("--report", help="Print at the end which kernels were specialised.")]
ProfileFlag = Annotated[
    bool, typer.Option("--profile", help="As --report, with each kernel's share of the time on the GPU.")
]
OptionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE,…",
        help="Tawa's launch options, as defaults of every launch: aref_depth=3,only_if_faster=False.",
        autocompletion=complete_option,
    ),
]


def run_command(
    target: TargetArgument,
    arguments: RestArgument = None,
    module: ModuleFlag = False,
    report: ReportFlag = False,
    profile: ProfileFlag = False,
    option: OptionsOption = None,
) -> None:
    """Run a Python script with every Triton kernel of its process under Tawa, as if it began with tawa.install().

    Example: tawa run --profile train.py --steps 2
    """
    with failures_reported():
        if not module and not Path(target).exists():
            raise UsageError(f"no such file: {target}", "tawa run SCRIPT.py, or tawa run -m MODULE")
        import tawa

        tawa.install(**read_options(option or []))
    from tawa.runtime.history.profiling import profiled

    try:
        with own_terminal(), profiled() if profile else nullcontext():
            _run(target, arguments or [], module)
    finally:
        if report or profile:
            from rich.console import Console

            Console(stderr=True, highlight=False).print(tawa.report().table())


def _run(target: str, arguments: list[str], module: bool) -> None:
    """Runs the script as ``python target arguments`` does. A traceback shows only the script's frames."""
    before = (sys.argv, list(sys.path))
    sys.argv = [target, *arguments]
    sys.path.insert(0, str(Path.cwd() if module else Path(target).resolve().parent))
    try:
        if module:
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(target, run_name="__main__")
    except Exception as error:
        traceback.print_exception(error.with_traceback(_of_script(error.__traceback__)))
        raise typer.Exit(1) from None
    finally:
        sys.argv, sys.path[:] = before


def _of_script(frames: TracebackType | None) -> TracebackType | None:
    """The traceback without the leading frames of Tawa and runpy."""
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while frames is not None and frames.tb_frame.f_code.co_filename in ours:
        frames = frames.tb_next
    return frames
