"""Whether a later program keeps the protocol of a proved one: equality of skeletons at the barrier level.

    proved                           later: Triton's final TTGIR
    %q = ttg.local_load %slot        ttng.arrive_barrier %released
    ttng.arrive_barrier %released    scf.for … {
    scf.for … {                        %q = ttg.local_load %slot       not equal: the slot may be filled again already

Two skeletons are equal if their trees are (`skeleton.tree`), and corresponding events have equal kinds, bytes, counts
and operands: barriers, buffers, slots, parities and predicates. Bounds of loops and conditions of branches must be
equal, too. Two values are equal if they are the same number, or the same operations make them from equal values. Values
that loops carry are taken as equal until a difference is found: then what holds before the first iteration, and from
each iteration to the next, always holds. Tiles are not compared, but those that a dot may still write.

The later program may have more fences, and events on allocations of its own: Triton loads tiles that are not in a ring
through a buffer and a barrier, which no other partition sees. When contents are put into an allocation that one
partition has alone does not matter either: before, its bytes are free or belong to it, and nobody else reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from tawa.dialects.control_flow import deciding, incoming
from tawa.dialects.declare.declaration import effects_by_name
from tawa.dialects.tt import FuncOp
from tawa.ir import Block, Module, Operation, Region, Value
from tawa.verify.barriers import check_barriers
from tawa.verify.run.places import NotUnderstood
from tawa.verify.skeleton.barrier_level import chooses_tile
from tawa.verify.skeleton.tree import FENCE_BEHIND, Leaf, Nest, Node, Tree, blocks, shape_of_buffer
from tawa.verify.verdict import Proved, Refuted, Verdict


def check_final(proved: Module, final: Module) -> Verdict | None:
    """The verdict on a program behind all passes on TTGIR: None if it has the protocol of the barrier level.

    Few programs have another. These are checked themselves, with full effort if need be: one that is not proved would
    be declined.
    """
    if preserved(proved, final):
        return None
    verdict = check_barriers(final, effort="fast")
    return verdict if isinstance(verdict, Proved | Refuted) else check_barriers(final)


def preserved(proved: Module, later: Module) -> bool:
    """Whether what was proved of one program at the barrier level holds for a later one.

    If not, the later program may still be right: it has to be proved itself.
    """
    ones, others = ([op for op in module.body.ops if FuncOp.matches(op)] for module in (proved, later))
    try:
        pairs = zip(map(Tree, ones), map(Tree, others), strict=False)
        return len(ones) == len(others) and all(_Comparison(*pair).holds() for pair in pairs)
    except NotUnderstood:
        return False


_Place = Operation | Block


@dataclass(slots=True)
class _Comparison:
    """Compares two skeletons: first the trees, then the values that must be equal.

    twins: operations and blocks of the proved program, each with that of the later one. taken: the other way round.
    added: events that only the later program has, each with the next event.
    """

    one: Tree
    other: Tree
    twins: dict[_Place, _Place] = field(default_factory=dict[Any, Any])
    taken: dict[_Place, _Place] = field(default_factory=dict[Any, Any])
    added: list[tuple[Leaf, Node | None]] = field(default_factory=list[Any])
    work: list[tuple[Value, Value]] = field(default_factory=list[Any])

    def holds(self) -> bool:
        """Whether the skeletons are equal."""
        return (
            self._same_nests(self.one.root, self.other.root)
            and self._same_values()
            and all(self._is_harmless(event, following) for event, following in self.added)
        )

    # -- trees ---------------------------------------------------------------------------------------------------------

    def _same_nests(self, one: Nest, other: Nest) -> bool:
        return self._pair(one.op, other.op, one.regions, other.regions) and all(
            map(self._same_blocks, one.blocks, other.blocks)
        )

    def _same_blocks(self, ones: Sequence[Node], others: Sequence[Node]) -> bool:
        """Whether a block has the events of another, in order, and besides only what Triton may add."""
        at = 0
        for node, following in zip_longest(others, others[1:]):
            if at < len(ones) and self._same_nodes(ones[at], node):
                at += 1
            elif isinstance(node, Nest):
                return False
            else:
                self.added.append((node, following))
                if any(root in self.taken for root in self.other.roots(node)):
                    return False
        return at == len(ones)

    def _same_nodes(self, one: Node, other: Node) -> bool:
        if isinstance(one, Nest) or isinstance(other, Nest):
            return isinstance(one, Nest) and isinstance(other, Nest) and self._same_nests(one, other)
        if (one.kind, one.amounts, len(one.values)) != (other.kind, other.amounts, len(other.values)):
            return False
        if not all(map(_comparable, one.values, other.values)) or not self._same_roots(one, other):
            return False
        results = zip(one.op.results, other.op.results, strict=False)
        if one.kind in ("dot", "dot wait") and any(self.other.uses(its) > self.one.uses(it) for it, its in results):
            return False
        if one.kind not in ("free", FENCE_BEHIND):
            self._take(one.op, other.op)
        self._ask(one.values, other.values)
        return True

    def _same_roots(self, one: Leaf, other: Leaf) -> bool:
        """Whether two events access the same allocations. One that was not accessed before is taken as the other's."""
        ones, others = self.one.roots(one), self.other.roots(other)
        if list(map(_buffer, ones)) != list(map(_buffer, others)):
            return False
        for it, its in zip(ones, others, strict=True):
            if (it in self.twins or its in self.taken) and self.twins.get(it) is not its:
                return False
        for it, its in zip(ones, others, strict=True):
            self._take(it, its)
        return True

    def _is_harmless(self, event: Leaf, following: Node | None) -> bool:
        """Whether an event may be added: a fence, or one on an allocation of the later program's own.

        A copy out of such a buffer is waited for at once. So is a copy that loads the contents of another allocation.
        """
        roots = self.other.roots(event)
        if event.kind == "copy in":
            (buffer, *barriers) = roots
            waited = (
                isinstance(following, Leaf) and following.kind == "wait" and self.other.roots(following) == barriers
            )
            holder = self.taken.get(buffer)
            loaded = isinstance(holder, Operation) and bool(holder.operands)
            return waited and barriers[0] not in self.taken and (holder is None or loaded)
        if event.kind == "copy out" and not _waits_for_stores(following):
            return False
        if event.kind == "fence" or _waits_for_stores(event):
            return True
        return bool(roots) and not any(root in self.taken for root in roots)

    def _pair(self, one: Operation, other: Operation, ones: Sequence[Region], others: Sequence[Region]) -> bool:
        """Takes two operations as one if their blocks correspond, and asks for equality of what decides them."""
        if one.name != other.name or [len(it.blocks) for it in ones] != [len(it.blocks) for it in others]:
            return False
        pairs = list(zip(blocks(ones), blocks(others), strict=True))
        for it, its in ((one, other), *pairs):
            self._take(it, its)
        for end, its in ((block.ops[-1], twin.ops[-1]) for block, twin in pairs if block.ops and twin.ops):
            if [self.twins.get(to) for to in end.successors] != its.successors:
                return False
            if len(end.successors) > 1:
                self._ask(end.operands[:1], its.operands[:1])
        self._ask([it.value for it in deciding(one)], [it.value for it in deciding(other)])
        return True

    def _take(self, one: _Place, other: _Place) -> None:
        self.twins[one] = other
        self.taken[other] = one

    # -- values --------------------------------------------------------------------------------------------------------

    def _ask(self, ones: Sequence[Any], others: Sequence[Any]) -> None:
        """Asks for equality of operands. Tiles are left out, unless a dot may still write one of them."""
        for one, other in zip(ones, others, strict=True):
            if isinstance(one, Value) and (
                not one.type.startswith("tensor<") or one in self.one.tiles or other in self.other.tiles
            ):
                self.work.append((one, other))

    def _same_values(self) -> bool:
        seen: set[tuple[Value, Value]] = set()
        while self.work:
            value, its = self.work.pop()
            one, other = self.one.settled(value), self.other.settled(its)
            if isinstance(one, int) or isinstance(other, int):
                if one != other:
                    return False
            elif (one, other) not in seen:
                seen.add((one, other))
                if not self._same(one, other):
                    return False
        return True

    def _same(self, one: Value, other: Value) -> bool:
        """Whether two values are made alike. Asks for equality of what they are made from."""
        if (one in self.one.tiles) != (other in self.other.tiles):
            return False
        sources, others = ([it.value for it in incoming(value)] for value in (one, other))
        if sources or others:
            if len(sources) != len(others) or not self._same_places(one.owner, other.owner):
                return False
            self._ask(sources, others)
            return True
        if one.index != other.index:
            return False
        if isinstance(one.owner, Block) or isinstance(other.owner, Block):
            return self._same_places(one.owner, other.owner)
        if one.owner in self.twins or other.owner in self.taken:
            return self.twins.get(one.owner) is other.owner
        return self._same_operations(one.owner, other.owner)

    def _same_places(self, one: _Place, other: _Place) -> bool:
        """Whether two blocks, or two operations with regions, correspond."""
        if one not in self.twins and other not in self.taken:
            holder, its = (it.parent_op if isinstance(it, Block) else it for it in (one, other))
            if holder is None or its is None or not self._pair(holder, its, holder.regions, its.regions):
                return False
        return self.twins.get(one) is other

    def _same_operations(self, one: Operation, other: Operation) -> bool:
        (meaning, operands), (its_meaning, its_operands) = self.one.meaning(one), self.other.meaning(other)
        if meaning != its_meaning or len(operands) != len(its_operands):
            return False
        if chooses_tile(one):
            self._ask(operands, its_operands)
            return True
        self.work += zip(operands, its_operands, strict=True)
        if one.regions:
            ends = [[block.ops[-1].operands for block in blocks(op.regions)] for op in (one, other)]
            self.work += [pair for it, its in zip(*ends, strict=False) for pair in zip(it, its, strict=False)]
            return self._pair(one, other, one.regions, other.regions)
        if any(effect.kind != "read" for effect in effects_by_name(one.name)):
            self._take(one, other)  # each execution may give another result
        return True


def _buffer(allocation: Operation) -> tuple[Any, ...]:
    return shape_of_buffer(allocation.result)


def _comparable(one: Value | int | None, other: Value | int | None) -> bool:
    return one == other or (isinstance(one, Value) and isinstance(other, Value))


def _waits_for_stores(node: Node | None) -> bool:
    return isinstance(node, Leaf) and node.kind == "store wait" and node.amounts[0] == 0
