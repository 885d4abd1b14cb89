"""`scf`, `cf`: structured control flow, and the branches that are not.

Views name the operands that carry values around (`inits` → `iter_args` → yield → results) by one index.
"""

from __future__ import annotations

from tawa.dialects.registry import OpSpec, declare
from tawa.dialects.view import OpView
from tawa.ir import Block, Operation, Value

declare(
    OpSpec("scf.for", recursive=True),
    OpSpec("scf.if", recursive=True),
    OpSpec("scf.while", recursive=True),
    OpSpec("scf.yield", terminator=True),
    OpSpec("scf.condition", terminator=True),
    OpSpec("cf.br", terminator=True),
    OpSpec("cf.cond_br", terminator=True),
)

YIELD, CONDITION = "scf.yield", "scf.condition"


class ForOp(OpView):
    """``scf.for``: ``for iv in range(lower, upper, step)`` with carried values.

    Operands: lower, upper, step, then `inits`. Region: one block (iv, iter_args…). The step is positive (`trips_of`).
    Executed by every partition that has work inside; each runs its own copy.
    """

    NAME = "scf.for"
    __slots__ = ()

    @property
    def bounds(self) -> list[Value]:
        """lower, upper, step."""
        return self.op.operands[:3]

    @property
    def inits(self) -> list[Value]:
        """Initial values of what is carried."""
        return self.op.operands[3:]

    @property
    def body(self) -> Block:
        """The block of the loop."""
        return self.op.regions[0].block

    @property
    def induction(self) -> Value:
        """The loop variable."""
        return self.body.args[0]

    @property
    def iter_args(self) -> list[Value]:
        """What is carried, as seen inside."""
        return self.body.args[1:]

    @property
    def yielded(self) -> list[Value]:
        """What is carried to the next iteration."""
        return self.body.terminator.operands

    @property
    def unsigned(self) -> bool:
        """Whether the bounds are compared as unsigned numbers."""
        return "unsignedCmp" in self.op.properties

    def carry(self, init: Value, hint: str = "") -> Value:
        """Adds a carried value and returns it as seen inside; its result is the last one.

        The caller adds the operand of the yield; `tawa.dialects.control_flow.carry_through` does both.
        """
        self.op.add_operand(init)
        arg = self.body.add_arg(init.type, hint)
        self.op.results.append(Value(init.type, self.op, len(self.op.results), hint))
        return arg


class IfOp(OpView):
    """``scf.if``: operand: an i1. Regions: then, else; each yields the results. Executed like the loop around it."""

    NAME = "scf.if"
    __slots__ = ()

    @property
    def condition(self) -> Value:
        """The i1."""
        return self.op.operands[0]

    @property
    def branches(self) -> list[Block]:
        """The blocks that exist: then, and else where there is one."""
        return [region.block for region in self.op.regions if region.blocks and region.blocks[0].ops]

    def ensure_else(self) -> Block:
        """The else block, made (with an empty yield) where the text has none."""
        region = self.op.regions[1]
        if not region.blocks:
            region.append(Block())
        block = region.block
        if not block.ops:
            block.append(Operation(YIELD, loc=self.op.loc))
        return block


class WhileOp(OpView):
    """``scf.while``: operands: inits. Regions: before (ends in ``scf.condition``), after (ends in ``scf.yield``)."""

    NAME = "scf.while"
    __slots__ = ()

    @property
    def before(self) -> Block:
        """The block that decides."""
        return self.op.regions[0].block

    @property
    def after(self) -> Block:
        """The block that works."""
        return self.op.regions[1].block


def trips_of(lower: int, upper: int, step: int) -> int | None:
    """How often a ``scf.for`` with these bounds goes round; None where it would never end.

    The language gives a step that is 0 or less no meaning (Triton turns ``range(9, 0, -1)`` round before it makes a
    loop). A loop that does not begin has no trips, whatever its step is.
    """
    if lower >= upper:
        return 0
    return -((lower - upper) // step) if step > 0 else None


LOOPS = frozenset({ForOp.NAME, WhileOp.NAME})
CONTROL = LOOPS | {IfOp.NAME}
"""Loops and branches."""
ENDS = frozenset({YIELD, CONDITION})
"""The terminators of their blocks."""


def enclosing_loops(op: Operation) -> list[Operation]:
    """The loops around `op`, innermost first."""
    return [outer for outer in op.ancestors() if outer.name in LOOPS]
