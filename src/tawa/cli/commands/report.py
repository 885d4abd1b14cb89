"""``tawa report``: the kernels of processes that ran under `tawa.install`, and which were specialised."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tawa.cli.failures import UsageError, reports_failures, require_folder
from tawa.cli.inputs.job import JsonFlag
from tawa.cli.pages import html_option, save_page
from tawa.outside import Unfit

PathArgument = Annotated[
    Path,
    typer.Argument(metavar="PATH", help="The value of TAWA_REPORT: a file, or a folder with a file for each process."),
]


HtmlOption = Annotated[Path | None, html_option("a chart of the kernels, and what became of each and why")]


@reports_failures
def report_command(path: PathArgument, html: HtmlOption = None, as_json: JsonFlag = False) -> None:
    """Show which kernels were specialised, which were not, why, and what would change that.

    PATH was written by processes that ran with TAWA_REPORT=PATH under tawa.install() or `tawa run`.

    Example: TAWA_REPORT=kernels.jsonl tawa run train.py; tawa report kernels.jsonl
    """
    from tawa.runtime.history.report_file import read_reports

    if html is not None:
        require_folder("--html", html)
    try:
        found = read_reports(path)
    except FileNotFoundError as error:
        cure = f"TAWA_REPORT={path} tawa run script.py writes it, when the script ends"
        raise UsageError(f"no report in {path}", cure) from error
    except Unfit as error:
        raise UsageError(str(error), "give the file or folder that TAWA_REPORT named") from error
    if html is not None:
        save_page(html, found.to_html(), "what became of each kernel")
    if as_json:
        typer.echo(found.to_json())
        return
    from rich.console import Console

    Console(highlight=False).print(found.table())
