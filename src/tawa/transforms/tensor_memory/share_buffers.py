"""Share buffers: accumulators that are never needed at the same time lie in one buffer.

    loop { mma %a, %b, %s0; use %s0 }                loop { mma %a, %b, %s; use %s }
    %t = tmem_load %o0; tmem_store %t, %o1     →
    loop { mma %p, %v, %o1 }                         loop { mma %p, %v, %o0 }

Two buffers of one type are shared if all accesses to one precede all accesses to the other, and the same partition
accesses both first. What an accumulator has at first is stored, or its first dot does not add; so nothing is read that
was there before. A tile that then goes out of a buffer and into the same one stays where it is.

Within one loop, shared buffers would make the dots wait for the threads: there they are shared only if tensor memory is
too small otherwise. First a left operand that the threads compute from a result goes over that result (P over S), which
is no longer needed then:

    mma %q, %k, %s; load %s; store %p; mma %p, %v     →     … load %s; %w = left part of %s; store %w; mma %w, %v

Requires: `accumulate`. Ensures: what is loaded from each buffer is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tawa.analysis.rings.channels import slot_readers
from tawa.dialects.arith import constant_int
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tcgen05 import CORRECTED, DOTS, TMEMAllocOp, TMEMLoadOp, TMEMStoreOp, TMEMSubsliceOp, dot_of
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import MemDescReinterpretOp
from tawa.ir import Block, Builder, MemDescType, Module, Operation, Value, memdesc_type
from tawa.ir.attributes import int_attr
from tawa.ir.types import ScalarType
from tawa.machine.machines import SM_100
from tawa.plan import Plan
from tawa.transforms.result import PassResult
from tawa.transforms.tensor_memory.buffers import ROWS_OF_A, changes_hands, columns_of


@dataclass(frozen=True, slots=True)
class ShareBuffers:
    """plan: has the consumer groups, each with buffers of its own."""

    plan: Plan = Plan()

    def run(self, module: Module) -> PassResult:
        """Shares the buffers of the kernel."""
        function = next((view for op in module.body.ops if (view := FuncOp.of(op))), None)
        if function is None:
            return PassResult(changed=False)
        made = [op for op in function.op.walk() if TMEMAllocOp.matches(op)]
        found = [op.result for op in made if changes_hands(op)]
        if not found:
            return PassResult(changed=False)
        order = {op: place for place, op in enumerate(function.op.walk())}
        buffers = [_Buffer(it, sorted(slot_readers(it), key=order.__getitem__)) for it in found if it.uses]
        buffers.sort(key=lambda it: order[it.accesses[0]])
        left = _share(function.body, buffers, anywhere=False)
        scales = sum(columns_of(op.result) for op in made if not changes_hands(op))
        most = SM_100.tensor_columns // (self.plan.groups or 1) - scales
        if sum(columns_of(it.value) for it in left) > most:
            left = [it for it in left if not any(_over_result(other, it) for other in left)]
        if sum(columns_of(it.value) for it in left) > most:
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
    def kind(self) -> tuple[str, bool]:
        """Its type, and whether the partition for corrections accesses it."""
        made = self.value.defining_op
        return self.value.type, made is not None and CORRECTED in made.attributes

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
            same = other.kind == buffer.kind and other.begins_with_dot is buffer.begins_with_dot
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


def _over_result(result: _Buffer, operand: _Buffer) -> bool:
    """Puts a left operand over a result of dots if it has room there, and no dot needs what it overwrites."""
    type, kind = memdesc_type(result.value.type), memdesc_type(operand.value.type)
    wider, rest = divmod(ScalarType(type.element).bits, ScalarType(kind.element).bits)
    stores = [op for op in operand.accesses if TMEMStoreOp.matches(op)]
    dots = [dot for op in result.accesses if (dot := dot_of(op))]
    if rest or type.shape[0] != kind.shape[0] or type.shape[1] * wider < kind.shape[1] or not dots:
        return False
    if not all(op.name in DOTS or op in stores for op in operand.accesses) or any(operand.value is it.d for it in dots):
        return False
    if any(dot.d is not result.value or constant_int(dot.use_d) != 0 for dot in dots):
        return False
    for store in stores:
        block = store.parent
        if block is None or not _ends_before([op for op in result.accesses if op.within(block)], store):
            return False
    homes = [store.parent for store in stores]
    if any(op.parent not in homes for op in (*result.accesses, *operand.accesses)):
        return False
    for store in stores:
        view = _left_part(Builder.before(store), result.value, wider, kind)
        for access in [it for it in operand.accesses if it.parent is store.parent]:
            for at, value in enumerate(access.operands):
                if value is operand.value:
                    access.set_operand(at, view)
                    result.accesses.append(access)
    made = operand.value.defining_op
    assert made is not None
    made.erase()
    return True


def _ends_before(accesses: list[Operation], store: Operation) -> bool:
    """Whether a block computes a result, loads it, and stores the operand behind that."""
    block = store.parent
    assert block is not None
    names = [op.name in DOTS for op in accesses]
    return names == [True, False] and block.index_of(accesses[-1].within(block) or store) < block.index_of(store)


def _left_part(builder: Builder, result: Value, wider: int, kind: MemDescType) -> Value:
    """The left part of a buffer, as the buffer of an operand with narrower elements."""
    type = memdesc_type(result.type)
    columns = type.shape[1] * wider
    shape = (type.shape[0], columns)
    whole = replace(type, shape=shape, element=kind.element, encoding=ROWS_OF_A.format(*shape))
    view = builder.create(MemDescReinterpretOp.NAME, (result,), (str(whole),)).result
    if columns == kind.shape[1]:
        return view
    part = str(replace(whole, shape=kind.shape, encoding=kind.encoding, allocation=f"{type.shape[0]}x{columns}"))
    return builder.create(TMEMSubsliceOp.NAME, (view,), (part,), properties={"N": int_attr(0)}).result


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
