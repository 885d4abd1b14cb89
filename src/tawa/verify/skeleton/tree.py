"""The skeleton of the barrier level as a tree: loops, branches and partitions, with their events in program order.

    scf.for … {                                          scf.for
      ttng.wait_barrier %full[%s], %p                →     wait     %full[%s], %p
      %q = ttg.local_load %slot[%s]                        read     %slot[%s]
      ttng.arrive_barrier %empty[%s] }                     arrive   %empty[%s], 1

It is read without a run, for comparisons (`tawa.verify.preserved`). The events are those of the templates in
`skeleton.barrier_level`, with the operands of the operations in place of registers. Live ranges end in events, too.
Left out are loops and branches without events, and what comes to the same whether it is there or not: an event that
repeats the one before it, and allocations in which a partition only changes the layout of a tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tawa.dialects.arith import (
    AddIOp,
    AndIOp,
    CmpIOp,
    DivSIOp,
    MaxSIOp,
    MinSIOp,
    MulIOp,
    OrIOp,
    SelectOp,
    SubIOp,
    XOrIOp,
)
from tawa.dialects.control_flow import incoming
from tawa.dialects.declare.declaration import by_name, op_names
from tawa.dialects.inline.code import INLINE
from tawa.dialects.inline.effects import acts
from tawa.dialects.memory.lifetimes import freed_behind, users_of
from tawa.dialects.scalars import evaluate, width_of, wrap
from tawa.dialects.scf import CONTROL
from tawa.dialects.ttg import LocalAllocOp, LocalDeallocOp, LocalLoadOp, WarpSpecializeOp
from tawa.dialects.ttng import ReinterpretTensorDescOp, WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.ir import Block, MemDescType, Operation, Region, Value, parse_type
from tawa.verify.crossed_numbers import crossed_numbers
from tawa.verify.run.events import Act
from tawa.verify.run.places import NotUnderstood
from tawa.verify.skeleton.barrier_level import (
    DESCRIBING,
    Accesses,
    barrier_events,
    chooses_tile,
    in_loop,
)
from tawa.verify.skeleton.named_barriers import assembly


@dataclass(slots=True)
class Leaf:
    """One event. values: its operands; None for a predicate that it does not have."""

    op: Operation
    kind: str
    amounts: tuple[Any, ...] = ()
    values: Sequence[Value | int | None] = ()


@dataclass(slots=True)
class Nest:
    """A function, a loop, a branch, or a fork: the events of each block of its regions."""

    op: Operation
    regions: Sequence[Region]
    blocks: list[list[Leaf | Nest]]


Node = Leaf | Nest
FENCE_BEHIND = "descriptor fence"
_NEUTRAL = by_name({MulIOp: 1, DivSIOp: 1, OrIOp: 0, XOrIOp: 0})
"""The right operands that change nothing."""
_COMMUTATIVE = op_names(AddIOp, MulIOp, AndIOp, OrIOp, XOrIOp, MinSIOp, MaxSIOp, CmpIOp)


class Tree:
    """Reads the events of a function, by the templates of the skeleton: values take the place of registers."""

    def __init__(self, function: Operation) -> None:
        self.accesses = Accesses(function)
        self.accesses.require_known()
        self.tiles = self.accesses.tiles
        self.numbers = crossed_numbers(self.accesses.ops).stores
        self.known: dict[Value, Value | int] = {}
        self.repeated: dict[Value, Value] = {}
        self.values: list[Any] = []
        self.found: list[Node] = []
        self.root = self._nest(function, function.regions)

    def _nest(self, op: Operation, regions: Sequence[Region]) -> Nest:
        return Nest(op, regions, [self._block(block) for block in blocks(regions)])

    def _block(self, block: Block) -> list[Node]:
        outer, self.found = self.found, []
        freed = freed_behind(block) if any(LocalAllocOp.matches(op) for op in block.ops) else {}
        for op in block.ops:
            self.values = []
            self._op(op)
            for allocation in freed.get(op, ()):
                self.free(allocation, allocation.result)
        found, self.found = self.found, outer
        return found

    def _op(self, op: Operation) -> None:
        if op.name in CONTROL:
            nest = self._nest(op, op.regions)
            self.found += [nest] if any(nest.blocks) else []
        elif fork := WarpSpecializeOp.of(op):
            self.found.append(self._nest(op, fork.regions))
        elif make := barrier_events().get(op.name):
            if op.name not in DESCRIBING or in_loop(op):
                make(self, op)
        elif op.name in INLINE and acts(op):
            assembly(self, op, self.accesses.forks)

    # -- what the templates use ----------------------------------------------------------------------------------------

    def use(self, value: Value) -> int:
        """An operand of the next event."""
        return self.constant(value)

    def define(self, value: Value) -> int:
        """A result has no part in the event."""
        return -1

    def constant(self, number: Any) -> int:
        """A number as an operand."""
        self.values.append(number)
        return len(self.values) - 1

    def act(self, act: Act, *conditions: Value | None) -> None:
        """One event. Of a wait for dots, only tiles count: Triton adds the operands of the dots."""
        registers = (*act.reads, act.tile, *(tile for tile, _ in act.tiles if self.values[tile] in self.tiles))
        unwritten = self.values[act.descriptor] not in self.accesses.descriptors if act.descriptor >= 0 else False
        values = [None if it == act.descriptor and unwritten else self.values[it] for it in registers if it >= 0]
        event = Leaf(
            act.op, act.kind, (act.amount, act.of), (*values, *(conditions or (None,)), self.numbers.get(act.op))
        )
        if not self._repeats(event) and not self._is_conversion(event):
            self.found.append(event)

    def _repeats(self, event: Leaf) -> bool:
        """Whether an event is one of those right before it once more: a read of a buffer, or a wait for dots."""
        for last in reversed(self.found):
            if isinstance(last, Nest) or last.kind != event.kind or event.kind not in ("read", "dot wait"):
                return False
            if (last.amounts, last.values) == (event.amounts, event.values):
                self.repeated.update(zip(event.op.results, last.op.results, strict=False))
                return True
        return False

    def allocate(self, op: Operation) -> None:
        """An allocation is no event: it is the one that corresponding events access."""

    def describe(self, op: Operation, memory: Value, kind: str) -> None:
        """A descriptor that is written in a loop. Triton makes two operations of one: the second is a fence."""
        while memory not in self.accesses.described and memory.defining_op is not None:
            memory = memory.defining_op.operands[0]
        if memory.defining_op is None:
            raise NotUnderstood("a descriptor in memory that is not an allocation of this kernel", op)
        self.found.append(Leaf(memory.defining_op, "descriptor"))
        if kind == "describe":
            self.act(Act(FENCE_BEHIND, op))

    def free(self, op: Operation, buffer: Value) -> None:
        """The end of a live range."""
        if not self.accesses.roots_of(buffer) & self.accesses.barriers:
            self.act(Act("free", op, reads=(self.use(buffer),)))

    def _is_conversion(self, event: Leaf) -> bool:
        """Whether it accesses contents that only their own partition reads, with its threads: a tile changes layout."""
        roots = self.roots(event)
        return bool(roots) and all(op.operands and all(map(_only_reads, users_of(op))) for op in roots)

    # -- facts ---------------------------------------------------------------------------------------------------------

    def roots(self, event: Leaf) -> list[Operation]:
        """The allocations that an event accesses, operand by operand."""
        buffers = [it for it in event.values if isinstance(it, Value) and it.type.startswith("!ttg.memdesc")]
        return [
            root
            for buffer in buffers
            for root in sorted(self.accesses.roots_of(buffer), key=self.accesses.allocations.__getitem__)
        ]

    def settled(self, value: Value) -> Value | int:
        """The number that a value always is, or the value that it always has, through captures and conversions."""
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = self._settled(value)
        return found

    def _settled(self, value: Value) -> Value | int:
        if value in self.repeated:
            return self.repeated[value]
        sources = list(dict.fromkeys(it.value for it in incoming(value) if it.value is not value))
        if len(sources) == 1:
            return self.settled(sources[0])
        if sources:
            return self._carried(value, sources)
        op = value.defining_op
        if described := ReinterpretTensorDescOp.of(op):
            return self.settled(described.op.operands[0])
        if op is None or not op.name.startswith("arith."):
            return value
        inputs = [self.settled(it) for it in op.operands]
        (number,) = evaluate(op, [it if isinstance(it, int) else None for it in inputs])
        if number is not None:
            return number
        if SelectOp.matches(op) and isinstance(inputs[0], int):
            return inputs[1 if inputs[0] else 2]
        if len(inputs) == 2 and inputs[1] == _NEUTRAL.get(op.name):
            return inputs[0]
        if (rest := self._cancelled(op, inputs)) is not None:
            return rest
        base, number = self._sum(value)
        return value if number else base

    def _cancelled(self, op: Operation, inputs: Sequence[Value | int]) -> Value | int | None:
        """x, in any width, of ``x + y - y``, ``y + x - y`` and ``x - y + y``; None for another operation."""
        left, right = inputs if len(inputs) == 2 else (0, 0)
        if SubIOp.matches(op):
            return self._without(left, right, AddIOp)
        if not AddIOp.matches(op):
            return None
        rest = self._without(left, right, SubIOp)
        return self._without(right, left, SubIOp) if rest is None else rest

    def _without(self, value: Value | int, part: Value | int, kind: type[AddIOp | SubIOp]) -> Value | int | None:
        """What a sum is made of besides `part`; the left side of a difference whose right side is `part`."""
        op = value.defining_op if isinstance(value, Value) and isinstance(part, Value) else None
        if op is None or not kind.matches(op):
            return None
        left, right = map(self.settled, op.operands)
        if right == part:
            return left
        return right if left == part and kind is AddIOp else None

    def _carried(self, value: Value, sources: Sequence[Value]) -> Value | int:
        """A value with several sources is a number if all of them are, should it be that number."""
        first = self.settled(sources[0])
        if isinstance(first, int):
            before = dict(self.known)
            self.known[value] = first
            if all(self.settled(it) == first for it in sources[1:]):
                return first
            self.known = before
        return value

    def _sum(self, value: Value) -> tuple[Value, int]:
        """A value as the sum of another value and a number."""
        op = value.defining_op
        width = width_of(value.type)
        if width is None or not (AddIOp.matches(op) or SubIOp.matches(op)):
            return value, 0
        assert op is not None
        left, right = (self.settled(it) for it in op.operands)
        if AddIOp.matches(op) and isinstance(left, int):
            left, right = right, left
        if isinstance(left, int) or not isinstance(right, int):
            return value, 0
        base, number = self._sum(left)
        return base, wrap(number + (right if AddIOp.matches(op) else -right), width)

    def meaning(self, op: Operation) -> tuple[Any, list[Value]]:
        """What determines the result of an operation; its operands. A number goes from the left to the right."""
        result, operands = op.results[0], op.operands
        base, number = self._sum(result)
        if base is not result:
            return (result.type, number), [base]
        properties = {name: text for name, text in op.properties.items() if name != "overflowFlags"}
        if op.name in _COMMUTATIVE and isinstance(self.settled(operands[0]), int):
            operands = operands[::-1]
            if compare := CmpIOp.of(op):
                properties["predicate"] = f"{compare.predicate.mirrored} : i64"
        return (op.name, _matters(result), properties), operands

    def uses(self, tile: Value) -> bool:
        """Whether the result of a dot, or of a wait for dots, is used by anything but dots and waits."""
        tiles = [tile, *(value for value, first in self.repeated.items() if first is tile)]
        return any(
            self.accesses.uses_tile(use.op)
            and not WarpGroupDotWaitOp.matches(use.op)
            and not (WarpGroupDotOp.matches(use.op) and WarpGroupDotOp(use.op).accumulator is value)
            for value in self.accesses.followed(tiles, lambda op, _: op.result if chooses_tile(op) else None)
            for use in value.uses
        )


def blocks(regions: Iterable[Region]) -> list[Block]:
    """The blocks of several regions."""
    return [block for region in regions for block in region.blocks]


def shape_of_buffer(buffer: Value) -> tuple[Any, ...]:
    """What the type of a buffer says of its bytes."""
    type = parse_type(buffer.type)
    assert isinstance(type, MemDescType)
    return type.shape, type.element


def _matters(value: Value) -> Any:
    """The part of the type of a result that is not known from the operation: all of a number, no layout."""
    if value.type.startswith("!ttg.memdesc"):
        return shape_of_buffer(value)
    return value.type if width_of(value.type) else ""


def _only_reads(op: Operation) -> bool:
    return LocalLoadOp.matches(op) or LocalDeallocOp.matches(op)
