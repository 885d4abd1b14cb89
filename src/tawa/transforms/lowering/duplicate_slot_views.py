"""Separate slots: where wgmmas in several branches or loops read one slot, each of them finds its address anew.

    %x = memdesc_index %buffer[%slot]            %s1 = shfl.idx %slot, 0;  %x1 = memdesc_index %buffer[%s1]
    for … { dot(%x, …) }                    →    for … { dot(%x1, …) }
    for … { dot(%x, …) }                         %s2 = shfl.idx %slot, 0;  %x2 = memdesc_index %buffer[%s2]
                                                 for … { dot(%x2, …) }

The same numbers, told apart: ptxas (seen in 12.8, which comes with Triton 3.6) makes the descriptor of such a slot
once, in uniform registers, on the way into the first loop only; where that loop has no trip, the second reads what was
never written. A shuffle that hands every lane what lane 0 has, which is the same number, is opaque to it.

A slot that is a constant, or that a dot in the same block reads first, has its descriptor on every way already.

Requires: `lower_arefs`. Ensures: no two sibling regions read one slot that is found in a register.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.arith import ConstantOp
from tawa.dialects.tt import SameNumberOp
from tawa.dialects.ttg import VIEWS, MemDescIndexOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.errors import PlanError
from tawa.ir import Block, Builder, MemDescType, Module, Operation, Value, clone_op, parse_type, source_of
from tawa.plan import Plan
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class DuplicateSlotViews:
    """Options: the Plan, whose `slot_views` may ask for views that are shared. The result says which it had to be."""

    plan: Plan = Plan()

    def run(self, module: Module) -> PassResult:
        """Tells the slots of sibling regions apart. Raises PlanError where the Plan does not let it."""
        changed = False
        for op in list(module.walk()):
            if MemDescIndexOp.matches(op) and _in_register(op) and op.parent is not None:
                separated = _separate(op.result, op.parent)
                changed |= separated
                if separated and self.plan.slot_views == "shared":
                    ring = MemDescIndexOp(op).source.hint or "a ring"
                    raise PlanError(
                        f"the Plan shares the views of slots, but dots in several branches or loops read one slot of "
                        f"{ring} ({source_of(module, op)}), which ptxas gets wrong; "
                        "cure: slot_views='own'"
                    )
        return PassResult(changed, decided=Plan(slot_views="own" if changed else "shared"))


def _separate(view: Value, block: Block) -> bool:
    """Gives the regions in `block` in which dots read `view` a view each."""
    readers = _readers(view, block)
    if not readers or not readers[0].regions:
        return False  # its descriptor is made here, before whatever comes
    changed = False
    for op in readers:
        inside = [region.block for region in op.regions if region.blocks and _readers(view, region.block)]
        if len(inside) > 1:
            for each in inside:
                _separate(_again(view, Builder.at_start(each, op.loc), each), each)
        elif len(readers) > 1 and inside:
            _separate(_again(view, Builder.before(op), inside[0]), inside[0])
        elif inside:
            changed |= _separate(view, inside[0])
        changed |= len(inside) > 1 or len(readers) > 1
    return changed


def _again(view: Value, builder: Builder, block: Block) -> Value:
    """The slot of `view` found once more, for all that reads it in `block`."""
    index = MemDescIndexOp.of(view.defining_op)
    assert index is not None
    copy = builder.insert(clone_op(index.op, {index.index: SameNumberOp.create(builder, index.index)})).result
    _redirect(view, copy, builder, block)
    return copy


def _redirect(old: Value, new: Value, builder: Builder, block: Block) -> None:
    """Lets all in `block` that reads `old`, at first hand or by views of it that stand before the block, read `new`."""
    for use in list(old.uses):
        if _child(use.op, block):
            use.op.set_operand(use.index, new)
        elif use.op.name in VIEWS and _readers(use.op.result, block):
            _redirect(use.op.result, builder.insert(clone_op(use.op, {old: new})).result, builder, block)


def _readers(view: Value, block: Block) -> list[Operation]:
    """The operations of `block` that are, or hold, dots that read `view`, in textual order."""
    found: dict[Operation, None] = {}
    work = [view]
    for value in work:
        for use in value.uses:
            if use.op.name in VIEWS:
                work.append(use.op.result)
            elif WarpGroupDotOp.of(use.op) and (child := _child(use.op, block)):
                found[child] = None
    return [op for op in block.ops if op in found]


def _child(op: Operation, block: Block) -> Operation | None:
    """The operation of `block` that is `op` or holds it."""
    return next((outer for outer in (op, *op.ancestors()) if outer.parent is block), None)


def _in_register(index: Operation) -> bool:
    """Whether the slot is one of several and no constant."""
    ring, slot = index.operands
    type = parse_type(ring.type)
    several = isinstance(type, MemDescType) and type.shape[0] > 1
    return several and (slot.defining_op is None or not ConstantOp.matches(slot.defining_op))
