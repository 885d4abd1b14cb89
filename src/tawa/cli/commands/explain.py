"""``tawa explain``: what launches of the kernel get, why, and what it costs.

tawa explain gemm.py:gemm …                       gemm: depends on the launch: specialised where K >= 592, else …
tawa explain gemm.py:gemm … --arg K=64 --grid 8   gemm: declined for K = 64, programs = 8
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tawa.cli.failures import UsageError, reports_failures, require_folder
from tawa.cli.inputs.job import (
    ArchOption,
    ConstOption,
    JsonFlag,
    KernelArgument,
    MappingFileOption,
    PlanFileOption,
    PlanOptionsOption,
    SigOption,
    StagesOption,
    WarpsOption,
    read_constants,
    read_job,
    read_options,
    refuse_for_gluon,
)
from tawa.cli.pages import html_option, save_page
from tawa.remarks import SourceLocation
from tawa.runtime.explain.excerpt import excerpt

if TYPE_CHECKING:
    from tawa.cli.inputs.arguments import Argument

ValuesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="NAME=VALUE",
        help="An argument of the launch in question, as for tawa simulate: K=4096, a=randn:4096x4096:f16, "
        "…:box=128x64 for a host descriptor. Repeatable. Types that --sig leaves out follow from it.",
    ),
]
LaunchGridOption = Annotated[
    str, typer.Option("--grid", metavar="X[,Y[,Z]]", help="How many programs the launch in question has.")
]
LegalFlag = Annotated[
    bool,
    typer.Option(
        "--legal", help="Specialise wherever that is legal, without asking if it pays (only_if_faster=False)."
    ),
]


class Form(StrEnum):
    """What explain can print instead of the table."""

    mapping = "mapping"


HtmlOption = Annotated[
    Path | None,
    html_option(
        "the source by partition, the rings, a timeline beside stock Triton's (--arg and --grid set its sizes)"
    ),
]
EmitOption = Annotated[
    Form | None,
    typer.Option("--emit", help="Print the Plan in the kernel's own words instead: TOML for --mapping."),
]


@reports_failures
def explain_command(
    target: KernelArgument,
    sig: SigOption = "",
    const: ConstOption = "",
    num_warps: WarpsOption = 4,
    num_stages: StagesOption = 3,
    option: PlanOptionsOption = None,
    plan: PlanFileOption = "",
    mapping: MappingFileOption = "",
    arch: ArchOption = "",
    arg: ValuesOption = None,
    grid: LaunchGridOption = "",
    legal: LegalFlag = False,
    emit: EmitOption = None,
    html: HtmlOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Say what launches of a kernel get (specialised, declined, or what it depends on), why, and what it costs.

    Of a Gluon kernel: its partitions, rings and waits, and whether its protocol is proved.

    Needs no GPU.

    Example: tawa explain gemm.py:gemm --sig 'a=*fp16:16, K=i32:16' --const BM=128
    """
    from tawa.cli.inputs.kernel_file import load_kernel
    from tawa.cli.inputs.launch_arguments import read_grid

    sizes = read_grid(grid) if grid else None
    if html is not None:
        require_folder("--html", html)
    refuse_for_gluon(load_kernel(target), legal=legal, grid=grid, option=option)
    sig, values, given = _with_values(target, sig, const, arg)
    options = _with_legal(option, legal)
    about = target, sig, const, num_warps, num_stages, options
    job = read_job(*about, legal=False, plan=plan, mapping=mapping, gluon=True, arch=arch)
    simulated = job.simulated(given, sizes) if html is not None else None
    _, explanation = job.explain(launched=True, arguments=values, grid=sizes, simulated=simulated)
    if html is not None:
        save_page(html, explanation.to_html(), f"what launches of {explanation.kernel} get, and why")
    if as_json:
        typer.echo(explanation.to_json())
        return
    if emit is not None:
        typer.echo((explanation.mapping or stock_mapping(explanation.kernel)).rstrip())
        if not explanation.applied:
            typer.echo(f"{explanation.kernel}: left to stock Triton: {explanation.reason}", err=True)
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(explanation.table())
    if not explanation.applied and explanation.location:
        file, _, line = explanation.location.rpartition(":")
        console.print(excerpt(SourceLocation(file, int(line))), markup=False, style="dim", soft_wrap=True)


def stock_mapping(kernel: str) -> str:
    """The mapping of a kernel that is left to stock Triton."""
    from tawa.mapping import KernelWords, Mapping

    return Mapping(KernelWords(name=kernel, specialised=False)).toml()


def _with_values(
    target: str, sig: str, const: str, arg: list[str] | None
) -> tuple[str, dict[str, Any], dict[str, Argument]]:
    """The whole signature, and the arguments of the launch by name: as a launcher reads them, and as given."""
    from tawa.cli.inputs.arguments import parse_arguments
    from tawa.cli.inputs.kernel_file import load_kernel
    from tawa.cli.inputs.launch_arguments import addresses_and_numbers, whole_signature, with_defaults

    given = parse_arguments(arg or [])
    if not given:
        return sig, {}, {}
    kernel = load_kernel(target)
    fixed = read_constants(kernel, const)
    whole = {name: it for name, it in with_defaults(kernel, given).items() if name in given or name not in fixed}
    sig = whole_signature(kernel, sig, const, whole, all_values=False)
    return sig, addresses_and_numbers(whole), whole


def _with_legal(options: list[str] | None, legal: bool) -> list[str]:
    options = list(options or [])
    if not legal:
        return options
    named = read_options(options)
    for name, value in (("only_if_faster", False), ("enable_warp_specialization", True), ("mode", "automatic")):
        if named.get(name) not in (None, value):
            raise UsageError(
                f"--legal and --option {name}={named[name]} say opposite things",
                "leave one of them out: --legal specialises without asking if it pays",
            )
    return options if "only_if_faster" in named else [*options, "only_if_faster=False"]
