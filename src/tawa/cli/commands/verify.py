"""``tawa verify``: checks the protocol of slots and barriers in every run and interleaving.

tawa verify attention.ttgir                  any TTGIR, whoever wrote it
tawa verify gemm.py:kernel --sig '…'         a kernel that Tawa specialises: both levels, and their refinement
tawa verify --cached kernel                  what ran: every version of it in Triton's cache

checked: barriers: every interleaving for K in 0, 64, …, 448
  not proved: …
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tawa.cli.cached import verify_cached
from tawa.cli.completion import complete_kernel
from tawa.cli.failures import UsageError, checks, require_folder
from tawa.cli.inputs.job import (
    ArchOption,
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
from tawa.cli.pages import html_option, save_page
from tawa.cli.verdicts import print_verdict, save_trace, status_of
from tawa.errors import did_you_mean
from tawa.runtime.progress import progress

if TYPE_CHECKING:
    from tawa.ir import Module
    from tawa.machine.machines import Machine
    from tawa.verify.verdict import Verdict

ProgramArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE.ttgir | FILE.py:KERNEL",
        help="A program with layouts, or a file and a kernel in it.",
        autocompletion=complete_kernel,
    ),
]
AssumeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--assume",
        metavar="FACT",
        help="A fact about a scalar argument, or a part of a descriptor, that the check may assume: 'L >= 128', "
        "'K % 64 == 0', '0 < M <= 4096', 'a.shape[1] >= 64'. Repeatable.",
    ),
]
TraceOption = Annotated[
    Path | None,
    typer.Option("--trace", metavar="FILE.json", help="Save the run that goes wrong for chrome://tracing or Perfetto."),
]
HtmlOption = Annotated[
    Path | None, html_option("the verdict, the source, and the run that goes wrong, to step through")
]
CachedOption = Annotated[
    str,
    typer.Option(
        "--cached",
        metavar="NAME|HASH",
        help="Check kernels in Triton's cache: all versions of that name, or the one whose hash begins with the text.",
    ),
]
TripsOption = Annotated[
    int | None,
    typer.Option(
        "--trips", min=0, help="The largest trip count tried for an innermost loop. Default: twice the ring depth + 1."
    ),
]


class Success(StrEnum):
    """The verdicts with exit status 0."""

    proved = "proved"
    checked = "checked"


AcceptOption = Annotated[
    Success,
    typer.Option("--accept", help="What exits with 0: a proof alone, or also a check of the runs that it states."),
]


@dataclass(frozen=True, slots=True)
class Program:
    """The program to check: one level or both. note: a remark on where the program comes from.

    how: a line on how the kernel was compiled; empty for a file. target: the GPU that it was made for; None if it names
    none that Tawa knows.
    """

    name: str
    aref: Module | None
    barrier: Module | None
    note: str = ""
    specialised: bool | None = None
    how: str = ""
    target: Machine | None = None


@checks
def verify_command(
    target: ProgramArgument = "",
    sig: SigOption = "",
    const: ConstOption = "",
    num_warps: WarpsOption = 4,
    num_stages: StagesOption = 3,
    option: PlanOptionsOption = None,
    plan: PlanFileOption = "",
    mapping: MappingFileOption = "",
    arch: ArchOption = "",
    assume: AssumeOption = None,
    trips: TripsOption = None,
    trace: TraceOption = None,
    html: HtmlOption = None,
    cached: CachedOption = "",
    accept: AcceptOption = Success.proved,
    as_json: JsonFlag = False,
) -> None:
    """Prove the protocol of a program free of deadlock and race, or show the run that goes wrong. Needs no GPU.

    What cannot be proved for all runs is checked in runs of stated numbers.

    A kernel is specialised wherever legal; tawa explain says what a launch gets. A Gluon kernel is taken as it is.

    With --cached, the program that ran is checked, from Triton's cache.

    Exit status: 0 proved, 1 refuted, 2 unknown or unsupported, 3 wrong usage, 4 checked (0 with --accept checked).

    Example: tawa verify kernel.ttgir --assume 'K >= 128'
    """
    from tawa.verify.assumptions import parse_assumptions
    from tawa.verify.check import check_levels

    if trace is not None:
        require_folder("--trace", trace)
    if html is not None:
        require_folder("--html", html)
    parse_assumptions(assume or [])  # errors in the command line are reported before the compile
    if cached:
        if target:
            raise UsageError(f"{target} and --cached {cached} are two programs", "leave one of them out")
        if html is not None:
            raise UsageError("--html goes with one program, and --cached may name several", "leave --html out")
        refuse_kernel_options(cached, sig=sig, const=const, option=option, plan=plan, arch=arch)
        raise typer.Exit(verify_cached(cached, assume or [], trips, trace, as_json, accept.value))
    if not target:
        raise UsageError("no program is named", "give FILE.ttgir, FILE.py:KERNEL, or --cached NAME")
    if names_kernel(target):
        about = target, sig, const, num_warps, num_stages, option
        program = _compiled(target, read_job(*about, plan=plan, gluon=True, mapping=mapping, arch=arch))
    else:
        refuse_kernel_options(target, sig=sig, const=const, option=option, plan=plan, mapping=mapping, arch=arch)
        program = _from_file(target)
    with progress(f"checking {program.name}") as tell:
        verdict = check_levels(
            program.aref,
            program.barrier,
            assume=assume or [],
            max_trips=trips,
            told=lambda check, used, budget: tell(used, budget, check),
        )
    save_trace(trace, verdict)
    if html is not None:
        from tawa.runtime.page.checked import verdict_page

        page = verdict_page(program.name, verdict, program.barrier, program.note)
        save_page(html, page, f"the verdict on {program.name}")
    if as_json:
        typer.echo(json.dumps(_facts(program, verdict), indent=2))
    else:
        print_verdict(verdict, program.note, program.how)
    raise typer.Exit(status_of(verdict, accept.value))


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
    from tawa.machine.machines import machine_of_module

    module = read_ttgir(existing_file(target))
    gpu = machine_of_module(module)
    if any(op.name.startswith("aref.") for op in module.walk()):
        return Program(target, module, None, target=gpu)
    return Program(target, None, module, target=gpu)


def _compiled(target: str, job: Job) -> Program:
    """Both levels of a specialised kernel; stock Triton's program of a declined one; a Gluon kernel as it is."""
    found = job.levels()
    note = f"not specialised: {found.declined}; stock Triton's program is checked" if found.declined else ""
    how = job.how if found.specialised else ""
    return Program(target, found.aref, found.barrier, note, found.specialised, how, found.target)


def _facts(program: Program, verdict: Verdict) -> dict[str, Any]:
    from tawa.verify.witness import verdict_to_dict

    levels = [name for name in ("aref", "barrier") if getattr(program, name) is not None]
    known = {"program": program.name, "levels": levels, "specialised": program.specialised, "note": program.note}
    known["target"] = program.target.name if program.target is not None else None
    return {**known, **verdict_to_dict(verdict)}
