"""The dependence graph of a loop body, within an iteration and across iterations.

    for k, acc:                        edges (source → target, distance)
      s = dot(q, x)                    value     dot → exp, 0        exp → dot', 0
      p = exp(s)                       value     dot' → scale, 1     (acc is loop-carried: one iteration later)
      a = scale(acc, p)                release   dot → consumed, 0   (the slot that the dot reads)
      acc' = dot'(p, y, a)             order     get r → get r, 1    (accesses to one ring stay in order)

Nodes are the operations of the body; a nested branch or loop is one node. Kinds of edges:

    value       the target uses a result of the source
    sum         the target is a dot that uses the source, a dot, only as its accumulator: both may be in flight
    release     the target releases or overwrites memory that the source reads: the source must be complete
    together    source and target must be in one pipeline stage: the value is a view of shared memory, the wgmmas of an
                inner loop that a wait completes, or a product that becomes one instruction with the sum that it is a
                term of, and then rounds once
    fill        the source fills a buffer that the target, or a view, reads: one stage, or the loop keeps the buffer
    order       both access a ring, or memory that may alias
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Literal

from tawa.analysis.loops.async_wgmma import own_buffers
from tawa.analysis.memory.provenance import memory_roots
from tawa.analysis.rings.channels import slot_readers
from tawa.dialects.aref import ConsumedOp, CreateOp, GetOp, PutOp
from tawa.dialects.arith import AddFOp, MulFOp, SubFOp
from tawa.dialects.control_flow import holder_of
from tawa.dialects.declare.declaration import Effect, address_of
from tawa.dialects.effects import effects_of
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import ATOMICS, acquires, releases
from tawa.dialects.ttg import VIEWS, LocalAllocOp, whole_of
from tawa.dialects.ttng import WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.ir import Operation, Value

DependenceKind = Literal["value", "sum", "release", "together", "fill", "order"]


@dataclass(frozen=True, slots=True)
class Dependence:
    """`target` of iteration i + `distance` depends on `source` of iteration i; both are indices of nodes."""

    source: int
    target: int
    distance: int
    kind: DependenceKind


@dataclass(frozen=True, slots=True, eq=False)
class DependenceInfo:
    """The graph of one loop: its nodes in textual order, and its edges."""

    loop: ForOp
    nodes: tuple[Operation, ...]
    edges: tuple[Dependence, ...]


def find_dependences(loop: ForOp) -> DependenceInfo:
    """The graph of the body of `loop`."""
    nodes = tuple(loop.body.ops[:-1])
    finder = _Finder(loop, nodes)
    finder.values()
    finder.buffers()
    finder.rings()
    finder.memory()
    return DependenceInfo(loop, nodes, tuple(finder.edges))


def captured(op: Operation) -> list[Value]:
    """The values defined outside of `op` that `op` or operations nested in it use; each once."""
    found: dict[Value, None] = {}
    for nested in op.walk():
        for value in nested.operands:
            holder = holder_of(value)
            inside = holder is not None and (op.is_ancestor_of(holder) or (holder is op and value.owner is not op))
            if not inside:
                found.setdefault(value, None)
    return list(found)


def sum_only(op: Operation, value: Value) -> bool:
    """Whether the only use of `value` is as the accumulator of `op`, a dot."""
    dot = WarpGroupDotOp.of(op)
    return dot is not None and dot.accumulator is value and len(value.uses) == 1


def stores_invariant_operand(dot: WarpGroupDotOp) -> bool:
    """Whether each iteration of a loop stores the same tile to shared memory for this dot, which is synchronous then.

    Triton may hoist the store out of the loop, so the end of the buffer's live range is not known here.
    """
    for operand in (dot.a, dot.b):
        stored, body = LocalAllocOp.of(whole_of(operand).defining_op), dot.op.parent
        source = stored.source if stored is not None and stored.op.parent is body else None
        if source is not None and body not in (source.owner, getattr(source.defining_op, "parent", None)):
            return True
    return False


def is_fused(product: Operation, sum: Operation) -> bool:
    """Whether a product and a sum of one block become one instruction (fma), which rounds once."""
    return MulFOp.matches(product) and (AddFOp.matches(sum) or SubFOp.matches(sum)) and product.parent is sum.parent


class _Finder:
    def __init__(self, loop: ForOp, nodes: tuple[Operation, ...]) -> None:
        self.loop = loop
        self.nodes = nodes
        self.numbers = {op: number for number, op in enumerate(nodes)}
        self.edges: dict[Dependence, None] = {}
        self.filled = {it.op for it in own_buffers(loop)}

    def add(self, source: int, target: int, distance: int, kind: DependenceKind) -> None:
        """Adds an edge once; self-edges of distance 0 are dropped."""
        if source != target or distance:
            self.edges[Dependence(source, target, distance, kind)] = None

    # -- values --------------------------------------------------------------------------------------------------

    def values(self) -> None:
        """Edges from definitions to uses, also through loop-carried values."""
        for target, op in enumerate(self.nodes):
            for value in captured(op):
                found = self._origin(value)
                if found is None:
                    continue
                source, distance, defined = found
                if self.nodes[source] in self.filled and not distance:
                    self.add(source, target, 0, "fill")
                elif value.type.startswith("!ttg.memdesc") or WarpGroupDotWaitOp.of(op):
                    self.add(source, target, distance, "together")
                elif sum_only(op, value) and WarpGroupDotOp.of(self.nodes[source]) and len(defined.uses) == 1:
                    self.add(source, target, distance, "sum")
                else:
                    self.add(source, target, distance, "value")
                    if not distance and is_fused(self.nodes[source], op):
                        self.add(source, target, distance, "together")

    def _origin(self, value: Value) -> tuple[int, int, Value] | None:
        """(node, distance, result): the node that defines the value, and how many iterations earlier."""
        distance, seen = 0, set[Value]()
        while value.owner is self.loop.body:
            if value.index == 0 or value in seen:
                return None
            seen.add(value)
            value = self.loop.yielded[value.index - 1]
            distance += 1
        number = self.numbers.get(value.defining_op) if value.defining_op else None
        return None if number is None else (number, distance, value)

    def buffers(self) -> None:
        """The dots of an iteration that read a buffer are complete before the next iteration fills it."""
        for op in self.filled:
            for reader in slot_readers(op.result):
                self.add(self.numbers[reader], self.numbers[op], 1, "release")

    # -- rings ---------------------------------------------------------------------------------------------------

    def rings(self) -> None:
        """Orders the puts and the gets of each ring, its releases, and each release after the readers of its slot."""
        accesses: dict[Value, list[int]] = {}
        for number, op in enumerate(self.nodes):
            for nested in op.walk():
                view = PutOp.of(nested) or GetOp.of(nested) or ConsumedOp.of(nested)
                if view and number not in accesses.setdefault(view.ring, []):
                    accesses[view.ring].append(number)
        puts = [number for number, op in enumerate(self.nodes) if PutOp.of(op)]
        for put, (number, op) in product(puts, enumerate(self.nodes)):
            if (get := GetOp.of(op)) and is_exchanged(get):  # another group may wait for this put
                first, then = sorted((put, number))
                self.add(first, then, 0, "order")
                self.add(then, first, 1, "order")
        waits = [number for number, op in enumerate(self.nodes) if WarpGroupDotWaitOp.of(op)]
        for ring, numbers in accesses.items():
            for wait, number in product(waits, numbers):
                if wait < number and ConsumedOp.of(self.nodes[number]):
                    self.add(wait, number, 0, "order")  # the wait may complete the slot's last reader, in an inner loop
            nested = [number for number in numbers if self.nodes[number].regions and not PutOp.of(self.nodes[number])]
            if nested:
                self._chain(numbers)
                # A nested loop may take any number of slots, so that gets of other rings must not be reordered with it.
                gets = [
                    number for other in accesses.values() for number in other if not ConsumedOp.of(self.nodes[number])
                ]
                for number, other in product(nested, gets):
                    first, then = sorted((number, other))
                    self.add(first, then, 0, "order")
                    self.add(then, first, 1, "order")
            else:
                for kind in (PutOp.NAME, GetOp.NAME, ConsumedOp.NAME):
                    self._chain([number for number in numbers if self.nodes[number].name == kind])
            for number in numbers:
                consumed = ConsumedOp.of(self.nodes[number])
                if consumed:
                    self._release(ring, consumed, number)

    def _chain(self, numbers: list[int]) -> None:
        for before, after in pairwise(numbers):
            self.add(before, after, 0, "order")
        if numbers:
            self.add(numbers[-1], numbers[0], 1, "order")

    def _release(self, ring: Value, consumed: ConsumedOp, number: int) -> None:
        """Orders a release after the readers of its slot; if the slot's get is unknown, after all earlier readers."""
        gets = [get for op in self.nodes[:number] if (get := GetOp.of(op)) and get.ring is ring]
        own = [get for get in gets if get.index is consumed.index]
        create = CreateOp.of(ring.defining_op)
        idle = create is not None and create.implied_empty  # no partition waits for the release
        for get in own or gets:
            self.add(self.numbers[get.op], number, 0, "order")
            for view in get.op.results:
                for reader in slot_readers(view):
                    node = self._node(_last_of_chain(reader) if idle else reader)
                    if node is not None and node < number:
                        self.add(node, number, 0, "release")

    def _node(self, op: Operation) -> int | None:
        if op in self.numbers:
            return self.numbers[op]
        return next((self.numbers[outer] for outer in op.ancestors() if outer in self.numbers), None)

    # -- memory --------------------------------------------------------------------------------------------------

    def memory(self) -> None:
        """Orders operations whose effects do not commute, within an iteration and across the back edge.

        Accesses to global memory stay before an atomic that releases, and behind one that acquires.
        """
        effects = [(number, found) for number, op in enumerate(self.nodes) if (found := _effects(op))]
        for place, (number, found) in enumerate(effects):
            for other, others in effects[place:]:
                if _conflict(self.nodes[number], found, self.nodes[other], others):
                    kind = "release" if any(effect.space == "shared" for effect in found) else "order"
                    self.add(number, other, 0, kind)
                    self.add(other, number, 1, kind)
        touching = [number for number, found in effects if any(effect.space == "global" for effect in found)]
        for number in touching:
            atomics = [it for it in self.nodes[number].walk() if it.name in ATOMICS]
            for other in touching if any(map(releases, atomics)) else ():
                self.add(other, number, int(other > number), "order")
            for other in touching if any(acquires(it) and it.result.uses for it in atomics) else ():
                self.add(number, other, int(other < number), "order")


def _effects(op: Operation) -> tuple[Effect, ...]:
    """The effects of `op`, except for those on rings and on wgmmas in flight, which have their own edges."""
    found: list[Effect] = []
    if PutOp.matches(op):  # it writes a slot of its own
        return ()
    for nested in op.walk():
        if nested.regions or nested.name.startswith("aref.") or nested.name == WarpGroupDotWaitOp.NAME:
            continue
        if nested.name not in VIEWS and any(it.type.startswith("!ttg.memdesc") for it in nested.operands):
            found.append(Effect("read", "shared"))  # a wgmma too, which declares no effect
        found += [effect for effect in effects_of(nested) if effect.kind != "allocate"]
    return tuple(found)


def _conflict(one: Operation, effects: tuple[Effect, ...], other: Operation, others: tuple[Effect, ...]) -> bool:
    return any(not _commute(one, left, other, right) for left in effects for right in others)


def _commute(one: Operation, left: Effect, other: Operation, right: Effect) -> bool:
    if left.kind == right.kind == "read":
        return True
    if left.kind not in ("read", "write") or right.kind not in ("read", "write"):
        # An operation that is only ordered (a print) does not access shared memory.
        kinds = (left.kind, right.kind)
        return "any" not in kinds and "barrier" not in kinds and "shared" in (left.space, right.space)
    if left.space != right.space:
        return True
    return left.space == "global" and _no_alias(one, left, other, right)


def _no_alias(one: Operation, left: Effect, other: Operation, right: Effect) -> bool:
    """Whether two accesses to global memory are derived from different kernel arguments."""
    if one.regions or other.regions:
        return False
    here, there = address_of(one, left), address_of(other, right)
    if here is None or there is None:
        return False
    first, second = memory_roots(here), memory_roots(there)
    return first is not None and second is not None and not any(root in second for root in first)


def _last_of_chain(op: Operation) -> Operation:
    """The last of the dots of a block that add to the result of a dot."""
    while len(op.results) == 1 and len(op.result.uses) == 1 and sum_only(user := op.result.users[0], op.result):
        if user.parent is not op.parent:
            break
        op = user
    return op


def is_exchanged(get: GetOp) -> bool:
    """Whether consumers fill the slot that is got, in the loops that also get it."""
    create = CreateOp.of(get.ring.defining_op)
    return create is not None and create.writer == "consumer"


def needed_by(op: Operation, between: Sequence[Operation]) -> list[Operation]:
    """What `op` depends on, among operations of its block that stand before it, in order."""
    block, found = op.parent, {op}
    assert block is not None
    for it in reversed(between):
        if any(user.within(block) in found for result in it.results for user in result.users):
            found.add(it)
    return [it for it in between if it in found]
