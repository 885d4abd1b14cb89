"""Duplicate slot views: if wgmmas in several branches or loops read a slot, each region recomputes its address.

    %x = memdesc_index %buffer[%slot]            %s1 = shfl.idx %slot, 0;  %x1 = memdesc_index %buffer[%s1]
    for … { dot(%x, …) }                    →    for … { dot(%x1, …) }
    for … { dot(%x, …) }                         %s2 = shfl.idx %slot, 0;  %x2 = memdesc_index %buffer[%s2]
                                                 for … { dot(%x2, …) }

This works around a miscompilation in ptxas (seen in 12.8, which comes with Triton 3.6). It computes the descriptor of
such a slot once, in uniform registers, on the path into the first loop only. If the trip count of that loop is zero,
the second loop reads registers that were never written. The slot index is uniform, so a shuffle from lane 0 does not
change it, but ptxas cannot see through the shuffle and keeps the descriptors apart.

A slot is safe if its index is a constant, or if a dot in the block of the view reads it first: the descriptor is then
computed on every path.

Requires: `lower_arefs`. Ensures: no two sibling regions read one view of a slot whose index is in a register.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.arith import ConstantOp
from tawa.dialects.inline.markers import SameNumberOp
from tawa.dialects.ttg import VIEWS, MemDescIndexOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.errors import PlanError
from tawa.ir import Block, Builder, MemDescType, Module, Operation, Value, clone_op, parse_type, source_of
from tawa.plan import Plan
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class DuplicateSlotViews:
    """Options: the Plan, whose `slot_views` may request shared views. The result says which kind was necessary."""

    plan: Plan = Plan()

    def run(self, module: Module) -> PassResult:
        """Duplicates views for sibling regions. Raises PlanError if that is necessary but the Plan forbids it."""
        changed = False
        for op in list(module.walk()):
            if op.name == MemDescIndexOp.NAME and _in_register(op) and op.parent is not None:
                duplicated = _duplicate(op.result, op.parent)
                changed |= duplicated
                if duplicated and self.plan.slot_views == "shared":
                    ring = MemDescIndexOp(op).source.hint or "a ring"
                    raise PlanError(
                        f"the Plan shares the views of slots, but dots in several branches or loops read one slot of "
                        f"{ring} ({source_of(module, op)}), which ptxas miscompiles; "
                        "cure: slot_views='own'"
                    )
        return PassResult(changed, decided=Plan(slot_views="own" if changed else "shared"))


def _duplicate(view: Value, block: Block) -> bool:
    """Gives each region in `block` whose dots read `view` a view of its own."""
    readers = _readers(view, block)
    if not readers or not readers[0].regions:
        return False  # a dot in this block computes the descriptor first
    changed = False
    for op in readers:
        inside = [region.block for region in op.regions if region.blocks and _readers(view, region.block)]
        if len(inside) > 1:
            for each in inside:
                _duplicate(_clone_view(view, Builder.at_start(each, op.loc), each), each)
        elif len(readers) > 1 and inside:
            _duplicate(_clone_view(view, Builder.before(op), inside[0]), inside[0])
        elif inside:
            changed |= _duplicate(view, inside[0])
        changed |= len(inside) > 1 or len(readers) > 1
    return changed


def _clone_view(view: Value, builder: Builder, block: Block) -> Value:
    """Clones `view` with an opaque copy of its slot index, and redirects its readers in `block` to the clone."""
    index = MemDescIndexOp.of(view.defining_op)
    assert index is not None
    copy = builder.insert(clone_op(index.op, {index.index: SameNumberOp.create(builder, index.index)})).result
    _redirect(view, copy, builder, block)
    return copy


def _redirect(old: Value, new: Value, builder: Builder, block: Block) -> None:
    """Redirects readers of `old` in `block` to `new`; views of `old` that precede the block are cloned."""
    for use in list(old.uses):
        if _enclosing(use.op, block):
            use.op.set_operand(use.index, new)
        elif use.op.name in VIEWS and _readers(use.op.result, block):
            _redirect(use.op.result, builder.insert(clone_op(use.op, {old: new})).result, builder, block)


def _readers(view: Value, block: Block) -> list[Operation]:
    """The operations of `block` that are, or contain, dots that read `view`; in textual order."""
    found: dict[Operation, None] = {}
    work = [view]
    for value in work:
        for use in value.uses:
            if use.op.name in VIEWS:
                work.append(use.op.result)
            elif WarpGroupDotOp.of(use.op) and (child := _enclosing(use.op, block)):
                found[child] = None
    return [op for op in block.ops if op in found]


def _enclosing(op: Operation, block: Block) -> Operation | None:
    """The operation of `block` that is `op` or contains it."""
    return next((outer for outer in (op, *op.ancestors()) if outer.parent is block), None)


def _in_register(index: Operation) -> bool:
    """Whether the buffer has several slots and the index is not a constant."""
    ring, slot = index.operands
    type = parse_type(ring.type)
    several = isinstance(type, MemDescType) and type.shape[0] > 1
    return several and (slot.defining_op is None or not ConstantOp.matches(slot.defining_op))
