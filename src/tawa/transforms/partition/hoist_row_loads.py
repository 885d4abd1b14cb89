"""Hoist row loads: moves loads of rows next to the tile loads that feed the same dot, so that they share a slot.

    words = load w                          words = load w
    b = words >> shifts               →     scale = load s
    scale = load s                          b = words >> shifts
    c = dot(load a, b * scale, c)           c = dot(load a, b * scale, c)

A kernel that computes its operands loads scales and zero points at their first use, after it has begun to compute. In a
ring of its own, each such load costs two barriers of all warps per iteration. A descriptor load of a row is hoisted,
with the definitions of its indices, to the preceding load that feeds the same dots; they then share one slot, one wait
and one release. A row that is combined with a product is hoisted to the tile with which it travels. Loads of whole
tiles are not moved: a tile that is read into registers releases its slot before the dot starts. But where the Plan has
one ring for loads of a block that feed different dots, they move up to the first: one wait and one release for all.

Requires: TTGIR before anything is specialised.
Ensures: the same reads of memory; no load moves across a write or any other operation with a side effect.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.loops.dependences import needed_by
from tawa.analysis.names import name_of, name_text
from tawa.analysis.rings.loads import dots_fed_by, from_dots, tile_beside
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
    """Options: the Plan, which may forbid or demand hoisting for a load.

    Raises PlanError if a load must be hoisted and cannot be. The result lists the loads that were hoisted.
    """

    plan: Plan = Plan()

    def run(self, module: Module) -> PassResult:
        """Hoists row loads in every loop."""
        before: dict[tuple[object, ...], Operation] = {}
        moved: list[OperandPlan] = []
        products = from_dots(module)
        for op in [op for op in module.walk() if DescriptorLoadOp.of(op) and enclosing_loops(op)]:
            tile = None if has_rows(op.result) else tile_beside(op, products)
            name, dots = name_of(op), dots_fed_by(op.result if tile is None else tile.result)
            own = self.plan.operand(name)
            of_dots, of_ring = (op.parent, *dots), (op.parent, own.ring)
            earlier = before.get(of_dots) if dots else None
            moves = not has_rows(op.result)
            if earlier is None and own.ring is not None:
                earlier, moves = before.get(of_ring), True
            before |= {of_dots: op, of_ring: op}
            if earlier is None or not moves or own.hoisted is False:
                continue
            if _move_after(earlier, op):
                moved.append(OperandPlan(*name, hoisted=True))
        reached = {entry.key for entry in moved}
        for op in (op for op in module.walk() if DescriptorLoadOp.of(op)):
            name = name_of(op)
            if name not in reached and name[0] is not None and self.plan.operand(name).hoisted:
                raise PlanError(
                    f"the Plan hoists the load of {name_text(name)} ({source_of(module, op)}), but no preceding load "
                    "feeds the same dots or has its ring, or an operation in between cannot be crossed; cure: "
                    "hoisted=false"
                )
        return PassResult(bool(moved), decided=Plan(operands=_named(moved)))


def _named(entries: list[OperandPlan]) -> tuple[OperandPlan, ...]:
    return tuple(entry for entry in entries if entry.argument is not None)


def _move_after(earlier: Operation, load: Operation) -> bool:
    """Moves a load and the definitions of its indices to right after an earlier load; returns whether it did."""
    block = load.parent
    assert block is not None
    between = block.ops[block.index_of(earlier) + 1 : block.index_of(load)]
    needed = needed_by(load, between)
    stay = [op for op in between if op not in needed]
    if not stay or not all(map(is_pure, needed)) or any(has_side_effect(nested) for op in stay for nested in op.walk()):
        return False
    for op in (*needed, load):
        op.detach()
    builder = Builder.after(earlier)
    for op in (*needed, load):
        builder.insert(op)
    return True
