"""``tawa replay``: repeats the compile of a reproducer folder."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tawa.cli.failures import UsageError, reports_failures, split_message
from tawa.errors import InternalError, PlanError, UnsupportedKernel
from tawa.outside import Unfit
from tawa.runtime.progress import progress

FolderArgument = Annotated[Path, typer.Argument(metavar="REPRODUCER", help="The folder that an internal error named.")]


@reports_failures
def replay_command(folder: FolderArgument) -> None:
    """Repeat the compile of a reproducer folder.

    Example: tawa replay ~/.cache/tawa/reproducers/gemm-0123456789ab
    """
    from tawa.bridge.driver.compile import compile_ttir
    from tawa.bridge.report import reproducer

    cure = "name the folder that the message of an internal error ends with"
    if not (folder / "request.json").is_file():
        raise UsageError(f"{folder} is no reproducer: no request.json is in it", cure)
    try:
        case = reproducer.read(folder)
    except (OSError, Unfit, PlanError) as error:
        raise UsageError(f"{folder} is no reproducer: {split_message(str(error))[0]}", cure) from error
    _warn_of_other_versions(case.versions)
    # Pinned, so that a failure is raised instead of compiling with stock Triton.
    pinned = replace(case.request, options=replace(case.request.options, enable_warp_specialization=True))
    try:
        sizes = {"num_warps": case.num_warps, "num_stages": case.num_stages}
        with progress(f"compiling {folder.name}"):
            compile_ttir(case.ttir, pinned, **sizes, file=folder / "ttir.mlir")
    except InternalError as error:
        typer.echo("reproduced:", err=True)
        traceback.print_exception(error.__cause__ or error)
        raise typer.Exit(1) from error
    except UnsupportedKernel as error:
        if case.request.pinned:
            raise
        typer.echo(f"not reproduced: the kernel is declined now: {error.remark}")
        return
    typer.echo("not reproduced: the kernel is specialised now")


def _warn_of_other_versions(recorded: Mapping[str, str]) -> None:
    from tawa.bridge.triton.versions import triton_version

    here = ".".join(map(str, triton_version()))
    if recorded.get("triton", here) != here:
        typer.echo(f"note: recorded with Triton {recorded['triton']}, replayed with {here}", err=True)
