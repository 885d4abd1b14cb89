"""``tawa doctor``: whether Tawa works here, and the cure for whatever does not.

versions
  ok    Triton      3.6.0 (supported: 3.6 to 3.9)
  warn  PyTorch     not installed: kernels are compiled, not launched, and tawa.ops is not there
          cure: pip install 'torch>=2.10'
"""

from __future__ import annotations

import json
import os
import textwrap
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tawa.cli.failures import UsageError, reports_failures
from tawa.cli.inputs.job import JsonFlag

if TYPE_CHECKING:
    from rich.console import Console

    from tawa.cli.doctor.finding import Check, Finding

QuickFlag = Annotated[bool, typer.Option("--quick", help="Leave out the self-test, which takes some seconds.")]

_WORDS = {"green": "ok", "yellow": "warn", "red": "FAIL"}
_STYLES = {"green": "green", "yellow": "yellow", "red": "bold red"}
_BELOW = " " * 10
_NAME = 21
"""The columns of the names."""


@reports_failures
def doctor_command(quick: QuickFlag = False, as_json: JsonFlag = False) -> None:
    """Check that Tawa works here: versions, GPU, folders, settings, and a kernel. Each line but ok has its cure.

    The self-test starts a background worker, and compiles, proves and simulates a kernel; on a Hopper GPU with PyTorch
    it also launches it. Add the output to bug reports.

    Exit status: 0 nothing must be mended, 1 something must (FAIL).

    Example: tawa doctor --json
    """
    from rich.console import Console

    from tawa.cli.doctor.finding import guarded

    console = Console(highlight=False, markup=False)
    parts: dict[str, list[Finding]] = {}
    for title, check in _checks(quick).items():
        found = parts.setdefault(title, [])
        if not as_json:
            console.print(title, style="bold")
        for it in guarded(title, check):
            found.append(it)
            if not as_json:
                _print(console, it)
    every = [it for found in parts.values() for it in found]
    state = next(it for it in ("red", "yellow", "green") if it in {"green", *(line.state for line in every)})
    if as_json:
        typer.echo(json.dumps(_facts(state, parts), indent=2))
    else:
        console.print(_summary(every))
    raise typer.Exit(int(state == "red"))


def _checks(quick: bool) -> dict[str, Check]:
    from tawa.cli.doctor.folders import folders
    from tawa.cli.doctor.machine import machine
    from tawa.cli.doctor.selftest import self_test
    from tawa.cli.doctor.settings import settings
    from tawa.cli.doctor.versions import versions

    given = partial(settings, dict(os.environ))
    os.environ.pop("TRITON_INTERPRET", None)  # has its line; the self-test compiles
    checks: dict[str, Check] = {"versions": versions, "machine": machine, "folders": folders, "settings": given}
    return checks if quick else {**checks, "self-test": self_test}


def _print(console: Console, it: Finding) -> None:
    """One finding: its state, name and text. What can be pasted has a line of its own, which is not folded."""
    from rich.text import Text

    dim = "dim" if it.data.get("origin") == "default" else ""
    seconds = it.data.get("seconds")
    text = it.found if seconds is None else f"{it.found}, {seconds:.1f} s"
    head = Text.assemble("  ", (f"{_WORDS[it.state]:6}", _STYLES[it.state]), (f"{it.name:{_NAME}}  ", dim))
    indent = " " * len(head)
    lines = textwrap.wrap(text, max(40, console.width - len(indent)), break_long_words=False, break_on_hyphens=False)
    head.append(f"\n{indent}".join(lines), dim)
    console.print(head, soft_wrap=True)
    if it.cure:
        console.print(Text.assemble(_BELOW, ("cure: ", "bold green"), it.cure), soft_wrap=True)
    if it.hint:
        console.print(Text(f"{_BELOW}{it.hint}", "dim"), soft_wrap=True)


def _summary(every: list[Finding]) -> Any:
    from rich.text import Text

    red, yellow = (sum(it.state == state for it in every) for state in ("red", "yellow"))
    if red:
        return Text(f"{red} must be mended: Tawa does not work here as it should", style="bold red")
    if yellow:
        text = f"nothing must be mended, {yellow} could be better: Tawa works, with less than it can do"
        return Text(text, style="yellow")
    return Text("everything is ok", style="bold green")


def _facts(state: str, parts: dict[str, list[Finding]]) -> dict[str, Any]:
    import tawa

    lines = {title: [it.to_dict() for it in found] for title, found in parts.items()}
    return {"tawa": tawa.__version__, "state": state, **lines}


def env_command(as_json: JsonFlag = False) -> None:
    """Now a part of tawa doctor."""
    _moved()


@reports_failures
def _moved() -> None:
    raise UsageError("tawa env is a part of tawa doctor now", "tawa doctor, or tawa doctor --quick --json")
