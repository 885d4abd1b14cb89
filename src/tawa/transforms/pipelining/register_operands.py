"""Keep operands: a left operand that does not change in a loop is read from shared memory once.

    %a = local_alloc %q                              %a = local_alloc %q
    for … {                                          %r = local_load %a → dot operand, in registers
      %s = warp_group_dot %a, %b, %c }         →     for … {
                                                       %s = warp_group_dot %r, %b, %c }

A wgmma reads A and B from shared memory at 128 bytes a cycle. One of 64 x 64 x 16 in fp16 wants 4 KiB, 32 cycles, and
computes for 32: together with the other dot of an attention loop, and TMA, shared memory sets the pace. With A in
registers it wants half. FlexAttention, which takes 64 keys at a time, gains most (bench/results/flex.json).

A slot of a ring that only such dots read is free as soon as it is loaded: in a persistent kernel the queries of the
next tile are on their way while this one is computed, in one slot.

The Plan says which: dots of a loop, by their number in it, that `tawa.analysis.loops.register_operands` allows.

Requires: `partition`.
Ensures: the same products of the same numbers. The tile is complete when it is loaded: what fills it stands before.
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
    """Options: the Plan, whose loops name the dots."""

    plan: Plan

    def run(self, module: Module) -> PassResult:
        """Rewrites the dots of the consumers for whose operands there is room."""
        kept: dict[tuple[Value, TensorType], Value] = {}
        asked = any(loop.kept for loop in self.plan.loops)
        consumers = [group for group in find_groups(module) if group.role == "consumer"] if asked else []
        for op in [op for group in consumers for op in group.op.walk()]:
            number = loop_number(op)
            for index in () if number is None else self.plan.loop(number).kept or ():
                dots = dots_of(op)
                if index >= len(dots) or not may_be_kept(dots[index], op):
                    where = source_of(module, op)
                    raise PlanError(
                        f"the Plan keeps the left operand of dot {index} of loop {number} ({where}) in registers, "
                        "which is possible for tiles of 16 bits that lie complete in shared memory before it; "
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
            _release_behind(load)
        return PassResult(bool(kept))


def _release_behind(loaded: Value) -> None:
    """Gives a slot back where it was loaded, if that is all that reads it."""
    load = loaded.defining_op
    assert load is not None
    get = GetOp.of(LocalLoadOp(load).buffer.defining_op)
    if get is None or any(reader is not load for result in get.op.results for reader in slot_readers(result)):
        return
    for use in list(get.index.uses):
        release = ConsumedOp.of(use.op)
        if release and release.ring is get.ring and release.condition is None and use.op.parent is load.parent:
            Builder.after(load).insert(use.op.detach())
