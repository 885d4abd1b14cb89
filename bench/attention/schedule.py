"""The schedule of the attention loop as text and as a picture: ``python -m bench.attention.schedule``.

Compiles the two-loop kernel (fp16, d = 128, blocks of 128 x 128, two consumer groups) without a GPU and prints the
`Schedule` that the compiler gave each loop. Three iterations of the first one are drawn in ``docs/images/schedule.png``
(and as SVG in ``build``) by `bench.attention.schedule_picture`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import ROOT
from tawa.analysis.loops.dependences import DependenceInfo, find_dependences
from tawa.dialects.scf import ForOp
from tawa.flow import Flow, run
from tawa.ir import Module, parse_module
from tawa.pipeline import TTGIR
from tawa.plan import LoopPlan, Plan
from tawa.plan.decide.loops import numbered, staged_loops
from tawa.plan.decide.rings import Target
from tawa.plan.schedule import Schedule
from tawa.plan.scheduler import Limits, candidate_schedules
from tests.cases.case import Specimen


@dataclass(frozen=True, slots=True, eq=False)
class ScheduledLoop:
    """A loop with the schedule that the compiler gave it. limits: of one consumer group."""

    schedule: Schedule
    graph: DependenceInfo
    limits: Limits


@dataclass(frozen=True, slots=True, eq=False)
class Staged:
    """A compiled kernel: its Plan, and the loops of one group that have a schedule."""

    plan: Plan
    loops: tuple[ScheduledLoop, ...]


def staged_kernel(case: Specimen, options: Mapping[str, Any]) -> Staged:
    """Compiles a case with Tawa's launch `options` and returns its schedules; raises ValueError if it is declined."""
    from tests.cases.compiled import compile_case

    compiled = compile_case(case, **options)
    record = compiled.metadata.tawa
    if not record["applied"]:
        raise ValueError(f"{case.name} is not specialised: {record['reason']}")
    plan = Plan.of(record["plan"])
    module = _to_be_staged(compiled, plan, case)
    loops: dict[int, ForOp] = {}
    for number, loop in numbered(staged_loops(module)):
        loops.setdefault(number, loop)  # all groups have the same program
    consumers = [part for part in plan.partitions if part.role == "consumer"]
    limits = Limits(consumers[0].num_warps, min(consumers[0].registers or 255, 255))
    found = tuple(ScheduledLoop(it, find_dependences(loops[it.loop]), limits) for it in plan.schedules)
    return Staged(plan, found)


def flat_plan(case: Specimen, options: Mapping[str, Any]) -> str:
    """The kernel's own Plan with one stage for every loop, as JSON: the baseline of the coarse-grained pipeline."""
    staged = staged_kernel(case, options)
    flat: list[LoopPlan] = []
    for loop in staged.loops:
        number = loop.schedule.loop
        candidates = candidate_schedules(loop.graph, loop.limits, number)
        flat.append(LoopPlan(number, stages=1, schedule=next(it for it in candidates if it.stages == 1)))
    return Plan(loops=tuple(flat)).over(staged.plan).to_json()


def _to_be_staged(compiled: Any, plan: Plan, case: Specimen) -> Module:
    """The partitioned program of a kernel at the point where its loops are scheduled."""
    from triton._C.libtriton import ir, nvidia
    from triton.compiler.compiler import make_backend

    from tawa.bridge.driver.data import Job
    from tawa.bridge.driver.forms import lay_out
    from tawa.bridge.triton.device import gpu_target
    from tawa.bridge.triton.stages import split_make_ttgir
    from tawa.bridge.triton.structured import read_kernel
    from tawa.machine.machines import SM_90

    target = gpu_target(SM_90)
    backend: Any = make_backend(target)
    split = split_make_ttgir(type(backend))
    assert split is not None, "the compile before would have declined"
    parsed = backend.parse_options({"num_warps": case.num_warps, "num_stages": case.num_stages})
    context = ir.context()
    ir.load_dialects(context)
    nvidia.load_dialects(context)
    ttir = compiled.asm["ttir"]
    launch = Target(case.num_warps, case.num_stages)
    form = Flow(read_kernel(ttir, context), Plan(groups=plan.groups, split=plan.split, sums=plan.sums), target=launch)
    text = lay_out(Job(ttir, context, case.name, {}, parsed, target.arch, split), form)
    if not isinstance(text, str):
        raise ValueError(f"{case.name}: {text.reason}")
    flow = Flow(parse_module(text), plan, target=form.target, pinned=True)
    run(flow, TTGIR, until="schedule")
    return flow.module


def main() -> None:
    """Compiles, prints and draws."""
    from bench.attention.schedule_picture import draw
    from tests.cases.attention.cases import bench_case

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--causal", action="store_true", help="both loops are printed, the first is drawn")
    parser.add_argument("--json", type=Path, help="write the schedules there")
    arguments = parser.parse_args()
    case = bench_case("two_loops", "fp16", 128, arguments.causal, 4096, tile=(128, 128, 8))
    staged = staged_kernel(case, {"enable_warp_specialization": True})
    for loop in staged.loops:
        print(str(loop.schedule).replace(f"{ROOT}/", ""), end="\n\n")
    if arguments.json:
        texts = ",\n".join(loop.schedule.to_json() for loop in staged.loops)
        arguments.json.write_text(f"[{texts}]\n")
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    for path in (build / "schedule.svg", ROOT / "docs" / "images" / "schedule.png"):
        draw(staged.loops[0], staged.plan, path)
        print(path)


if __name__ == "__main__":
    main()
