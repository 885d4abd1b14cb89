"""Owned dots: dots that one consumer group computes whole, because every group needs their results whole.

    s  = dot k, trans q        whole: ds is computed from it, too, and is a left operand of dk and dq
    p  = half(f(s))            a tile that is exchanged: a left operand, in 16 bits
    dp = dot v, trans do       whole
    ds = half(p · dp)          a tile that is exchanged
    dv = dot p, do, dv         divided: the groups divide its columns, and those of do
    dk = dot ds, q, dk         divided
    dq = dot trans ds, k       divided

Where groups divide the columns of accumulators, each of them reads the whole left operand. A dot from whose result such
an operand is computed belongs to one group, which stores the operand for all of them. Dots from which one value is
computed without such a tile between them belong to the same group. The groups get equal work, as far as possible.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from tawa.dialects.control_flow import outgoing
from tawa.dialects.effects import happens_once
from tawa.dialects.inline.markers import OwnedTileOp
from tawa.dialects.scf import CONTROL, ENDS
from tawa.dialects.tt import DOTS, DotOp, TransOp
from tawa.ir import Module, Operation, TensorType, Use, Value, Worklist, parse_type, shape_of

_BITS = 16


@dataclass(frozen=True, slots=True)
class OwnerInfo:
    """owners: the group of each tile that is exchanged. users: the uses of each tile that read what its owner stored.

    divided: the dots whose columns the groups divide. whole: the others.
    """

    owners: dict[Value, int]
    users: dict[Value, tuple[Use, ...]]
    divided: tuple[DotOp, ...]
    whole: tuple[DotOp, ...]


def find_owners(module: Module, groups: int) -> OwnerInfo | None:
    """What each of so many groups owns; None if there are too few independent dots, or others need their results."""
    ops = list(module.walk())
    dots = [dot for op in ops if (dot := DotOp.of(op))]
    if len(dots) < sum(op.name in DOTS for op in ops):
        return None
    everything = [_reached(dot.op.result) for dot in dots]
    lefts = [_untransposed(dot.a) for dot in dots]
    whole = [dot for dot, found in zip(dots, everything, strict=True) if not found.isdisjoint(lefts)]
    divided = [dot for dot in dots if dot not in whole]
    computed = {value for found in everything for value in found}
    tiles = dict.fromkeys(left for left in lefts if left in computed)
    if not divided or not all(map(_is_exchangeable, tiles)):
        return None
    finder = _Finder(whole, tiles, [_reached(dot.op.result, tiles) for dot in whole])
    chains = finder.chains()
    if len(chains) < groups or finder.needed_by_all(ops, divided):
        return None
    return finder.info(_balanced(whole, chains, groups), divided)


def owned_dots(module: Module) -> set[Operation]:
    """The dots from which owned tiles are computed."""
    work = Worklist(view.source for op in module.walk() if (view := OwnedTileOp.of(op)))
    found: set[Operation] = set()
    for value in work:
        op = value.defining_op
        if op is not None and op.name in DOTS:
            found.add(op)
        elif op is not None and not OwnedTileOp.matches(op):
            work += op.operands
    return found


@dataclass(frozen=True, slots=True)
class _Finder:
    """whole: dots. tiles: what is exchanged. reached: by dot, what only its group has, and the tiles from it."""

    whole: list[DotOp]
    tiles: dict[Value, None]
    reached: list[set[Value]]

    def private(self, dot: int) -> set[Value]:
        """What only the group of a dot has."""
        return self.reached[dot] - self.tiles.keys()

    def chains(self) -> list[list[int]]:
        """The dots that belong together, by number, in program order."""
        chains: list[list[int]] = []
        for dot in range(len(self.whole)):
            joined = [chain for chain in chains if any(self._together(dot, other) for other in chain)]
            chains = [*(it for it in chains if it not in joined), [*(it for chain in joined for it in chain), dot]]
        return chains

    def _together(self, one: int, other: int) -> bool:
        """Whether one value is computed from two dots, or one of the dots from the other, with no tile between them."""
        if not self.reached[one].isdisjoint(self.reached[other]):
            return True
        pairs = ((one, other), (other, one))
        return any(not self.private(first).isdisjoint(self.whole[then].op.operands) for first, then in pairs)

    def needed_by_all(self, ops: list[Operation], divided: list[DotOp]) -> bool:
        """Whether something that every group executes needs what only one of them has."""
        private = {value for dot in range(len(self.whole)) for value in self.private(dot)}
        shared = {dot.op for dot in divided}
        for op in ops:
            deciding = [it for it in op.operands if not shape_of(it)] if op.name in CONTROL | ENDS else None
            effect = not op.regions and op.name not in ENDS and happens_once(op)
            needed = deciding if deciding is not None else op.operands if effect or op in shared else ()
            if not private.isdisjoint(needed):
                return True
        return False

    def info(self, owners: list[int], divided: list[DotOp]) -> OwnerInfo:
        """owners: by dot."""
        of_tiles = {
            tile: owner
            for tile in self.tiles
            for found, owner in zip(self.reached, owners, strict=True)
            if tile in found
        }
        users: dict[Value, tuple[Use, ...]] = {}
        for tile, owner in of_tiles.items():
            own = {value for dot, it in enumerate(owners) if it == owner for value in self.reached[dot]}
            users[tile] = tuple(use for use in tile.uses if own.isdisjoint(use.op.results))
        return OwnerInfo(of_tiles, users, tuple(divided), tuple(self.whole))


def _balanced(whole: list[DotOp], chains: list[list[int]], groups: int) -> list[int]:
    """The group of each dot: chains with more work first, each to the group with the least work so far."""
    loads, owners = [0] * groups, [0] * len(whole)
    for chain in sorted(chains, key=lambda it: -sum(_work(whole[dot]) for dot in it)):  # stable: in program order
        group = loads.index(min(loads))
        for dot in chain:
            owners[dot] = group
            loads[group] += _work(whole[dot])
    return owners


def _reached(start: Value, ends: Collection[Value] = ()) -> set[Value]:
    """What is computed from a value without a dot between them; `ends` count, but not what is computed from them."""
    work = Worklist([start])
    for value in work:
        for use in value.uses if value not in ends else ():
            if use.op.name not in DOTS:
                work += outgoing(use) or use.op.results
    return work.given


def _untransposed(operand: Value) -> Value:
    while (view := TransOp.of(operand.defining_op)) is not None:
        operand = view.source
    return operand


def _is_exchangeable(tile: Value) -> bool:
    """Whether tensor cores read a tile from shared memory in either order."""
    type = parse_type(tile.type)
    return isinstance(type, TensorType) and len(type.shape) == 2 and type.bytes * 8 == _BITS * prod(type.shape)


def _work(dot: DotOp) -> int:
    """Products that are added up."""
    return prod(shape_of(dot.op.result)) * shape_of(dot.a)[-1]
