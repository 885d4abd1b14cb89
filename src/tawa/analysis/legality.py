"""Legality: checks whether a kernel may be specialised. Every refusal is a `declined` remark with location and cure.

The producer runs ahead of the consumer. That is safe only if the consumer never writes memory that the producer reads,
and if the producer can compute its addresses and its control flow without the consumer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tawa.analysis.layout.producer_layouts import PRODUCER_WARPS, fixed_layout
from tawa.analysis.memory.provenance import Root, follows_addresses, made_in_a_loop, memory_roots, remade_for
from tawa.analysis.rings.channels import ancestor_in
from tawa.analysis.rings.given_numbers import given_numbers
from tawa.analysis.rings.guards import GuardInfo, find_guards
from tawa.analysis.rings.loads import DotLoadInfo, find_dots, tma_alignment
from tawa.analysis.rings.sent_numbers import SentInfo, find_sent
from tawa.analysis.rings.slices import SliceInfo, slice_from
from tawa.analysis.sums import rounds
from tawa.declines import (
    ALREADY,
    BARRIER,
    CALL,
    CLUSTERS,
    DESCRIPTOR_IN_A_LOOP,
    MAY_WAIT,
    NEEDS_THE_CONSUMER,
    NO_DOT,
    NO_LOAD,
    NOT_IN_A_LOOP,
    ODD_TILE,
    PRODUCER_LAYOUT,
    UNKNOWN_ADDRESS,
    UNKNOWN_EFFECTS,
    UNSTRUCTURED,
    WARPS,
    WRITES_WHAT_IT_READS,
    Decline,
)
from tawa.dialects.declare.declaration import address_of
from tawa.dialects.effects import effects_of, is_plain_load, is_pure
from tawa.dialects.scf import CONTROL, ENDS, enclosing_loops
from tawa.dialects.tt import ATOMICS, DOTS, CallOp, DescriptorLoadOp, FuncOp, LoadOp, acquires
from tawa.dialects.ttg import WarpSpecializeOp, ctas_of
from tawa.ir import Module, Operation, Value, is_scalar, parse_type
from tawa.ir.locations import written_at
from tawa.ir.types import TensorDescType, TensorType
from tawa.remarks import Remark
from tawa.symbolic.words import word_of

_FLOW = CONTROL | ENDS
_WARPS = (4, 8)
LARGEST_PRODUCER_TILE = 8 * 1024
"""Bytes of a tile that a producer may compute for a trip count or a condition: 16 registers of each thread."""


def declined(module: Module, at: Operation | None, kind: Decline, /, **values: object) -> Remark:
    """A refusal at the user's line of the operation `at`. values: what stands in its text."""
    return kind.remark(written_at(module, at) if at else None, **values)


def check_module(module: Module, num_warps: int) -> Iterator[Remark]:
    """Refusals that do not depend on the loads: module shape, and operations that no load may be moved across."""
    functions = [op for op in module.body.ops if FuncOp.of(op)]
    if (ctas := ctas_of(module)) != 1:
        yield declined(module, None, CLUSTERS, ctas=ctas)
    if num_warps not in _WARPS:
        yield declined(module, None, WARPS, num_warps=num_warps)
    for function in functions:
        view = FuncOp(function)
        if not view.structured:
            yield declined(module, view.body.terminator, UNSTRUCTURED)
    for op in module.walk():
        kinds = {effect.kind for effect in effects_of(op)} if not op.regions else set[str]()
        if op.name == WarpSpecializeOp.NAME:
            yield declined(module, op, ALREADY)
        elif op.name == CallOp.NAME:
            yield declined(module, op, CALL, callee=op.properties.get("callee", "a function"))
        elif "any" in kinds:
            yield declined(module, op, UNKNOWN_EFFECTS, op=word_of(op))
        elif "barrier" in kinds and not _of_consumer(op, module):
            yield declined(module, op, BARRIER, op=word_of(op))


def _of_consumer(barrier: Operation, module: Module) -> bool:
    """Whether a barrier keeps its meaning if only the consumer's warps execute it.

    A barrier orders the stores and loads of the warps that execute it, and no moved load reads what the kernel stores.
    For addresses loaded from memory, non-aliasing is only assumed, and only in kernels without barriers before their
    last dot: a barrier outside of loops with no dot behind it has no moved load behind it either. `_check_order` looks
    for loads that a barrier makes wait for other CTAs.
    """
    behind = iter(module.walk())
    last = any(op is barrier for op in behind) and not any(op.name in DOTS for op in behind)
    return (last and not enclosing_loops(barrier)) or not follows_addresses(module)


def _talks(module: Module) -> bool:
    """Whether the kernel has an atomic or a volatile load, so that a barrier may be part of a wait for other CTAs."""
    return any(op.name in ATOMICS or (op.name == LoadOp.NAME and not is_plain_load(op)) for op in module.walk())


def check_loads(module: Module, loads: list[DotLoadInfo]) -> Iterator[Remark]:
    """Refusals because there is nothing to move: no dot, no dot in a loop, or no operand loaded in a loop."""
    dots = find_dots(module)
    if not dots:
        yield declined(module, None, NO_DOT)
        return
    looped = [dot for dot in dots if enclosing_loops(dot)]
    if not looped:
        yield declined(module, dots[0], NOT_IN_A_LOOP)
        return
    if not loads:
        yield declined(module, looped[0], NO_LOAD)
    for info in loads:
        step = tma_alignment(module, info.payload) if info.fill == "tma" else 1
        if info.payload.bytes % step:
            yield declined(module, info.load.op, ODD_TILE, bytes=info.payload.bytes, step=step)


@dataclass(frozen=True)
class ProducerInfo:
    """The producer of some loads, and what the kernel writes.

    function: the kernel. guarded: the guards that stay outside of the partitions, and the work inside of them. given:
    the numbers that the producer is given. part: its slice. sent: the numbers that it sends. writes: every operation
    that writes global memory, with the roots of its address (None: unknown).
    """

    module: Module
    loads: list[DotLoadInfo]
    function: Operation
    guarded: GuardInfo
    given: tuple[Value, ...]
    part: SliceInfo
    sent: SentInfo
    writes: list[tuple[Operation, list[Root] | None]]

    @property
    def roots(self) -> list[Operation]:
        """The operations of the loads."""
        return [info.load.op for info in self.loads]

    @cached_property
    def folded(self) -> int:
        """Elements of the largest tile that it computes, apart from the tiles that it loads; 0 if it computes none.

        A producer with tiles needs as many warps as their layouts are for.
        """
        own = {*self.roots, *self.sent.moved}
        inside = [op for op in self.part.ops if op not in own and op.name not in _FLOW]
        return max((_elements(value) for op in inside for value in (*op.operands, *op.results)), default=0)


def find_producer(module: Module, loads: list[DotLoadInfo]) -> ProducerInfo:
    """The producer of these loads. Requires a structured function."""
    roots = [info.load.op for info in loads]
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    guarded = find_guards(function, roots)
    given, sent = given_numbers(guarded, roots), find_sent(guarded, roots)
    part = slice_from((*roots, *sent.beside), guarded.function.op, guarded.guards, given=given)
    writes = [(op, memory_roots(address)) for op, address in _global_writes(module)]
    return ProducerInfo(module, loads, function.op, guarded, given, part, sent, writes)


def check_memory(producer: ProducerInfo) -> Iterator[Remark]:
    """Refusals because a moved load runs ahead of a write to its descriptor or to the memory that it reads."""
    module = producer.module
    for info in producer.loads:
        load = info.load
        maker = made_in_a_loop(module, load.descriptor) if isinstance(load, DescriptorLoadOp) else None
        if maker and isinstance(load, DescriptorLoadOp) and remade_for(load) is not maker:
            yield declined(module, maker, DESCRIPTOR_IN_A_LOOP, place=written_at(module, info.load.op))
        yield from _conflicts(producer, load.op, _address_of(info))
    yield from _check_order(producer)


def taken_apart(producer: ProducerInfo, loads: list[DotLoadInfo]) -> Iterator[Remark]:
    """A note if loaded addresses are assumed not to alias the memory that the kernel writes."""
    loaded = [root for info in loads for root in memory_roots(_address_of(info)) or ()]
    written = [root for _, roots in producer.writes for root in roots or ()]
    if written and any(root.behind for root in (*loaded, *written)):
        names = [", ".join(dict.fromkeys(root.name for root in roots)) for roots in (loaded, written)]
        reason = f"taken for granted: loads through {names[0]} do not alias stores through {names[1]}"
        yield Remark("note", reason, written_at(producer.module, producer.writes[0][0]))


def _address_of(info: DotLoadInfo) -> Value:
    return info.load.descriptor if isinstance(info.load, DescriptorLoadOp) else info.load.pointers


def _check_order(producer: ProducerInfo) -> Iterator[Remark]:
    """Refusals because of operations with acquire semantics: loads after them must not be moved before them.

    In a kernel that communicates with other CTAs, a barrier is one of them.
    """
    module, body = producer.module, producer.guarded.work
    last = max((body.index_of(ancestor_in(body, op)) for op in producer.roots), default=-1)
    talks = _talks(module)
    for outer in body.ops[: last + 1]:
        for op in outer.walk():
            if _acquires(op) or (talks and _is_barrier(op)):
                yield declined(module, op, MAY_WAIT, op=word_of(op))


def _is_barrier(op: Operation) -> bool:
    return not op.regions and any(effect.kind == "barrier" for effect in effects_of(op))


def _acquires(op: Operation) -> bool:
    """Whether `op` acts as an acquire: an acquiring atomic whose result is used, or a volatile load."""
    if op.name in ATOMICS:
        return bool(op.result.uses) and acquires(op)
    return op.name == LoadOp.NAME and not is_plain_load(op)


def check_producer(producer: ProducerInfo, num_warps: int) -> Iterator[Remark]:
    """Refusals because the producer cannot compute the addresses or the control flow of a load by itself.

    num_warps: the warps of a consumer; the layouts of the program are for this number.
    """
    module, function, part = producer.module, producer.function, producer.part
    own, moved = set(producer.roots), set(producer.sent.moved)
    tiles = any(info.fill != "tma" for info in producer.loads)
    blocked: Operation | None = None
    for op in ordered(slice_from((), function, producer.guarded.guards, producer.given), function):
        if load := LoadOp.of(op):
            yield from _conflicts(producer, op, load.pointers)
    for op in ordered(part, function):
        if op in own and any(user in part and user not in own for user in op.result.users):
            blocked = op
        if op in own or op in moved or op.name in _FLOW:
            continue
        if _not_duplicable(op, tiles):
            blocked = op  # the last one in textual order is the nearest to the load
        elif load := LoadOp.of(op):
            yield from _conflicts(producer, op, load.pointers)
    if blocked:
        why = _not_duplicable(blocked, tiles) or "whose tile is also an operand of a dot"
        yield declined(module, blocked, NEEDS_THE_CONSUMER, op=word_of(blocked), why=why)
    elif tiles or producer.folded:
        obstacle = fixed_layout(module, ordered(part, function), num_warps)
        if obstacle is not None:
            op, layout = obstacle
            values = {"layout": layout, "warps": PRODUCER_WARPS, "num_warps": num_warps}
            yield declined(module, op, PRODUCER_LAYOUT, **values)


def ordered(part: SliceInfo, function: Operation) -> list[Operation]:
    """The operations of a slice in textual order."""
    return [op for op in function.walk() if op in part]


def _global_writes(module: Module) -> list[tuple[Operation, Value]]:
    """Every operation that writes global memory, with its address."""
    return [
        (op, address)
        for op in module.walk()
        if not op.regions
        for effect in effects_of(op)
        if effect.kind == "write" and effect.space == "global"
        if (address := address_of(op, effect)) is not None
    ]


def _not_duplicable(op: Operation, tiles: bool) -> str:
    """Why the producer cannot execute a copy of `op`; empty if it can. tiles: whether it fills slots from registers."""
    if op.name in DOTS:
        return "which only the consumer computes"
    if not is_plain_load(op) and not is_pure(op):
        return "which reads or writes memory" if DescriptorLoadOp.of(op) else "which has side effects"
    if rounds(op):
        return "which adds floats in an order that depends on the number of warps"
    values = (*op.operands, *op.results)
    if tiles or all(_is_foldable(value) for value in values):
        return ""
    return "which works on a large tile in registers"


def _elements(value: Value) -> int:
    kind = parse_type(value.type)
    return prod(kind.shape) if isinstance(kind, TensorType) else 0


def _is_foldable(value: Value) -> bool:
    """Whether a producer may compute on a value: a number, a descriptor, or a small tile."""
    kind = parse_type(value.type)
    if isinstance(kind, TensorType):
        return kind.bytes <= LARGEST_PRODUCER_TILE
    return is_scalar(value.type) or isinstance(kind, TensorDescType)


def _conflicts(producer: ProducerInfo, read: Operation, address: Value) -> Iterator[Remark]:
    module, roots = producer.module, memory_roots(address)
    for op, written in producer.writes:
        place = written_at(module, read)
        if roots is None or written is None:
            unknown = op if written is None else read
            access, other = (
                ("goes to", f"the load at {place} reads") if written is None else ("reads", "the kernel writes")
            )
            yield declined(module, unknown, UNKNOWN_ADDRESS, op=word_of(unknown), access=access, other=other)
            return
        shared = [root for root in roots if root in written]
        if shared:
            values = {"op": word_of(op), "argument": shared[0].name, "place": place}
            yield declined(module, op, WRITES_WHAT_IT_READS, **values)
            return
