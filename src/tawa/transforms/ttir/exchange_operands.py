"""Exchange operands: marks where consumer groups that divide rows need the tiles of each other.

    %k  = descriptor_load                       %k  = descriptor_load;  %k' = part %k
    %s  = dot %k, %q                            %s  = dot %k', %q
    %ds = f %s                             →    %ds = f %s
    %dq = dot trans %ds, %k                     %dq = dot part (trans (whole %ds)), %k

`part` and `whole` change nothing in the program for the whole tile. In the program of one group (`split_rows`), the
operand of `whole` and the result of `part` are the parts of that group, and what is between them is not divided. A dot
that sums over the divided rows computes a part of its own rows, or of its columns (%k is then divided, and not the
other operand) if those are fewer than 64 for each group.

Where groups divide the columns of accumulators, dots whose results they all need whole have an owner
(`tawa.analysis.dims.owners`), and the others divide the right operands that an owner reads whole:

    %s  = dot %q, trans %k                      %s  = dot %q, trans %k
    %p  = f %s                                  %p  = f %s;  %p' = owned %p, 0
    %dv = dot trans %p, %do, %dv           →    %dv = dot trans %p', part %do, %dv
    %dp = dot %do, trans %v                     %dp = dot %do, trans %v
    %ds = f %p, %dp                             %ds = f %p', %dp;  …

Requires: TTIR without layouts.
Declines: where other dots have fewer than 64 rows for each group; with columns, where groups have no dots to own, or
all dots have enough rows.
Ensures: the same elements; dots that sum over the divided rows have whole operands along them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.dims.exchanged import exchanged_dots
from tawa.analysis.dims.owners import find_owners
from tawa.analysis.dims.split_dims import Axis
from tawa.dialects.inline.markers import OwnedTileOp, PartOfTileOp, WholeTileOp
from tawa.dialects.tt import DotOp, TransOp
from tawa.ir import Builder, Module, Value, clone_op, shape_of
from tawa.machine.machines import WGMMA
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class ExchangeOperands:
    """groups: how many divide the axis of the dots' results."""

    groups: int
    axis: Axis = "rows"

    def run(self, module: Module) -> PassResult:
        """Marks the operands of every dot that sums over the divided rows, or the tiles that groups own."""
        return self._rows(module) if self.axis == "rows" else self._columns(module)

    def _columns(self, module: Module) -> PassResult:
        found = find_owners(module, self.groups)
        if found is None:
            return PassResult(changed=False)
        read_whole = {_base(operand) for dot in found.whole for operand in (dot.a, dot.b)}
        for dot in found.divided:
            if _base(dot.b) in read_whole:
                dot.op.set_operand(DotOp.b.index, PartOfTileOp.create(_before(dot), dot.b))
        for tile, owner in found.owners.items():
            maker = tile.defining_op
            assert maker is not None  # a dot is above it
            builder = Builder.after(maker)
            builder.loc = maker.loc
            owned = OwnedTileOp.create(builder, tile, owner)
            for use in found.users[tile]:
                use.op.set_operand(use.index, owned)
        return PassResult(changed=True)

    def _rows(self, module: Module) -> PassResult:
        dots = exchanged_dots(module)
        found = {it.op for it in dots}
        rest = [op for op in module.walk() if DotOp.matches(op) and op not in found]
        if any(shape_of(op.result)[-2] // self.groups < WGMMA.rows for op in rest):
            return PassResult(changed=False)
        for dot in dots:
            _take_parts(dot)
        for dot in dots:
            self._exchange(dot)
        return PassResult(bool(dots))

    def _exchange(self, dot: DotOp) -> None:
        builder = _before(dot)
        a = _whole(builder, dot.a)
        if shape_of(dot.op.result)[-2] // self.groups >= WGMMA.rows:
            dot.op.set_operand(DotOp.a.index, PartOfTileOp.create(builder, a))
        else:
            dot.op.set_operand(DotOp.a.index, a)
            dot.op.set_operand(DotOp.b.index, PartOfTileOp.create(builder, dot.b))


def _before(dot: DotOp) -> Builder:
    builder = Builder.before(dot.op)
    builder.loc = dot.op.loc
    return builder


def _base(operand: Value) -> Value:
    """The tile of which an operand is a transposed view, or the tile itself."""
    while (view := TransOp.of(operand.defining_op)) is not None:
        operand = view.source
    return operand


def _take_parts(dot: DotOp) -> None:
    """Lets the other users of a right operand use the group's part of it."""
    others = [use for use in dot.b.uses if use.op is not dot.op and not PartOfTileOp.of(use.op)]
    others = [use for use in others if DotOp.of(use.op) is None or use.index != DotOp.b.index]
    maker = dot.b.defining_op
    if others and maker is not None:
        part = PartOfTileOp.create(Builder.after(maker), dot.b)
        for use in others:
            use.op.set_operand(use.index, part)


def _whole(builder: Builder, tile: Value) -> Value:
    """The whole of a tile; it is the source of a chain of transposes that is exchanged."""
    transpose = TransOp.of(tile.defining_op)
    if transpose is None:
        return WholeTileOp.create(builder, tile)
    return builder.insert(clone_op(transpose.op, {transpose.source: _whole(builder, transpose.source)})).result
