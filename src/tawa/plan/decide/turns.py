"""Turns: which dots of a consumer group are issued in one turn on the tensor cores, where groups take turns.

A *section* is dots that are issued one after another with no wait, release, branch or loop in between, and no
arithmetic through which the tensor cores would idle for longer than a turn costs. Sections in the body of a loop take a
turn, and so do those in front of a loop with dots, which set the groups apart at the beginning; what is left of dots
behind such a loop comes to its end as it may.
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
from tawa.machine.hopper import TURN_CYCLES
from tawa.plan.plan import Plan

_ENDS = op_names(YieldOp, ConditionOp, EndOp)


def choose_turns(module: Module, plan: Plan) -> Plan:
    """The turns of every group, where groups take turns and the Plan does not say which."""
    if not plan.ping_pong or plan.turns is not None:
        return Plan()
    group = next(group for group in find_groups(module) if group.role == "consumer")
    numbers = {op: number for number, op in enumerate(dots_of_group(group))}
    return Plan(turns=tuple((numbers[it.first], numbers[it.last]) for it in find_sections(group)))


def dots_of_group(group: GroupOp) -> list[Operation]:
    """The dots of a group, in program order: a turn is told by the numbers of its first and its last."""
    return [op for op in group.op.walk() if WarpGroupDotOp.of(op)]


@dataclass(frozen=True, slots=True)
class Section:
    """From the first dot's issue to the last one's."""

    first: Operation
    last: Operation


def find_sections(group: GroupOp) -> list[Section]:
    """The sections of a group that take a turn, in textual order."""
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
            if dots and (_ends_section(op) or queued < -TURN_CYCLES):
                found.append(Section(dots[0], dots[-1]))
                dots = []
            for region in op.regions:
                for nested in region.blocks:
                    visit(nested, op.name in LOOPS or (repeated and not loops))

    visit(group.body, False)
    return found


def _ends_section(op: Operation) -> bool:
    """Whether a section stops at `op`, or behind it where it is a dot that waits for itself."""
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


__all__ = ["Section", "choose_turns", "dots_of_group", "find_sections"]
