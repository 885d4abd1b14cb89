"""Gather loads: rows that feed a dot stand beside its tiles, so that one slot, one wait and one release do for all.

    words = load w                          words = load w
    b = words >> shifts               →     scale = load s
    scale = load s                          b = words >> shifts
    c = dot(load a, b * scale, c)           c = dot(load a, b * scale, c)

A kernel that computes its operands loads scales and zeros where it needs them, behind what it has begun to compute; as
rings of their own each costs two barriers of all warps in every iteration. A load of a row by descriptor is moved up,
with what its indices are computed from, to the load before it that feeds the same dots. Whole tiles keep their place:
one that is read into registers gives its slot back before the dot begins.

Requires: TTGIR before anything is specialised.
Ensures: the same reads of memory; nothing is moved over a write, or over what gives an order.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.names import name_of, name_text
from tawa.analysis.rings.loads import dots_fed_by
from tawa.dialects.effects import has_side_effect, is_pure
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import DescriptorLoadOp
from tawa.errors import PlanError
from tawa.ir import Builder, Module, Operation, source_of
from tawa.plan import OperandPlan, Plan
from tawa.symbolic.dim_relations import has_rows
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class HoistRowLoads:
    """Options: the Plan, which may say of a load that it keeps its place, or must not.

    Raises PlanError for a load that must be moved and cannot be. The result has entries for the loads that were moved.
    """

    plan: Plan = Plan()

    def run(self, module: Module) -> PassResult:
        """Moves loads up in every loop."""
        before: dict[tuple[int, ...], Operation] = {}
        moved: list[OperandPlan] = []
        for op in [op for op in module.walk() if DescriptorLoadOp.of(op) and enclosing_loops(op)]:
            dots = dots_fed_by(op.result)
            key = (id(op.parent), *map(id, dots))
            earlier = before.get(key) if dots else None
            before[key] = op
            name = name_of(op)
            if earlier is None or has_rows(op.result) or self.plan.operand(name).hoisted is False:
                continue
            if _move_behind(earlier, op):
                moved.append(OperandPlan(*name, hoisted=True))
        reached = {entry.key for entry in moved}
        for op in (op for op in module.walk() if DescriptorLoadOp.of(op)):
            name = name_of(op)
            if name not in reached and name[0] is not None and self.plan.operand(name).hoisted:
                raise PlanError(
                    f"the Plan moves the load of {name_text(name)} ({source_of(module, op)}) up: no load that feeds "
                    "the same dots stands before it, or something that must stay is in between; cure: hoisted=false"
                )
        return PassResult(bool(moved), decided=Plan(operands=_named(moved)))


def _named(entries: list[OperandPlan]) -> tuple[OperandPlan, ...]:
    return tuple(entry for entry in entries if entry.argument is not None)


def _move_behind(earlier: Operation, load: Operation) -> bool:
    """Moves a load, and what its indices need, right behind an earlier one, if nothing stands against it."""
    block = load.parent
    assert block is not None
    between = block.ops[block.index_of(earlier) + 1 : block.index_of(load)]
    needed = _needed(load, between)
    stay = [op for op in between if op not in needed]
    if not stay or not all(map(is_pure, needed)) or any(has_side_effect(nested) for op in stay for nested in op.walk()):
        return False
    for op in (*needed, load):
        op.detach()
    builder = Builder.after(earlier)
    for op in (*needed, load):
        builder.insert(op)
    return True


def _needed(load: Operation, between: list[Operation]) -> list[Operation]:
    """The operations in between that a load depends on, in order."""
    block, found = load.parent, {load}
    assert block is not None
    for op in reversed(between):
        if any(user.within(block) in found for result in op.results for user in result.users):
            found.add(op)
    return [op for op in between if op in found]


__all__ = ["HoistRowLoads"]
