"""Guards: branches around all the work of a program, such as an early exit.

    %go = cmpi slt, %row, load %count
    scf.if %go {                       a guard
      loop { load; dot }; store        the work
    } else { store zeros }             the alternative, if any

If there are no side effects next to the branch, it stays outside of the partitions: a program without work exits before
they start. All partitions agree on the branch, because it is decided once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tawa.analysis.rings.slices import SliceInfo, slice_from
from tawa.dialects.builtin import AssumeOp
from tawa.dialects.effects import has_side_effect, is_plain_load, is_pure, waits_for_grids
from tawa.dialects.inline.markers import GroupIndexOp
from tawa.dialects.scf import CONTROL, ENDS, IfOp
from tawa.dialects.tt import DOTS, FuncOp
from tawa.ir import Block, Operation, Value

_ASSUME = AssumeOp.NAME
_FLOW = CONTROL | ENDS


@dataclass(frozen=True, slots=True)
class GuardInfo:
    """The guards of a kernel, outermost first. work: the block inside all of them, or the kernel's body."""

    function: FuncOp
    guards: tuple[Operation, ...]
    work: Block

    @property
    def way(self) -> list[Block]:
        """The nested blocks from the body of the kernel to the work, both included."""
        return [*(guard.parent for guard in self.guards if guard.parent), self.work]

    @property
    def instead(self) -> list[Operation]:
        """All operations of the alternatives to the work, including nested ones."""
        way = self.way
        others = [block for guard in self.guards for block in IfOp(guard).branches if block not in way]
        return [nested for block in others for op in block.ops[:-1] for nested in op.walk()]

    def stays(self, given: Iterable[Value] = ()) -> SliceInfo:
        """The slice that stays outside of the partitions: conditions of guards, alternatives, the wait for grids.

        given: numbers that are computed there too (`given_numbers`).
        """
        conditions = [IfOp(guard).condition for guard in self.guards]
        waits = [op for block in self.way for op in block.ops if waits_for_grids(op)]
        effects = [*waits, *(op for op in self.instead if _happens(op))]
        return slice_from(effects, self.function.op, self.guards, (*conditions, *given))


def find_guards(function: FuncOp, loads: Sequence[Operation]) -> GuardInfo:
    """The guards around `loads`, which will move to the producer."""
    found = GuardInfo(function, (), function.body)
    while (deeper := _next_guard(found, loads)) is not None:
        found = deeper
    return found


def guards_around(function: FuncOp, work: Block) -> GuardInfo:
    """The guards around `work`, a block that `find_guards` has found."""
    around = [op for op in function.op.walk() if op is not function.op and _is_in(work, op)]
    return GuardInfo(function, tuple(around), work)


def _next_guard(found: GuardInfo, loads: Sequence[Operation]) -> GuardInfo | None:
    """The guards, extended by the next one; None if no guard follows, or if side effects stand next to it."""
    ops = found.work.ops[:-1]
    guard = next((op for op in ops if IfOp.of(op) and loads and all(op.is_ancestor_of(load) for load in loads)), None)
    if guard is None or guard.results:
        return None
    inside = next((block for block in IfOp(guard).branches if all(_is_in_block(load, block) for load in loads)), None)
    if inside is None:
        return None  # some loads in one branch, some in the other
    beside = [op for op in ops if op is not guard and op.name != _ASSUME and not waits_for_grids(op)]
    if any(map(has_side_effect, beside)):
        return None
    deeper = GuardInfo(found.function, (*found.guards, guard), inside)
    return deeper if all(may_stay(op) for op in deeper.stays().ops) else None


def _is_in(block: Block, op: Operation) -> bool:
    return any(inner is block for region in op.regions for inner in region.blocks) or (
        block.parent_op is not None and op.is_ancestor_of(block.parent_op)
    )


def _is_in_block(op: Operation, block: Block) -> bool:
    return any(it.parent is block for it in (op, *op.ancestors()))


def _happens(op: Operation) -> bool:
    """Whether an operation other than control flow has side effects."""
    return op.name not in _FLOW and has_side_effect(op)


def may_stay(op: Operation) -> bool:
    """Whether an operation may be executed outside of the partitions.

    Dots may not, because they belong to the consumers; nor may the group index, which is undefined there.
    """
    if op.name in DOTS or GroupIndexOp.of(op):
        return False
    return op.name in _FLOW or _happens(op) or is_plain_load(op) or is_pure(op)
