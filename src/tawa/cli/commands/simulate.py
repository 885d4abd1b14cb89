"""``tawa simulate``: runs a kernel in NumPy and compares the specialised with the unspecialised program, bit by bit.

tawa simulate gemm.py:gemm --grid 2,2 --arg a=randn:256x512:f16:box=128x64 … --arg K=512 --const BM=128,…

unspecialised program  →  run once           →  the right bits
a level of the kernel  →  run in each order  →  the same bits?
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tawa.cli.commands.verify import ProgramArgument, existing_file, names_kernel, refuse_kernel_options
from tawa.cli.comparison import Subject, Trapped, Values, check_save_path, compare, facts, print_comparison, save
from tawa.cli.failures import checks
from tawa.cli.inputs.arguments import parse_arguments
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
from tawa.cli.inputs.kernel_file import load_kernel
from tawa.cli.inputs.launch_arguments import (
    addresses_and_numbers,
    check_arguments,
    launch_values,
    parameters_of,
    read_grid,
    whole_signature,
    with_defaults,
)
from tawa.cli.timelines import (
    check_timeline_path,
    save_timelines,
    take_timelines,
    timeline_facts,
    timeline_lines,
)
from tawa.errors import CompileError
from tawa.runtime.progress import progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tawa.cli.inputs.arguments import Argument
    from tawa.ir import Module


class Level(StrEnum):
    """The levels of a kernel that can be run."""

    ttgir = "ttgir"
    aref = "aref"
    barrier = "barrier"
    stock = "stock"


class Orders(StrEnum):
    """When asynchronous work lands."""

    eager = "eager"
    late = "late"
    random = "random"
    all = "all"


GridOption = Annotated[str, typer.Option("--grid", metavar="X[,Y[,Z]]", help="How many programs.")]
ArgOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="NAME=VALUE",
        help="A value for a parameter: a=randn:256x512:f16 (also rand, zeros, ones, arange, nan, randint(lo,hi), "
        "FILE.npy), …:box=128x64 for a host descriptor, K=512, alpha=0.5, bias=None. Repeatable. "
        "Types that --sig leaves out follow from it.",
    ),
]
LevelOption = Annotated[
    Level | None,
    typer.Option(
        "--level",
        metavar="LEVEL",
        help="The level to run: ttgir (before any pipelining), aref or barrier (Tawa's), stock (Triton's own). "
        "Default: barrier.",
    ),
]
OrderOption = Annotated[
    Orders,
    typer.Option(
        "--order",
        metavar="ORDER",
        help="When asynchronous copies and wgmmas land: eager (at once), late (at the last legal moment), random, or "
        "all of these.",
    ),
]
SaveOption = Annotated[Path | None, typer.Option("--save", metavar="OUT.npz", help="Save the tensors.")]
TimelineOption = Annotated[
    Path | None,
    typer.Option(
        "--timeline",
        metavar="FILE",
        help="Save a timeline of the first program, below that of stock Triton's kernel: .svg, .png, or .json for "
        "chrome://tracing and Perfetto.",
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of the inputs and of the random order.")]


@checks
def simulate_command(
    target: ProgramArgument,
    grid: GridOption,
    arg: ArgOption = None,
    sig: SigOption = "",
    const: ConstOption = "",
    num_warps: WarpsOption = 4,
    num_stages: StagesOption = 3,
    option: PlanOptionsOption = None,
    plan: PlanFileOption = "",
    mapping: MappingFileOption = "",
    arch: ArchOption = "",
    level: LevelOption = None,
    order: OrderOption = Orders.all,
    seed: SeedOption = 0,
    save_to: SaveOption = None,
    timeline: TimelineOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a kernel in NumPy, in several orders, and compare its bits with the unspecialised program. Needs no GPU.

    The kernel is specialised wherever legal; tawa explain says what a launch gets.

    Exit status: 0 the same bits, 1 other bits, a trap or a deadlock, 2 cannot be told, 3 wrong usage.

    Example: tawa simulate gemm.py:gemm --grid 2,2 --arg a=randn:256x512:f16 --arg K=512 --const BM=128
    """
    programs = read_grid(grid)
    arguments = parse_arguments(arg or [])
    if timeline is not None:
        check_timeline_path(timeline)
    if save_to is not None:
        check_save_path(save_to)
    if names_kernel(target):
        kernel = load_kernel(target)
        arguments = with_defaults(kernel, arguments)
        sig = whole_signature(kernel, sig, const, arguments)
        about = target, sig, const, num_warps, num_stages, option
        job = read_job(*about, plan=plan, gluon=True, mapping=mapping, arch=arch)
        subject = _compiled(job, level or Level.barrier, sig, arguments, programs)
    else:
        kernels = {"sig": sig, "const": const, "option": option, "plan": plan, "mapping": mapping, "arch": arch}
        refuse_kernel_options(target, **kernels, level=level)
        subject = _from_file(target)
    parameters = parameters_of(subject.arguments_of)
    check_arguments(parameters, arguments)

    def make_values() -> Values:
        return launch_values(parameters, arguments, seed)

    try:
        with progress("simulating") as tell:
            found = compare(subject, parameters, _orders(order), programs, make_values, seed, tell)
    except Trapped as trap:
        if as_json:
            typer.echo(json.dumps(trap.facts(), indent=2))
        else:
            trap.print()
        raise typer.Exit(trap.status) from trap
    with progress("timing on the simulator's clock"):
        panels, missing = take_timelines(subject, programs, make_values) if timeline else ((), "")
    if save_to is not None:
        save(save_to, found)
    if timeline is not None:
        save_timelines(timeline, panels)
    if as_json:
        typer.echo(json.dumps({**facts(found), "timelines": timeline_facts(panels)}, indent=2))
    else:
        print_comparison(found, [*timeline_lines(panels), *([missing] if missing else [])])
    raise typer.Exit(found.status)


def _orders(order: Orders) -> list[str]:
    return [it.value for it in Orders if it is not Orders.all] if order is Orders.all else [order.value]


def _from_file(target: str) -> Subject:
    from tawa.bridge.triton.read_module import read_ttgir

    path = existing_file(target)
    return Subject(path.name, read_ttgir(path))


def _compiled(
    job: Job, level: Level, sig: str, arguments: Mapping[str, Argument], grid: tuple[int, ...]
) -> Subject:  # fmt: skip
    """A level of the kernel that a launch gets where it is legal, to be compared with the one before any pipelining."""
    from tawa.bridge.launch.added_arguments import launch_spec
    from tawa.bridge.launch.answer import answer_for
    from tawa.bridge.launch.why_stock import why_not_specialised
    from tawa.bridge.triton.jitted import is_gluon
    from tawa.bridge.triton.read_module import read_final, read_levels, read_unspecialised
    from tawa.bridge.triton.versions import refuse_untested
    from tawa.runtime.explain.timelines import argument_names

    refuse_untested(f"{job.kernel.__name__} is not run")
    if is_gluon(job.kernel):
        return Subject("the Gluon kernel", job.levels().barrier)
    try:
        compiled = job.compile_unchecked()
    except CompileError as error:
        cure = f"{error.cure or f'check the types: {sig}'}; a host descriptor needs :box=128x64 in its --arg, or --sig"
        raise CompileError(error.what, error.location, error.calls, cure) from error
    baseline = read_unspecialised(compiled, num_warps=job.num_warps, num_stages=job.num_stages)

    def stock() -> Module:
        return read_final(job.compile_stock())

    if level is Level.ttgir:
        return Subject("the ttgir level", baseline, stock=stock)
    if level is Level.stock:
        return _stock(stock(), baseline)
    if reason := why_not_specialised(compiled):
        return _stock(read_final(compiled), baseline, reason)
    answer = answer_for(compiled, addresses_and_numbers(arguments), grid)
    if answer.decision == "declined":
        found = f", here {answer.found}" if answer.found else ""
        return _stock(stock(), baseline, f"{answer.reason} ({answer.condition}{found})", answer.cure)
    compiled = answer.compiled or compiled
    aref, barrier = read_levels(compiled)
    title, module = ("Tawa's kernel, aref level", aref) if level is Level.aref else ("Tawa's kernel", barrier)
    how = "specialised wherever legal" if job.how else ""
    about = launch_spec(compiled), argument_names(compiled)
    return Subject(title, module, baseline, "", stock, how, "", *about)


def _stock(program: Module, baseline: Module, reason: str = "", cure: str = "") -> Subject:
    """Stock Triton's program. reason: why the launch is not specialised, if stock Triton's was not asked for."""
    from tawa.bridge.triton.versions import triton_version

    change = f"; cure: {cure}" if cure else ""
    note = f"not specialised: {reason}{change}; stock Triton's program is run" if reason else ""
    maker = f"Triton {'.'.join(map(str, triton_version()))}"
    return Subject("the program of stock Triton", program, baseline, note, maker=maker)
