"""Strides of one that Triton leaves open: taken to be one, and asked of each launch.

    %a + rows·%sm + ks·%sk        →   %a + rows·%sm + ks        condition: sk == 1

`tawa.analysis.tma.unit_strides` finds the strides that must be one for tiles to be boxes. Where Triton does not know
that they are, the stock kernel copies each element by itself, and so will it at a launch where the stride is another
number.

Requires: TTIR without layouts, one structured function.
Ensures: the same results wherever all conditions hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.tt import FuncOp
from tawa.ir import Builder, Module
from tawa.symbolic.host.expr import Argument, Condition
from tawa.transforms.result import PassResult

UNIT_STRIDE = "the tile lies in memory element by element"


@dataclass(frozen=True, slots=True)
class UnitStridesResult(PassResult):
    """conditions: what a launch must fulfil."""

    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class AssumeUnitStrides:
    """strides: the arguments that are taken to be one."""

    strides: tuple[Argument, ...]

    def run(self, module: Module) -> UnitStridesResult:
        """Puts 1 in their place."""
        if not self.strides:
            return UnitStridesResult(False)
        function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
        start = Builder.at_start(function.body)
        for stride in self.strides:
            argument = function.body.args[stride.index]
            argument.replace_all_uses_with(start.constant(1, argument.type))
        asked = tuple(Condition(stride, UNIT_STRIDE, 1, 1) for stride in self.strides)
        return UnitStridesResult(True, conditions=asked)


__all__ = ["UNIT_STRIDE", "AssumeUnitStrides", "UnitStridesResult"]
