"""Who uses the barriers and buffers of an explicit program: partition by partition, in program order.

    ttng.wait_barrier %full[%slot], …          Use("wait", barrier array of %full, %slot, partition, place in the order)
    ttng.async_tma_copy_global_to_local …      Use("copy", …), and Use("write", buffer, …)

A buffer or barrier is followed through views, loops, branches and the captures of partitions to its allocation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tawa.dialects import ttg, ttng
from tawa.dialects.control_flow import incoming
from tawa.dialects.declare.declaration import is_terminator, op_class, op_names
from tawa.dialects.effects import effects_of
from tawa.dialects.ttg import VIEWS, warps_of
from tawa.ir import Block, Module, Operation, Value
from tawa.ir.attributes import read_array

UseKind = Literal["init", "wait", "arrive", "expect", "copy", "write", "store", "read"]
"""Of a barrier: init, wait, arrive, expect; copy, by a TMA copy that arrives on it. Of a buffer: write, by a copy;
store, by threads; read."""

_BARRIER_OPS: dict[str, UseKind] = {
    ttng.InitBarrierOp.NAME: "init",
    ttng.WaitBarrierOp.NAME: "wait",
    ttng.ArriveBarrierOp.NAME: "arrive",
    ttng.AsyncCopyMbarrierArriveOp.NAME: "arrive",
    ttng.BarrierExpectOp.NAME: "expect",
}
_COPIES = op_names(ttng.AsyncTMACopyGlobalToLocalOp, ttng.AsyncTMAGatherOp)
_NO_ACCESS = VIEWS | op_names(ttg.LocalAllocOp, ttg.LocalDeallocOp, ttng.InvalBarrierOp)


@dataclass(frozen=True, slots=True)
class Partition:
    """Warps that run one program. name: ``default`` or ``partition<number>``. registers: requested per thread."""

    name: str
    warps: int
    registers: int | None


@dataclass(frozen=True, slots=True)
class Use:
    """One use of an allocation. slot: the index of its outermost view, None without one. order: in the program."""

    kind: UseKind
    allocation: Operation
    slot: Value | None
    partition: str
    order: int
    op: Operation


def partitions_of(module: Module) -> tuple[Partition, ...]:
    """The partitions, first the default one: the warps of the kernel."""
    function = module.body.ops[0]
    forks = [fork for op in module.walk() if (fork := ttg.WarpSpecializeOp.of(op))]
    found = [Partition("default", warps_of(function), None)]
    for fork in forks:
        said = fork.op.properties.get("requestedRegisters")
        registers = read_array(said) if said else [None] * len(fork.partitions)
        for number, (warps, count) in enumerate(zip(fork.num_warps, registers, strict=True)):
            found.append(Partition(_name(number, forks.index(fork)), warps, count))
    return tuple(found)


def partition_blocks(module: Module) -> dict[Block, str]:
    """The name of the partition of each block that one consists of; all other code is the default one's."""
    forks = [fork for op in module.walk() if (fork := ttg.WarpSpecializeOp.of(op))]
    found: dict[Block, str] = {}
    for at, fork in enumerate(forks):
        found |= {block: _name(number, at) for number, block in enumerate(fork.partitions)}
    return found


def partition_of(op: Operation, blocks: Mapping[Block, str]) -> str:
    """The partition that executes an operation. blocks: from `partition_blocks`."""
    inner: Operation | None = op
    while inner is not None and inner.parent is not None:
        if inner.parent in blocks:
            return blocks[inner.parent]
        inner = inner.parent_op
    return "default"


def uses_of(module: Module) -> tuple[Use, ...]:
    """All uses of barriers and buffers, in program order."""
    return tuple(_uses(module))


def allocations_of(value: Value) -> list[Operation]:
    """The allocations that a buffer or barrier may be (a part of)."""
    return list(dict.fromkeys(op for op, _ in _roots(value)))


def _name(number: int, fork: int) -> str:
    return f"partition{number}" if fork == 0 else f"partition{number} of fork {fork}"


def _uses(module: Module) -> Iterator[Use]:
    blocks = partition_blocks(module)
    for order, op in enumerate(module.walk()):
        if op.regions or op.name in _NO_ACCESS or is_terminator(op.name):
            continue
        operands = [value for value in op.operands if value.type.startswith("!ttg.memdesc")]
        if not operands:
            continue
        where = partition_of(op, blocks)
        written = _written(op)
        for value in operands:
            for allocation, slot in _roots(value):
                yield Use(_kind(op, value, written), allocation, slot, where, order, op)


def _kind(op: Operation, value: Value, written: list[Value]) -> UseKind:
    if op.name in _BARRIER_OPS:
        return _BARRIER_OPS[op.name]
    if op.name in _COPIES:
        return "copy" if is_barrier(value) else "write"
    if any(it is value for it in written):
        return "write" if ttg.AsyncCopyGlobalToLocalOp.matches(op) else "store"
    return "read"


def is_barrier(value: Value) -> bool:
    """Whether a value in shared memory is an mbarrier, or an array of them: a cell of 64 bits that is initialised."""
    return any(
        ttng.InitBarrierOp.matches(use) for root in allocations_of(value) for use in _users_through_views(root.result)
    )


def _users_through_views(value: Value) -> Iterator[Operation]:
    for op in value.users:
        if op.name in VIEWS:
            yield from _users_through_views(op.result)
        else:
            yield op


def _written(op: Operation) -> list[Value]:
    """The operands of an operation in shared memory that it writes."""
    view = op_class(op.name)
    names = [it.operand for it in effects_of(op) if it.kind == "write" and it.space == "shared" and it.operand]
    return [getattr(view(op), name) for name in names] if view is not None else []


def _roots(value: Value) -> Iterator[tuple[Operation, Value | None]]:
    """The allocations behind a value, each with the index of the outermost view on the way."""
    work: list[tuple[Value, Value | None]] = [(value, None)]
    seen: set[Value] = set()
    while work:
        value, slot = work.pop()
        if value in seen:
            continue
        seen.add(value)
        op = value.defining_op
        if op is not None and op.name == ttg.LocalAllocOp.NAME:
            yield op, slot
        elif op is not None and op.name in VIEWS:
            index = ttg.MemDescIndexOp(op).index if ttg.MemDescIndexOp.matches(op) else None
            work.append((op.operands[0], index or slot))
        else:
            work += [(use.value, slot) for use in incoming(value)]
