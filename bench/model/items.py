"""Measured points with what the model needs of them: the workload, the launch, and the way of executing it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from bench.model.compiled import compile_points
from bench.model.points import Point
from tawa.analysis.work.workload import Workload, find_workload
from tawa.bridge.launch.stock_facts import recorded_facts
from tawa.dialects.parameters import parameter_name
from tawa.ir import Module
from tawa.machine.coefficients import Coefficients
from tawa.machine.machines import SM_90
from tawa.machine.nvidia import WARP_GROUP
from tawa.plan.cost.launches import Launch, launch_of
from tawa.plan.cost.programs import Program, stock_program
from tawa.plan.cost.time_model import predict
from tawa.plan.fields import LoopPlan, OperandPlan, PartitionPlan, RingPlan, StorePlan
from tawa.plan.plan import Plan
from tests.cases.case import Case, Number

_MOST_PIECES = 16
"""Pieces of a row of an operand; with more, stock Triton's kernel takes ten times as long, and nothing is to decide."""


@dataclass(frozen=True, slots=True)
class Item:
    """One point. stock: whether stock Triton's kernel was measured."""

    point: Point
    workload: Workload
    launch: Launch
    program: Program

    @property
    def stock(self) -> bool:
        """Whether this is stock Triton's kernel."""
        return not self.program.specialised

    def predicted_us(self, coefficients: Coefficients | None = None) -> float:
        """The model's time."""
        return predict(self.workload, self.launch, self.program, coefficients)


def items_of(points: Sequence[Point], folder: Path) -> tuple[list[Item], Counter[str]]:
    """The items of points, and how many were left out for which reason. folder: keeps what is compiled."""
    from tawa.bridge.triton.structured import new_context, read_kernel

    compiled = compile_points(points, folder)
    context = new_context()
    kernels: dict[str, tuple[Module, Workload | None]] = {}
    found: list[Item] = []
    left: Counter[str] = Counter()
    for point in points:
        made = compiled[point.compiled_as]
        reason = why_left_out(point, made)
        if reason:
            left[reason] += 1
            continue
        if point.compiled_as not in kernels:
            module = read_kernel(made["ttir"], context)
            kernels[point.compiled_as] = module, find_workload(module)
        module, workload = kernels[point.compiled_as]
        if workload is None:
            left["no structured control flow"] += 1
            continue
        if scattered(workload):
            left["operands that are loaded element by element"] += 1
            continue
        launch = launch_of(workload, arguments_of(point.case, module, workload), point.case.launch_grid())
        found.append(Item(point, workload, launch, program_of(point, made, workload)))
    return found, left


def scattered(workload: Workload) -> bool:
    """Whether operands are loaded element by element: there the form decides nothing but whether TMA can."""
    loads = (load for work in workload.blocks.values() for load in work.loads)
    return any(load.operand and load.runs > _MOST_PIECES * load.rows for load in loads)


def why_left_out(point: Point, made: dict[str, Any]) -> str:
    """Why a point says nothing about a Plan that the compiler makes today; empty if it does."""
    if "error" in made:
        return "does not compile"
    if point.options is None or point.plan is not None:
        return ""
    if made["plan"] is None:
        return "" if point.options == {} else "declined today"
    if _chosen_at_launch(point, made):
        return "launches choose between forms"
    return "another Plan today" if point.told and point.told != made["reason"] else ""


def _chosen_at_launch(point: Point, made: dict[str, Any]) -> bool:
    """Whether the launch of a point, which has no recorded Plan, may have got another form than the compiled one.

    Where the options leave it open, launches of more programs than SMs had the persistent form when these results were
    taken.
    """
    forecast = (made.get("launch") or {}).get("forecast") or {}
    many = prod(point.case.launch_grid()) > SM_90.processors
    return point.options == {} or (many and any(it["persistent"] for it in forecast.get("forms", ())))


def arguments_of(case: Case, module: Module, workload: Workload) -> list[int | None]:
    """The values of a kernel's integer parameters, by index; None for all others."""
    values: list[int | None] = []
    for parameter in workload.function.body.args:
        given = case.arguments.get(parameter_name(module, parameter))
        known = isinstance(given, Number) and not isinstance(given.value, float) and parameter.type.startswith("i")
        values.append(case.size(given.value) if known else None)
    return values


def program_of(point: Point, made: dict[str, Any], workload: Workload) -> Program:
    """A point's kernel."""
    if point.plan is not None:
        return recorded_program(point.plan, max(WARP_GROUP, point.case.num_warps))
    if made["plan"] is None:
        return stock_program(workload, point.case.num_warps, point.case.num_stages, recorded_facts(made))
    program = Program(Plan.from_json(json.dumps(made["plan"])))
    return replace(program, narrow=program.staged)  # such results are older than schedules that carry wider elements


def recorded_program(plan: Mapping[str, Any], num_warps: int) -> Program:
    """The program of a Plan of which the bench kept the main decisions. num_warps: of all consumers."""
    paths, groups = list(plan["paths"].values()), plan["groups"] or 1
    staged = any((it.get("stages") or 1) > 1 for it in plan["loops"])
    in_flight = max((it.get("mma_depth") or 0 for it in plan["loops"]), default=0)
    by_tma = plan["form"] == "persistent" and "promoted" in paths
    made = Plan(
        form=plan["form"] or "as_written",
        groups=groups,
        partitions=tuple(PartitionPlan(f"consumer{it}", "consumer", num_warps // groups) for it in range(groups)),
        ctas_per_sm=plan["ctas_per_sm"],
        operands=tuple(OperandPlan("operand", 0, at, path, "ring") for at, path in enumerate(paths)),
        stores=(StorePlan("result", path="promoted"),) if by_tma else (),
        loops=(LoopPlan(0, mma_depth=in_flight, stages=2 if staged else 0),),
        rings=(RingPlan("ring", depth=max((it or 1 for it in plan["rings"].values()), default=1)),),
    )
    return Program(made, narrow=staged and plan.get("narrow", True))


def groups_of(items: Iterable[Item]) -> list[list[Item]]:
    """Items that were measured side by side."""
    groups: dict[tuple[str, str, str], list[Item]] = defaultdict(list)
    for item in items:
        groups[item.point.group].append(item)
    return list(groups.values())
