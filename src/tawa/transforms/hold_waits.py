"""Hold waits: a wait for wgmmas stays behind the work that was scheduled to run beside them.

    %p = exp2 …                                       %p = exp2 …
    %l = reduce(%p, add)                              %l = reduce(%p, add)
                                            →         hold %l
    %acc2 = warp_group_dot_wait %acc                  %acc2 = warp_group_dot_wait %acc

A schedule lets a dot run while the consumer computes, and waits for it then. ptxas (seen in 12.8 and 12.9) knows of no
order between a wait and arithmetic: it moves the wait up, in front of all 128 exponentials of a softmax, and the tensor
cores are idle while those run. A branch on what was computed is a border that neither crosses (`HoldOp`).

What is held on are reductions: one value stands for a row of the tile, so that a thread compares two or four of them,
and each depends on all that was computed for its row.

Requires: loops as they are scheduled, their waits in place. Ensures: no wait can begin before the reductions between it
and the dot or wait before it have ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.tt import HoldOp
from tawa.dialects.ttng import WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.ir import Builder, Module, Operation, TensorType, Value, parse_type
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class HoldWaits:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Puts a hold before each wait that arithmetic was scheduled in front of."""
        changed = False
        for op in list(module.walk()):
            if WarpGroupDotWaitOp.of(op):
                for value in _reduced_before(op):
                    HoldOp.create(Builder.before(op), value)
                    changed = True
        return PassResult(changed)


def _reduced_before(wait: Operation) -> list[Value]:
    """Results of the reductions since the last dot or wait in the block, but for those that later ones depend on."""
    found: list[Value] = []
    behind: set[Operation] = set()
    assert wait.parent is not None
    ops = wait.parent.ops
    for op in reversed(ops[: ops.index(wait)]):
        if WarpGroupDotOp.of(op) or WarpGroupDotWaitOp.of(op) or (op.regions and op.name != "tt.reduce"):
            break
        if op.name == "tt.reduce" and op not in behind:
            found += [result for result in op.results if _is_row_of_floats(result)]
        if op.name == "tt.reduce" or op in behind:
            behind |= {value.defining_op for value in op.operands if value.defining_op is not None}
    return found[::-1]


def _is_row_of_floats(value: Value) -> bool:
    """Whether each thread has a few 32-bit numbers of it."""
    type = parse_type(value.type)
    return isinstance(type, TensorType) and type.element == "f32" and len(type.shape) == 1
