"""``tawa verify``: checks the protocol of slots and barriers in every run and interleaving.

tawa verify attention.ttgir                  any TTGIR, whoever wrote it
tawa verify gemm.py:kernel --sig '…'         a kernel that Tawa specialises: both levels, and their refinement

proved: barriers: every interleaving for K in 0, 64, …, 448
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tawa.cli.failures import CHECKING, STATUS_REFUTED, UsageError, checks, require_folder, split_message
from tawa.cli.inputs.job import (
    ConstOption,
    Job,
    JsonFlag,
    MappingFileOption,
    PlanFileOption,
    PlanOptionsOption,
    SigOption,
    StagesOption,
    WarpsOption,
    read_job,
)
from tawa.errors import did_you_mean
from tawa.remarks import SourceLocation
from tawa.runtime.explain.excerpt import excerpt

if TYPE_CHECKING:
    from rich.console import Console

    from tawa.ir import Module
    from tawa.verify.verdict import Refuted, Unknown, Verdict, Witness

ProgramArgument = Annotated[
    str,
    typer.Argument(metavar="FILE.ttgir | FILE.py:KERNEL", help="A program with layouts, or a file and a kernel in it."),
]
AssumeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--assume",
        metavar="FACT",
        help="A fact about a scalar argument that the check may assume: 'L >= 128', 'K % 64 == 0', '0 < M <= 4096'. "
        "Repeatable.",
    ),
]
TraceOption = Annotated[
    Path | None,
    typer.Option("--trace", metavar="FILE.json", help="Save the run that goes wrong for chrome://tracing or Perfetto."),
]
TripsOption = Annotated[
    int | None,
    typer.Option(
        "--trips", min=0, help="The largest trip count tried for an innermost loop. Default: twice the ring depth + 1."
    ),
]


@dataclass(frozen=True, slots=True)
class Program:
    """The program to check: one level or both. note: a remark on where the program comes from.

    how: a line on how the kernel was compiled; empty for a file.
    """

    name: str
    aref: Module | None
    barrier: Module | None
    note: str = ""
    specialised: bool | None = None
    how: str = ""


@checks
def verify_command(
    target: ProgramArgument,
    sig: SigOption = "",
    const: ConstOption = "",
    num_warps: WarpsOption = 4,
    num_stages: StagesOption = 3,
    option: PlanOptionsOption = None,
    plan: PlanFileOption = "",
    mapping: MappingFileOption = "",
    assume: AssumeOption = None,
    trips: TripsOption = None,
    trace: TraceOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Prove the protocol of a program free of deadlock and race, or show the run that goes wrong. Needs no GPU.

    A kernel is specialised wherever legal; tawa explain says what a launch gets. A Gluon kernel is taken as it is.

    Exit status: 0 proved, 1 refuted, 2 unknown or unsupported, 3 wrong usage.
    """
    from tawa.verify.assumptions import parse_assumptions
    from tawa.verify.check import check_levels

    if trace is not None:
        require_folder("--trace", trace)
    parse_assumptions(assume or [])  # errors in the command line are reported before the compile
    if names_kernel(target):
        program = _compiled(
            target, read_job(target, sig, const, num_warps, num_stages, option, plan=plan, gluon=True, mapping=mapping)
        )
    else:
        refuse_kernel_options(target, sig=sig, const=const, option=option, plan=plan, mapping=mapping)
        program = _from_file(target)
    verdict = check_levels(program.aref, program.barrier, assume=assume or [], max_trips=trips)
    _save_trace(trace, verdict)
    if as_json:
        typer.echo(json.dumps(_facts(program, verdict), indent=2))
    else:
        _print(program, verdict)
    raise typer.Exit(_status(verdict))


# --- programs ---------------------------------------------------------------------------------------------------------


def names_kernel(target: str) -> bool:
    """Whether a target is meant as ``FILE.py:KERNEL`` rather than as a file of IR."""
    return re.search(r"\.py(:|$)", target) is not None


def existing_file(target: str) -> Path:
    """The file of a target. Raises UsageError with a similar name if the file does not exist."""
    path = Path(target).expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        raise UsageError(f"{target} is a folder", "name a file in it")
    folder = path.parent if path.parent.is_dir() else Path()
    names = sorted(entry.name for entry in folder.iterdir())
    cure = did_you_mean(path.name, names, "give FILE.ttgir or FILE.py:KERNEL", show=lambda name: str(folder / name))
    raise UsageError(f"no file {target!r} (looked in {Path.cwd()})", cure)


def refuse_kernel_options(target: str, **given: Any) -> None:
    """Raises UsageError on options for kernels, which would have no effect on a file of IR."""
    for name, value in given.items():
        if value:
            raise UsageError(
                f"--{name} goes with FILE.py:KERNEL, and {target} is compiled already", f"leave --{name} out"
            )


def _from_file(target: str) -> Program:
    from tawa.bridge.triton.read_module import read_ttgir

    module = read_ttgir(existing_file(target))
    if any(op.name.startswith("aref.") for op in module.walk()):
        return Program(target, module, None)
    return Program(target, None, module)


def _compiled(target: str, job: Job) -> Program:
    """Both levels of a specialised kernel; stock Triton's program of a declined one; a Gluon kernel as it is."""
    found = job.levels()
    note = f"not specialised: {found.declined}; stock Triton's program is checked" if found.declined else ""
    how = job.how if found.specialised else ""
    return Program(target, found.aref, found.barrier, note, found.specialised, how)


# --- results ----------------------------------------------------------------------------------------------------------


def _status(verdict: Verdict) -> int:
    from tawa.verify.verdict import Proved, Refuted

    match verdict:
        case Proved():
            return 0
        case Refuted():
            return STATUS_REFUTED
        case _:
            return CHECKING.failed


def _facts(program: Program, verdict: Verdict) -> dict[str, Any]:
    from tawa.verify.witness import verdict_to_dict

    levels = [name for name in ("aref", "barrier") if getattr(program, name) is not None]
    known = {"program": program.name, "levels": levels, "specialised": program.specialised, "note": program.note}
    return {**known, **verdict_to_dict(verdict)}


def _save_trace(path: Path | None, verdict: Verdict) -> None:
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


def _print(program: Program, verdict: Verdict) -> None:
    from rich.console import Console
    from rich.text import Text

    from tawa.verify.verdict import Proved, Refuted

    console = Console(highlight=False, soft_wrap=True)
    if program.note:
        console.print(Text(f"note: {program.note}", style="yellow"))
    match verdict:
        case Proved(bound):
            console.print(Text.assemble(("proved", "bold green"), f": {bound}"))
        case Refuted():
            _print_refuted(console, verdict)
        case _:
            _print_unknown(console, verdict)
    for assumption in verdict.assumptions:
        console.print(Text(f"  assuming {assumption}", style="dim"))
    if program.how:
        console.print(Text(program.how, style="dim"))


def _print_refuted(console: Console, verdict: Refuted) -> None:
    from rich.text import Text

    from tawa.verify.witness import format_witness

    witness = verdict.witness
    what = witness.message.removeprefix(f"{witness.kind}: ")
    console.print(Text.assemble(("refuted", "bold red"), f": {witness.kind}: {what}"))
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
