"""Whether a schedule that a Plan pins keeps the dependences of its loop."""

from __future__ import annotations

from tawa.analysis.loops.dependences import DependenceInfo, is_fused
from tawa.errors import PlanError
from tawa.machine.nvidia import WARP_GROUP
from tawa.plan.cost.labels import label_of
from tawa.plan.cost.loop_costs import Limits, LoopCosts
from tawa.plan.schedule import Schedule


def check_schedule(graph: DependenceInfo, schedule: Schedule) -> None:
    """Raises PlanError, which names the dependence, if a pinned schedule violates a dependence of the loop."""
    name = f"the schedule of loop {schedule.loop}"
    if len(schedule.ops) != len(graph.nodes):
        raise PlanError(
            f"{name} has {len(schedule.ops)} operations, the loop has {len(graph.nodes)}; "
            "cure: start from the kernel's own schedule"
        )
    for edge in graph.edges:
        source, target = schedule.ops[edge.source], schedule.ops[edge.target]
        across = edge.distance + target.stage - source.stage
        first, then = label_of(graph, edge.source), label_of(graph, edge.target)
        if edge.kind == "together" and source.stage != target.stage:
            product = is_fused(graph.nodes[edge.source], graph.nodes[edge.target])
            why = "is rounded together with the product" if product else "reads the buffer of"
            raise PlanError(
                f"{name} puts {then!r} (operation {edge.target}) in stage {target.stage}, but it {why} "
                f"{first!r} in stage {source.stage}; cure: the same stage for both"
            )
        if across < 0 or (across == 0 and target.order <= source.order):
            raise PlanError(
                f"{name} has {then!r} (operation {edge.target}: stage {target.stage}, order {target.order}) before "
                f"{first!r} (operation {edge.source}: stage {source.stage}, order {source.order}), which it depends on "
                f"{f'{edge.distance} iteration later' if edge.distance else 'in the same iteration'}; "
                f"cure: a later order or stage for operation {edge.target}"
            )
    if any(op.stage for op in schedule.ops) and schedule.carried:
        carried = LoopCosts(graph, Limits(WARP_GROUP)).carried([op.stage for op in schedule.ops])
        if {(it.label, it.type) for it in carried} != {(it.label, it.type) for it in schedule.carried}:
            have, want = (
                ", ".join(f"{it.label} as {it.type}" for it in tiles) for tiles in (carried, schedule.carried)
            )
            raise PlanError(
                f"{name} carries {want}, but its stages carry {have or 'nothing'}; cure: leave `carried` out"
            )
