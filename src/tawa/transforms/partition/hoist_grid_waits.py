"""Hoist grid waits: moves the wait for earlier grids to the front of the kernel, so that it holds for all partitions.

    %x = load bias                          griddepcontrol.wait
    griddepcontrol.wait             →       %x = load bias
    loop { load; dot }                      loop { load; dot }

Under programmatic dependent launch a kernel may start before the grids in front of it have ended. It waits for them
before it accesses what they share (``tl.extra.cuda.gdc_wait``). The wait returns once those grids have ended and their
writes are visible to this grid. So one wait is as good as several, and an earlier one is as good as a later one: what
stood before it only starts later. At the front of the kernel, before the partitions start, it precedes every access of
every partition, the early puts included.

The signal that lets the next grid start (``gdc_launch_dependents``) is a hint. It stays in its place in the consumer:
the next grid waits in turn until this one has ended.

Requires: TTGIR before anything is specialised; structured functions.
Ensures: at most one wait, the first operation of its function.

Source: PTX ISA, "griddepcontrol"; CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.effects import waits_for_grids
from tawa.dialects.tt import FuncOp
from tawa.ir import Builder, Module
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class HoistGridWaits:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Moves the first wait of every structured function to its front, and erases the others."""
        changed = False
        for function in (view for op in module.body.ops if (view := FuncOp.of(op)) and view.structured):
            waits = [op for op in function.op.walk() if waits_for_grids(op)]
            front = function.body.ops[0]
            if waits in ([], [front]):
                continue
            for op in waits[1:]:
                op.erase()
            if waits[0] is not front:
                Builder.before(front).insert(waits[0].detach())
            changed = True
        return PassResult(changed)
