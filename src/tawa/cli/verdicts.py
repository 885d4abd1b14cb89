"""Verdicts as the command line prints them: the runs tried, the run that goes wrong, or the reason and the cure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tawa.cli.failures import CHECKING, STATUS_CHECKED, STATUS_REFUTED, UsageError, split_message
from tawa.remarks import SourceLocation
from tawa.runtime.explain.excerpt import excerpt

if TYPE_CHECKING:
    from rich.console import Console

    from tawa.verify.verdict import Accept, Checked, Refuted, Unknown, Verdict, Witness


def status_of(verdict: Verdict, accept: Accept = "proved") -> int:
    """The exit status of a command that answers with this verdict."""
    from tawa.verify.verdict import Checked, Proved, Refuted

    match verdict:
        case Proved():
            return 0
        case Checked():
            return 0 if accept == "checked" else STATUS_CHECKED
        case Refuted():
            return STATUS_REFUTED
        case _:
            return CHECKING.failed


def save_trace(path: Path | None, verdict: Verdict) -> None:
    """Writes the failing run as a Chrome trace. Raises UsageError if the file cannot be written."""
    from tawa.verify.verdict import Refuted
    from tawa.verify.witness import chrome_trace

    if path is None:
        return
    if not isinstance(verdict, Refuted):
        typer.echo(f"no {path} was written: only a refuted program has a run to show", err=True)
        return
    try:
        path.write_text(chrome_trace(verdict.witness))
    except OSError as error:
        raise UsageError(f"--trace {path}: {error.strerror}", "name a file in a folder that exists") from error


def print_verdict(verdict: Verdict, note: str = "", how: str = "") -> None:
    """Prints a verdict, with the run of a refuted program. note: printed before it; how: after it."""
    from rich.console import Console
    from rich.text import Text

    from tawa.verify.verdict import ALL_RUNS, Checked, Proved, Refuted

    console = Console(highlight=False, soft_wrap=True)
    if note:
        console.print(Text(f"note: {note}", style="yellow"))
    match verdict:
        case Proved():
            console.print(Text.assemble(("proved", "bold green"), f": {ALL_RUNS}"))
        case Checked():
            _print_checked(console, verdict)
        case Refuted():
            _print_refuted(console, verdict)
        case _:
            _print_unknown(console, verdict)
    for assumption in verdict.assumptions:
        console.print(Text(f"  assuming {assumption}", style="dim"))
    if how:
        console.print(Text(how, style="dim"))


def _print_checked(console: Console, verdict: Checked) -> None:
    from rich.text import Text

    console.print(Text.assemble(("checked", "bold cyan"), f": {verdict.bound}"))
    console.print(Text.assemble(("  not proved: ", "bold"), verdict.left))
    if verdict.location:
        console.print(Text(excerpt(verdict.location), style="dim"))


def _print_refuted(console: Console, verdict: Refuted) -> None:
    from rich.text import Text

    from tawa.verify.witness import format_witness, said_by, verdict_to_dict

    witness = verdict.witness
    console.print(Text.assemble(("refuted", "bold red"), f": {said_by(verdict_to_dict(verdict))}"))
    place = next((step.location for step in reversed(witness.steps) if step.location), None)
    if place:
        console.print(Text(excerpt(place), style="dim"))
    files = list(dict.fromkeys(Path(step.location.file).name for step in witness.steps if step.location))
    table = format_witness(_with_short_places(witness, files)).removeprefix(witness.message)
    console.print(Text(table.strip("\n")))
    if len(files) == 1:
        console.print(Text(f"numbers after a colon are lines of {files[0]}", style="dim"))


def _with_short_places(witness: Witness, files: list[str]) -> Witness:
    """The run with file names in place of paths, or without them if there is only one file: a narrower table."""

    def short(place: SourceLocation | None) -> SourceLocation | None:
        return replace(place, file=Path(place.file).name if len(files) > 1 else "") if place else None

    return replace(witness, steps=tuple(replace(step, location=short(step.location)) for step in witness.steps))


def _print_unknown(console: Console, verdict: Unknown) -> None:
    from rich.text import Text

    reason, place, cure = split_message(verdict.reason)
    console.print(Text.assemble(("unknown", "bold yellow"), f": {reason}"))
    place = verdict.location or place
    if place:
        console.print(Text(excerpt(place), style="dim"))
    cure = cure or _cure(reason)
    if cure:
        console.print(Text.assemble(("  cure: ", "bold green"), cure))


def _cure(reason: str) -> str:
    """The cure for a check that ran out of time or of numbers."""
    if "budget" in reason:
        return "try fewer trips (--trips 2), or say what is known of the arguments (--assume 'K >= 64')"
    if "satisfies the assumptions" in reason:
        return "leave an --assume out: together they leave no number to try"
    return ""
