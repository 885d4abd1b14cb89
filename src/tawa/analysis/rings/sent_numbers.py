"""Sent numbers: scalars that only the producer may compute, and that the consumers get through a ring.

    %tile = while … {                           group producer: while … {
      %ticket = atomic_rmw add, %counter, 1       %ticket = atomic_rmw add, %counter, 1; …
      loop { load; dot }                    →     put r[i] { splat %ticket } }
      yield %ticket + … }                       group consumer: while … { …; %ticket = unsplat(load(get r[i])); … }

An atomic must be executed once, so the partitions cannot each have a copy of it. If the producer needs its result, the
producer executes it. It runs ahead of the consumers then, which is allowed for a relaxed atomic: it orders no other
access. Other accesses to the same memory (the store that resets a counter) move to the producer as well, and so stay in
order.

If all that the consumers use follows from one number that is computed from the atomic's result (`%programs + %ticket`),
that number is sent instead, and the consumers need not compute it.

Before the partition, the value that comes out of the ring replaces the number everywhere (`received` finds the pairs).
The producer uses the number itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tawa.analysis.memory.provenance import Root, memory_roots
from tawa.analysis.rings.guards import GuardInfo
from tawa.analysis.rings.slices import SliceInfo, slice_from
from tawa.dialects.aref import CreateOp, GetOp, PutOp
from tawa.dialects.declare.declaration import address_of
from tawa.dialects.effects import effects_of, is_pure
from tawa.dialects.tt import ATOMICS, SplatOp, StoreOp, UnsplatOp, is_relaxed
from tawa.dialects.ttg import LocalLoadOp
from tawa.ir import Operation, Value, Worklist, is_scalar

NUMBER = "i32"
"""The type of a number that a ring can carry."""
NUMBER_SLOT = "#number"
"""The alias of the layout of a number in a slot."""
NUMBER_PAYLOAD = f"!ttg.memdesc<1x{NUMBER}, {NUMBER_SLOT}, #smem, mutable>"
"""The buffer of a number in a slot."""
SLOT_BYTES = 4


def number_layout(num_warps: int) -> str:
    """The alias of the layout of a tile of one number, which all threads of so many warps hold."""
    return f"#number_of_{num_warps}_warps"


@dataclass(frozen=True, slots=True)
class SentInfo:
    """numbers: the operations whose results are needed, in textual order. beside: other accesses to the same memory.

    values: for each of the numbers, what is sent: its result, or what follows from it.
    """

    numbers: tuple[Operation, ...] = ()
    beside: tuple[Operation, ...] = ()
    values: tuple[Value, ...] = ()

    @property
    def moved(self) -> tuple[Operation, ...]:
        """All operations that only the producer executes."""
        return (*self.numbers, *self.beside)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the rings."""
        return tuple(f"number{at}" for at in range(len(self.numbers)))


NOTHING_SENT = SentInfo()


def find_sent(found: GuardInfo, roots: Sequence[Operation], same: Mapping[Value, Value] | None = None) -> SentInfo:
    """The numbers that `roots`, the operations of the producer, need and only the producer may compute.

    found: the guards around the roots. same: the numbers by the values that came out of their rings (`received`).
    Nothing, if another operation on the same memory cannot be moved to the producer.
    """
    part = slice_from(roots, found.function.op, found.guards, same=same)
    if not any(map(_may_be_sent, part.ops)):
        return NOTHING_SENT
    while True:
        sent = _sent_by(found, part)
        more = slice_from((*roots, *sent.moved), found.function.op, found.guards, same=same)
        if len(more.ops) == len(part.ops):
            return sent
        part = more  # the results of accesses beside a number, and what they need, may be numbers as well


def _sent_by(found: GuardInfo, part: SliceInfo) -> SentInfo:
    inside = [nested for op in found.work.ops for nested in op.walk()]
    numbers = [op for op in inside if op in part and _may_be_sent(op) and op.result.uses]
    memory = {root for op in numbers for root in _memory_of(op) or ()}
    beside: list[Operation] = []
    for op in found.function.op.walk():
        accessed = None if op.regions or op in numbers else _addresses(op)
        if not accessed:
            continue
        roots = _memory_of(op)
        if roots is not None and not memory.intersection(roots):
            continue
        if op not in inside or not _may_move(op):
            return NOTHING_SENT
        beside.append(op)
    values = [_what_follows(op.result, set(beside), part) for op in numbers]
    return SentInfo(tuple(numbers), tuple(beside), tuple(values))


def _what_follows(number: Value, beside: Collection[Operation], part: SliceInfo) -> Value:
    """The last number through which all uses of `number` go, those by accesses `beside` it left out; else `number`."""
    holder = number.defining_op
    assert holder is not None and holder.parent is not None
    derived: list[Operation] = []
    for op in holder.parent.ops[holder.parent.index_of(holder) + 1 :]:
        if op in part and _is_scalar_step(op) and any(it is number or it.defining_op in derived for it in op.operands):
            derived.append(op)
    for op in reversed(derived):
        if op.result.type == NUMBER and _all_go_through(op, number, derived, beside):
            return op.result
    return number


def _is_scalar_step(op: Operation) -> bool:
    scalars = all(is_scalar(value.type) for value in (*op.operands, *op.results))
    return scalars and is_pure(op) and not op.regions and len(op.results) == 1


def _all_go_through(
    gate: Operation, number: Value, derived: Sequence[Operation], beside: Collection[Operation]
) -> bool:
    """Whether nothing uses `number`, or what follows from it, but by the result of `gate`."""
    work = Worklist([number])
    for value in work:
        for user in value.users:
            if user is gate or user in beside:
                continue
            if user not in derived and not _is_only_for(user, beside):
                return False
            work += user.results
    return True


def _is_only_for(op: Operation, beside: Collection[Operation]) -> bool:
    """Whether the result of a scalar operation is used by accesses `beside` a number, and by nothing else."""
    return _is_scalar_step(op) and all(user in beside for user in op.result.users)


def _may_be_sent(op: Operation) -> bool:
    return op.name in ATOMICS and op.result.type == NUMBER and _may_move(op)


def _may_move(op: Operation) -> bool:
    """Whether one warp can execute an operation, ahead of all others."""
    moves = StoreOp.matches(op) or (op.name in ATOMICS and is_relaxed(op))
    return moves and all(is_scalar(value.type) for value in op.operands) and _memory_of(op) is not None


def _memory_of(op: Operation) -> list[Root] | None:
    """What the global memory that an operation accesses belongs to; None if that is unknown, or if it accesses none."""
    addresses = _addresses(op)
    return memory_roots(addresses[0]) if len(addresses) == 1 else None


def _addresses(op: Operation) -> list[Value]:
    """The addresses of global memory that an operation accesses."""
    found = (address_of(op, effect) for effect in effects_of(op) if effect.space == "global")
    return list(dict.fromkeys(it for it in found if it is not None))


def received(ops: Collection[Operation]) -> dict[Value, Value]:
    """The values that come out of rings of numbers, each with the number that was put into the ring."""
    return dict(_received(ops))


def _received(ops: Collection[Operation]) -> Iterator[tuple[Value, Value]]:
    sent = {put.ring: number for op in ops if (put := PutOp.of(op)) and (number := _number_of(put)) is not None}
    for op in ops:
        unsplat = UnsplatOp.of(op)
        load = LocalLoadOp.of(op.operands[0].defining_op) if unsplat else None
        get = GetOp.of(load.buffer.defining_op) if load else None
        if get is not None and get.ring in sent:
            yield op.result, sent[get.ring]


def _number_of(put: PutOp) -> Value | None:
    """The number that a put sends; None for a put of tiles."""
    create = CreateOp.of(put.ring.defining_op)
    if create is None or create.fill != "number":
        return None
    splat = next(op for op in put.body.ops if SplatOp.matches(op))
    return splat.operands[0]
