"""``tawa demo``: compiles, proves and simulates real kernels; on a Hopper GPU also runs and times them."""

from __future__ import annotations

import typer

from tawa.cli.failures import reports_failures
from tawa.cli.inputs.job import JsonFlag


@reports_failures
def demo_command(as_json: JsonFlag = False) -> None:
    """Show what becomes of real kernels: compile, prove, simulate; on a Hopper GPU also run and time them.

    Example: tawa demo
    """
    from rich.console import Console

    from tawa.bridge.triton.versions import refuse_untested
    from tawa.demo import report

    refuse_untested("there is nothing to show")
    compiled = report.compile_all()
    if as_json:
        typer.echo(report.as_json(compiled))
    else:
        report.print_report(Console(highlight=False), compiled)
