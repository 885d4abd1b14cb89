"""Ping-pong: which dots of a consumer group are issued in one section, while the others wait.

A *section* is a sequence of dots with no wait, release, branch or loop between them, and no arithmetic during which the
tensor cores would be idle for longer than a section costs. A section counts if it is in a loop body, or before a
loop with dots, where it separates the groups at the start. Dots after the last such loop are in no section.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.loops.costs import cost_of
from tawa.dialects.aref import ConsumedOp
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.effects import has_side_effect
from tawa.dialects.scf import LOOPS, ConditionOp, YieldOp
from tawa.dialects.ttng import WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.dialects.warp import EndOp, GroupOp, find_groups
from tawa.ir import Block, Module, Operation
from tawa.plan.defaults import PING_PONG_CYCLES
from tawa.plan.plan import Plan

_ENDS = op_names(YieldOp, ConditionOp, EndOp)


def choose_sections(module: Module, plan: Plan) -> Plan:
    """The sections of every group, if ping-pong is on and the Plan leaves them open."""
    if not plan.ping_pong or plan.ping_pong_sections is not None:
        return Plan()
    group = next(group for group in find_groups(module) if group.role == "consumer")
    numbers = {op: number for number, op in enumerate(dots_of_group(group))}
    return Plan(ping_pong_sections=tuple((numbers[it.first], numbers[it.last]) for it in find_sections(group)))


def dots_of_group(group: GroupOp) -> list[Operation]:
    """The dots of a group, in program order; a section is identified by the numbers of its first and last dot."""
    return [op for op in group.op.walk() if WarpGroupDotOp.of(op)]


@dataclass(frozen=True, slots=True)
class Section:
    """From the first dot's issue to the last one's."""

    first: Operation
    last: Operation


def find_sections(group: GroupOp) -> list[Section]:
    """The sections of a group, in textual order."""
    found: list[Section] = []

    def visit(block: Block, repeated: bool) -> None:
        loops = [index for index, op in enumerate(block.ops) if _holds_loop_with_dots(op)]
        end = len(block.ops) if repeated else max(loops, default=0)
        dots: list[Operation] = []
        queued = 0  # cycles for which the dots of the section still keep the tensor cores busy
        for index, op in enumerate(block.ops):
            cost = cost_of(op, group.num_warps)
            queued = queued - cost.stream_cycles if dots else 0
            if WarpGroupDotOp.of(op) and index < end:
                dots.append(op)
                queued = max(queued, 0) + cost.tensor_cycles
            if dots and (_ends_section(op) or queued < -PING_PONG_CYCLES):
                found.append(Section(dots[0], dots[-1]))
                dots = []
            for region in op.regions:
                for nested in region.blocks:
                    visit(nested, op.name in LOOPS or (repeated and not loops))

    visit(group.body, False)
    return found


def _ends_section(op: Operation) -> bool:
    """Whether a section ends at `op`, or after it if it is a synchronous dot."""
    dot = WarpGroupDotOp.of(op)
    if dot:
        return not dot.is_async
    if ConsumedOp.of(op) or WarpGroupDotWaitOp.of(op) or op.name in _ENDS:
        return True
    return bool(op.regions) and any(_holds_dots(op) or has_side_effect(nested) for nested in op.walk())


def _holds_dots(op: Operation) -> bool:
    return any(WarpGroupDotOp.of(nested) for nested in op.walk())


def _holds_loop_with_dots(op: Operation) -> bool:
    return any(nested.name in LOOPS and _holds_dots(nested) for nested in op.walk())
