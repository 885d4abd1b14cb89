"""Register operands: a loop-invariant left operand is loaded from shared memory into registers once.

    %a = local_alloc %q                              %a = local_alloc %q
    for … {                                          %r = local_load %a → dot operand, in registers
      %s = warp_group_dot %a, %b, %c }         →     for … {
                                                       %s = warp_group_dot %r, %b, %c }

A wgmma reads A and B from shared memory at 128 bytes per cycle. One of 64 x 64 x 16 in fp16 reads 4 KiB, which takes 32
cycles, and also computes for 32 cycles. Together with the other dot of an attention loop and TMA, shared memory
bandwidth becomes the bottleneck. With A in registers the wgmma reads half as much. FlexAttention with blocks of 64 keys
gains most (bench/results/flex.json).

If only such dots read a slot of a ring, the slot is released right after the load. In a persistent kernel the queries
of the next tile are then in flight while the current tile is computed, with a single slot.

The Plan lists the dots by their index in the loop; `tawa.analysis.loops.register_operands` says which are allowed.

Requires: `partition`.
Ensures: the same products of the same operands. The load comes after the operation that fills the tile.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.loops.register_operands import dots_of, kept_type, may_be_kept
from tawa.analysis.names import loop_number
from tawa.analysis.rings.channels import slot_readers
from tawa.dialects.aref import ConsumedOp, GetOp
from tawa.dialects.ttg import LocalLoadOp
from tawa.dialects.warp import find_groups
from tawa.errors import PlanError
from tawa.ir import Builder, Module, TensorType, Value, source_of
from tawa.plan import Plan
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class KeepInRegisters:
    """Options: the Plan, whose loops list the dots."""

    plan: Plan

    def run(self, module: Module) -> PassResult:
        """Rewrites the listed dots in every consumer; raises PlanError for a dot that does not qualify."""
        kept: dict[tuple[Value, TensorType], Value] = {}
        listed = any(loop.kept for loop in self.plan.loops)
        consumers = [group for group in find_groups(module) if group.role == "consumer"] if listed else []
        for op in [op for group in consumers for op in group.op.walk()]:
            number = loop_number(op)
            for index in () if number is None else self.plan.loop(number).kept or ():
                dots = dots_of(op)
                if index >= len(dots) or not may_be_kept(dots[index], op):
                    where = source_of(module, op)
                    raise PlanError(
                        f"the Plan keeps the left operand of dot {index} of loop {number} ({where}) in registers, "
                        "which requires a tile of 16-bit elements that is complete in shared memory before the loop; "
                        f"cure: kept without {index}"
                    )
                dot = dots[index]
                key = dot.a, kept_type(dot)
                if key not in kept:
                    made = dot.a.defining_op
                    assert made is not None
                    load = Builder.after(made).create(LocalLoadOp.NAME, (dot.a,), (str(key[1]),), hints=(dot.a.hint,))
                    kept[key] = load.result
                dot.op.set_operand(0, kept[key])
        for load in kept.values():
            _release_after(load)
        return PassResult(bool(kept))


def _release_after(loaded: Value) -> None:
    """Moves the release of a slot to right after its load, if the load is the only reader."""
    load = loaded.defining_op
    assert load is not None
    get = GetOp.of(LocalLoadOp(load).buffer.defining_op)
    if get is None or any(reader is not load for result in get.op.results for reader in slot_readers(result)):
        return
    for use in list(get.index.uses):
        release = ConsumedOp.of(use.op)
        if release and release.ring is get.ring and release.condition is None and use.op.parent is load.parent:
            Builder.after(load).insert(use.op.detach())
