"""``tawa compile``: compiles one kernel ahead of time and prints a level of it."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tawa.cli.failures import reports_failures
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
    plan_of_compiled,
    read_job,
)
from tawa.runtime.explain.table import plural

if TYPE_CHECKING:
    from tawa.runtime.explain.explanation import Explanation


class Level(StrEnum):
    """The levels of a kernel, in the order of the compile, its Plan, and its source in Gluon."""

    ttir = "ttir"
    ttgir = "ttgir"
    aref = "aref"
    barrier = "barrier"
    llir = "llir"
    ptx = "ptx"
    sass = "sass"
    plan = "plan"
    gluon = "gluon"


EmitOption = Annotated[
    Level | None,
    typer.Option(
        "--emit",
        metavar="LEVEL",
        help="Print this level of the kernel (ttir, ttgir, aref, barrier, llir, ptx, sass); plan: the Plan it was "
        "compiled by, as JSON for --plan; gluon: a Gluon module.",
    ),
]


@reports_failures
def compile_command(
    target: KernelArgument,
    sig: SigOption = "",
    const: ConstOption = "",
    num_warps: WarpsOption = 4,
    num_stages: StagesOption = 3,
    option: PlanOptionsOption = None,
    plan: PlanFileOption = "",
    mapping: MappingFileOption = "",
    arch: ArchOption = "",
    emit: EmitOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Compile a kernel, specialised wherever legal, and print a level of it. Needs no GPU.

    With a Plan the kernel is specialised by it, or the command fails. If the Plan needs a launch by Triton (descriptors
    from the launcher, a persistent form), the kernel is compiled for one. So it is for --emit gluon, whose module makes
    the arguments of such a launch itself.

    Example: tawa compile gemm.py:gemm --sig 'a=*fp16:16, K=i32:16' --const BM=128 --emit ptx
    """
    from tawa.bridge.launch.why_stock import why_not_specialised

    job = read_job(target, sig, const, num_warps, num_stages, option, plan=plan, mapping=mapping, arch=arch)
    if emit and not as_json:
        compiled = job.compile(launched=emit is Level.gluon)
        typer.echo(level_text(compiled, emit).rstrip())
        if emit is Level.plan and (reason := why_not_specialised(compiled)):
            typer.echo(f"{job.kernel.__name__}: left to stock Triton: {reason}", err=True)
        return
    compiled, explanation = job.explain(launched=emit is Level.gluon)
    if not as_json:
        typer.echo(summary(explanation))
        return
    facts = explanation.to_dict()
    if emit:
        facts["emit"] = {emit.value: level_text(compiled, emit)}
    typer.echo(json.dumps(facts, indent=2))


def level_text(compiled: Any, level: Level) -> str:
    """One level of a compiled kernel. A kernel left to stock Triton has no aref level: a comment says why."""
    from tawa.bridge.launch.why_stock import why_not_specialised

    if level is Level.plan:
        return plan_of_compiled(compiled).to_json()
    if level is Level.gluon:
        from tawa.bridge.gluon.emit import emit_gluon

        return emit_gluon(compiled).text
    if level in (Level.aref, Level.barrier) and level.value not in compiled.asm:
        return f"// not specialised: {why_not_specialised(compiled)}"
    return compiled.asm[level.value]


def summary(explanation: Explanation) -> str:
    """The outcome in short; one line if the kernel was specialised."""
    if not explanation.applied:
        where = f"\n  at {explanation.location}" if explanation.location else ""
        cure = f"\n  cure: {explanation.cure}" if explanation.cure else ""
        more = f"\n  more: {explanation.section}" if explanation.section else ""
        return f"{explanation.kernel}: compiled by stock Triton: {explanation.reason}{where}{cure}{more}"
    parts = " + ".join(f"{part.name} ({plural(part.num_warps, 'warp')})" for part in explanation.partitions)
    depths = ", ".join(f"{ring.name} D={ring.depth}" for ring in explanation.rings)
    how = " (wherever legal)" if explanation.wherever_legal and explanation.mode != "pinned" else ""
    issued = any(part.role == "mma" for part in explanation.partitions)  # by one thread: P says nothing
    in_flight = "" if issued else f"P={explanation.mma_depth}; "
    return (
        f"{explanation.kernel}: specialised{how}: {parts}; {depths}; {in_flight}"
        f"{explanation.shared_bytes} bytes of shared memory, {explanation.spill_bytes} bytes spilled"
    )
