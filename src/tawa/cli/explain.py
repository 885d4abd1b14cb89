"""``tawa explain``: was the kernel specialised, why or why not, and what does it cost."""

from __future__ import annotations

import typer

from tawa.cli.failures import excerpt, reports_failures
from tawa.cli.job import (
    ConstOption,
    JsonFlag,
    KernelArgument,
    PlanOptionsOption,
    SigOption,
    StagesOption,
    WarpsOption,
    read_job,
)
from tawa.remarks import SourceLocation


@reports_failures
def explain_command(
    target: KernelArgument,
    sig: SigOption = "",
    const: ConstOption = "",
    num_warps: WarpsOption = 4,
    num_stages: StagesOption = 3,
    option: PlanOptionsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Say whether a kernel is specialised, why, and what it costs. Needs no GPU."""
    _, explanation = read_job(target, sig, const, num_warps, num_stages, option).explain(launched=True)
    if as_json:
        typer.echo(explanation.to_json())
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(explanation.table())
    if not explanation.applied and explanation.location:
        file, _, line = explanation.location.rpartition(":")
        console.print(excerpt(SourceLocation(file, int(line))), markup=False, style="dim", soft_wrap=True)
