"""Unit strides: assumes that strides are 1 where Triton does not know it, under a condition that each launch checks.

    %a + rows·%sm + ks·%sk        →   %a + rows·%sm + ks        condition: sk == 1

`tawa.analysis.tma.unit_strides` finds the strides that must be 1 for tiles to be boxes. Triton specialises on arguments
that are 1 unless told not to; without that, stock Triton copies element by element. A launch with any other stride runs
the stock kernel.

Requires: TTIR without layouts, one structured function.
Ensures: the same results for launches that fulfil all conditions.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.tt import FuncOp
from tawa.ir import Builder, Module
from tawa.symbolic.host.expr import Argument, Condition
from tawa.transforms.result import PassResult

UNIT_STRIDE = "the tile is contiguous along one dimension"


@dataclass(frozen=True, slots=True)
class UnitStridesResult(PassResult):
    """conditions: checked at each launch."""

    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class AssumeUnitStrides:
    """strides: the arguments that are assumed to be 1."""

    strides: tuple[Argument, ...]

    def run(self, module: Module) -> UnitStridesResult:
        """Replaces each stride by the constant 1."""
        if not self.strides:
            return UnitStridesResult(False)
        function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
        start = Builder.at_start(function.body)
        for stride in self.strides:
            argument = function.body.args[stride.index]
            argument.replace_all_uses_with(start.constant(1, argument.type))
        conditions = tuple(Condition(stride, UNIT_STRIDE, 1, 1) for stride in self.strides)
        return UnitStridesResult(True, conditions=conditions)
