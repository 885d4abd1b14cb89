"""`scf`: structured control flow.

A loop-carried value has one index in `inits`, `iter_args`, the yield and the results.
"""

from __future__ import annotations

from tawa.dialects import scalars
from tawa.dialects.declare.declaration import OpView, op_names
from tawa.dialects.declare.families import YieldingOp
from tawa.dialects.declare.fields import operand, operands, region, types_of
from tawa.ir import Block, Operation, Value


class YieldOp(YieldingOp):
    """``scf.yield``: hands values to the loop or branch around it."""

    NAME = "scf.yield"


class ConditionOp(OpView):
    """``scf.condition``: the terminator of the `before` block of ``scf.while``. Operands: an i1, values to pass on."""

    NAME = "scf.condition"
    TERMINATOR = True
    condition = operand(0)
    values = operands(1)


class ForOp(OpView):
    """``scf.for``: ``for iv in range(lower, upper, step)`` with carried values.

    Operands: lower, upper, step, then `inits`. Region: one block (iv, iter_args…). The step is positive (`trips_of`).
    Executed by every partition that has work inside; each runs its own copy.
    """

    NAME = "scf.for"
    RECURSIVE = True
    lower, upper, step = operand(0), operand(1), operand(2)
    bounds = operands(0, 3)  # lower, upper, step
    inits = operands(3)  # initial values of loop-carried values
    body = region(0)

    @property
    def induction(self) -> Value:
        """The induction variable."""
        return self.body.args[0]

    @property
    def iter_args(self) -> list[Value]:
        """The block arguments for loop-carried values."""
        return self.body.args[1:]

    @property
    def yielded(self) -> list[Value]:
        """The loop-carried values for the next iteration."""
        return self.body.terminator.operands

    @property
    def unsigned(self) -> bool:
        """Whether the bounds are compared as unsigned numbers."""
        return "unsignedCmp" in self.op.properties

    def trips(self, lower: int, upper: int, step: int) -> int | None:
        """`trips_of` these bounds, read as the loop compares them."""
        if self.unsigned:
            width = scalars.width_of(self.lower.type) or 0
            lower, upper, step = (scalars.unsigned(it, width) for it in (lower, upper, step))
        return trips_of(lower, upper, step)

    def carry(self, init: Value, hint: str = "") -> Value:
        """Adds a loop-carried value and returns its block argument; its result is the last one.

        The caller adds the operand of the yield; `tawa.dialects.control_flow.carry_through` does both.
        """
        self.op.add_operand(init)
        arg = self.body.add_arg(init.type, hint)
        self.op.results.append(Value(init.type, self.op, len(self.op.results), hint))
        return arg

    def check(self) -> str | None:
        """Initial values, arguments, yielded values and results agree in type."""
        carried = types_of(self.inits)
        if len(self.op.operands) < 3:
            return "a loop needs lower bound, upper bound and step"
        if len(self.body.args) != len(carried) + 1:
            return f"{len(carried)} initial values for {len(self.body.args) - 1} carried arguments"
        for what, types in (
            ("arguments", types_of(self.iter_args)),
            ("results", types_of(self.op.results)),
            ("yielded values", types_of(self.yielded)),
        ):
            if types != carried:
                return f"initial values {carried} but {what} {types}"
        return None


class IfOp(OpView):
    """``scf.if``: operand: an i1. Regions: then, else; each yields the results. Executed like the loop around it."""

    NAME = "scf.if"
    RECURSIVE = True
    condition = operand(0)

    @property
    def branches(self) -> list[Block]:
        """The blocks that exist: then, and else where there is one."""
        return [it.block for it in self.op.regions if it.blocks and it.blocks[0].ops]

    def ensure_else(self) -> Block:
        """The else block, made (with an empty yield) where the text has none."""
        branch = self.op.regions[1]
        if not branch.blocks:
            branch.append(Block())
        block = branch.block
        if not block.ops:
            block.append(Operation(YieldOp.NAME, loc=self.op.loc))
        return block

    def check(self) -> str | None:
        """The condition is an i1, and each branch yields the results."""
        if self.condition.type != "i1":
            return f"the condition is {self.condition.type}, not i1"
        results = types_of(self.op.results)
        for branch in self.op.regions:
            if branch.blocks and branch.blocks[0].ops:
                yielded = types_of(branch.block.terminator.operands)
                if yielded != results:
                    return f"results {results} but a branch yields {yielded}"
            elif results:
                return "it has results but a branch yields none"
        return None


class WhileOp(OpView):
    """``scf.while``: operands: inits. Regions: before (ends in ``scf.condition``), after (ends in ``scf.yield``)."""

    NAME = "scf.while"
    RECURSIVE = True
    inits = operands(0)
    before, after = region(0), region(1)  # the block with the condition, and the body

    @property
    def test(self) -> ConditionOp:
        """The condition of the loop."""
        return ConditionOp(self.before.terminator)

    def check(self) -> str | None:
        """Initial values, arguments, what the condition hands on and results agree in type."""
        inits = types_of(self.inits)
        if types_of(self.before.args) != inits or types_of(self.after.terminator.operands) != inits:
            return "initial values, arguments and yielded values differ in type"
        handed = types_of(self.before.terminator.operands[1:])
        if handed != types_of(self.after.args) or handed != types_of(self.op.results):
            return "the condition hands on other types than the body takes or the loop returns"
        return None


def trips_of(lower: int, upper: int, step: int) -> int | None:
    """The trip count of a ``scf.for`` with these bounds; None if the loop would never end.

    MLIR does not define loops with a step of 0 or less (Triton reverses ``range(9, 0, -1)`` when it builds the loop).
    If lower >= upper, the trip count is 0 for every step.
    """
    if lower >= upper:
        return 0
    return -((lower - upper) // step) if step > 0 else None


LOOPS = op_names(ForOp, WhileOp)
CONTROL = op_names(ForOp, IfOp, WhileOp)
"""Loops and branches."""
ENDS = op_names(YieldOp, ConditionOp)
"""The terminators of the blocks of loops and branches."""


def enclosing_loops(op: Operation) -> list[Operation]:
    """The loops around `op`, innermost first."""
    return [outer for outer in op.ancestors() if outer.name in LOOPS]
