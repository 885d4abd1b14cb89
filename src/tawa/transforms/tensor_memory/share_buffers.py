"""Share buffers: accumulators that are never needed at the same time lie in one buffer.

    loop { mma %a, %b, %s0; use %s0 }                loop { mma %a, %b, %s; use %s }
    %t = tmem_load %o0; tmem_store %t, %o1     →
    loop { mma %p, %v, %o1 }                         loop { mma %p, %v, %o0 }

Two buffers of one type are shared if all accesses to one precede all accesses to the other, and the same partition
accesses both first. What an accumulator has at first is stored, or its first dot does not add; so nothing is read that
was there before. A tile that then goes out of a buffer and into the same one stays where it is.

Within one loop, shared buffers would make the dots wait for the threads: there they are shared only if tensor memory is
too small otherwise.

Requires: `accumulate`. Ensures: what is loaded from each buffer is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.rings.channels import slot_readers
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tcgen05 import DOTS, TMEMAllocOp, TMEMLoadOp, TMEMStoreOp
from tawa.dialects.tt import FuncOp
from tawa.ir import Block, Module, Operation, Value
from tawa.machine.machines import SM_100
from tawa.transforms.result import PassResult
from tawa.transforms.tensor_memory.buffers import changes_hands, columns_of


@dataclass(frozen=True, slots=True)
class ShareBuffers:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Shares the buffers of the kernel."""
        function = next((view for op in module.body.ops if (view := FuncOp.of(op))), None)
        if function is None:
            return PassResult(changed=False)
        found = [op.result for op in function.op.walk() if TMEMAllocOp.matches(op) and changes_hands(op)]
        if not found:
            return PassResult(changed=False)
        order = {op: place for place, op in enumerate(function.op.walk())}
        buffers = [_Buffer(it, sorted(slot_readers(it), key=order.__getitem__)) for it in found if it.uses]
        buffers.sort(key=lambda it: order[it.accesses[0]])
        left = _share(function.body, buffers, anywhere=False)
        if sum(columns_of(it.value) for it in left) > SM_100.tensor_columns:
            left = _share(function.body, left, anywhere=True)
        for buffer in left:
            _stay(buffer.value)
        return PassResult(len(left) < len(found))


@dataclass(slots=True)
class _Buffer:
    """A buffer, and what accesses it, in textual order."""

    value: Value
    accesses: list[Operation]

    @property
    def begins_with_dot(self) -> bool:
        """Whether a dot accesses it first."""
        return self.accesses[0].name in DOTS

    @property
    def loops(self) -> list[Operation | None]:
        """The innermost loops around its dots."""
        return [next(iter(enclosing_loops(op)), None) for op in self.accesses if op.name in DOTS]


def _share(body: Block, buffers: list[_Buffer], anywhere: bool) -> list[_Buffer]:
    """Puts each buffer into the first one that it can share; returns what is left. anywhere: in one loop, too."""
    left: list[_Buffer] = []
    for buffer in buffers:
        for other in left:
            same = other.value.type == buffer.value.type and other.begins_with_dot is buffer.begins_with_dot
            beside = anywhere or not set(other.loops) & set(buffer.loops)
            if same and beside and _apart(body, other.accesses, buffer.accesses):
                made = buffer.value.defining_op
                assert made is not None
                buffer.value.replace_all_uses_with(other.value)
                made.erase()
                other.accesses += buffer.accesses
                break
        else:
            left.append(buffer)
    return left


def _apart(body: Block, first: list[Operation], second: list[Operation]) -> bool:
    """Whether all of the first operations precede the second ones, in every block that has some of both."""
    block = body
    while True:
        one, other = ({op.within(block): None for op in ops} for ops in (first, second))
        if len(one) == len(other) == 1 and one.keys() == other.keys():
            holder = next(iter(one))
            inner = [it for region in holder.regions for it in region.blocks] if holder is not None else []
            around = [it for it in inner if all(op.within(it) for op in (*first, *second))]
            if not around:
                return False
            block = around[0]
            continue
        places = [[block.index_of(op) for op in ops if op is not None] for ops in (one, other)]
        return max(places[0]) < min(places[1])


def _stay(buffer: Value) -> None:
    """Erases the stores of a tile that was loaded from the same buffer, with no access in between."""
    for store in [view for op in buffer.users if (view := TMEMStoreOp.of(op))]:
        load = TMEMLoadOp.of(store.source.defining_op)
        block = store.op.parent
        if load is None or load.buffer is not buffer or load.op.parent is not block or block is None:
            continue
        accesses = set(slot_readers(buffer))
        between = block.ops[block.index_of(load.op) + 1 : block.index_of(store.op)]
        if any(nested in accesses for op in between for nested in op.walk()):
            continue
        store.op.erase()
        if not load.op.results[0].uses:
            load.op.erase()


__all__ = ["ShareBuffers"]
