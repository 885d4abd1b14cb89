"""The schedule of the attention loop as text and as a picture: ``python bench/schedule.py [--causal] [--json FILE]``.

Compiles the two-loop kernel (fp16, d = 128, blocks of 128 x 128, two consumer groups) without a GPU, takes the
compiler's own `Schedule` of each loop out of the compile, prints it, and draws three iterations of the first one in
``docs/images/schedule.png`` (and as SVG in ``build``). `schedule_picture` draws.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from tawa.analysis.channels import find_channels  # noqa: E402
from tawa.analysis.dependences import DependenceInfo, find_dependences  # noqa: E402
from tawa.analysis.loads import find_dot_loads  # noqa: E402
from tawa.kernels.case import Case  # noqa: E402
from tawa.pipeline import aref_passes  # noqa: E402
from tawa.plan import Plan  # noqa: E402
from tawa.plan.schedule import Schedule  # noqa: E402
from tawa.plan.scheduler import Limits, candidate_schedules  # noqa: E402
from tawa.transforms.pipeline_stages import PipelineStages, choose_schedules, staged_loops  # noqa: E402


@dataclass(frozen=True, slots=True, eq=False)
class ScheduledLoop:
    """A loop with the schedule that the compiler gave it. limits: of one consumer group."""

    schedule: Schedule
    graph: DependenceInfo
    limits: Limits


@dataclass(frozen=True, slots=True, eq=False)
class Staged:
    """A compiled kernel: its Plan, and the loops with a schedule of one group, out of `loop_count`."""

    plan: Plan
    loop_count: int
    loops: tuple[ScheduledLoop, ...]


def staged_kernel(case: Case, options: Mapping[str, Any]) -> Staged:
    """Compiles a case with Tawa's launch `options` and takes its schedules; raises ValueError where it is declined."""
    from tawa.cli.demo import compile_case

    compiled = compile_case(case, **options)
    record = compiled.metadata.tawa
    if not record["applied"]:
        raise ValueError(f"{case.name} is not specialised: {record['reason']}")
    plan = Plan.from_json(json.dumps(record["plan"]))
    module = _one_group(compiled, plan.consumer_groups, case)
    for step in aref_passes(tuple(find_channels(find_dot_loads(module))), plan):
        if isinstance(step, PipelineStages):
            break
        step.run(module)
    loops = staged_loops(module)
    consumers = [part for part in plan.partitions if part.role == "consumer"]
    limits = Limits(consumers[0].num_warps, min(consumers[0].registers or 255, 255))
    # The groups are alike, and those of the first come first.
    count = len(loops) // plan.consumer_groups
    found = [it for it in choose_schedules(module, plan) if it.loop < count]
    return Staged(plan, count, tuple(ScheduledLoop(it, find_dependences(loops[it.loop]), limits) for it in found))


def flat_plan(case: Case, options: Mapping[str, Any]) -> str:
    """The kernel's own Plan with one stage for every loop, as JSON: what the coarse-grained pipeline is measured by."""
    staged = staged_kernel(case, options)
    flat: list[Schedule] = []
    for group in range(staged.plan.consumer_groups):
        for loop in staged.loops:
            number = loop.schedule.loop + group * staged.loop_count
            candidates = candidate_schedules(loop.graph, loop.limits, number)
            flat.append(next(it for it in candidates if it.stages == 1))
    return replace(staged.plan, schedules=tuple(flat)).to_json()


def _one_group(compiled: Any, groups: int, case: Case) -> Any:
    """The program that the passes start from: with layouts, for one of the consumer groups."""
    from tawa.bridge.attempt_data import Toolchain
    from tawa.bridge.row_split import split_front
    from triton._C.libtriton import ir, nvidia
    from triton.compiler.compiler import make_backend

    from tawa.bridge.compile import hopper_target
    from tawa.bridge.read_module import read_unspecialised
    from tawa.bridge.stages import split_make_ttgir
    from tawa.ir import parse_module

    launch = {"num_warps": case.num_warps, "num_stages": case.num_stages}
    if groups == 1:
        return read_unspecialised(compiled, **launch)
    target = hopper_target()
    backend: Any = make_backend(target)
    split = split_make_ttgir(type(backend))
    assert split is not None, "the compile before would have declined"
    tools = Toolchain(split, (), backend.parse_options(launch), target.arch)
    context = ir.context()
    ir.load_dialects(context)
    nvidia.load_dialects(context)
    text, remarks = split_front(tools, compiled.asm["ttir"], context, {}, groups)
    if text is None:
        raise ValueError(f"{case.name}: {remarks[0].reason}")
    return parse_module(text)


def main() -> None:
    """Compiles, prints and draws."""
    from schedule_picture import draw

    from tawa.kernels.attention.cases import bench_case

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
