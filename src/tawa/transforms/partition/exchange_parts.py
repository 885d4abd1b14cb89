"""Exchange parts: dots read the tiles of other consumer groups, and their own parts of whole tiles, from shared memory.

    %k' = gather (part %k)                           %kb = local_alloc %k {tawa.common}
    %s  = dot %k', %q                                %s  = dot %kb[64 g …], %q                      g: the group
    %w  = gather (whole %ds)                    →    %x  = local_alloc %ds {tawa.exchanged}
    %dq = dot gather (part (trans %w)), %k           %dq = dot trans %x0[…, 64 g …], %kb[0 …], 0     %xn: of group n
                                                     %dq = dot trans %x1[…, 64 g …], %kb[64 …], %dq

The sum over all groups becomes one dot for the tile of each group, in their order. A tile that one group owns is stored
once; dots read it there in either order, and arithmetic loads it:

    %p  = owned %s, 0                                %x  = local_alloc %s {tawa.exchanged, tawa.owner = 0}
    %dv = dot trans %p, %do, %dv               →     %dv = dot trans %x0, %do, %dv
    %ds = mulf %p, %dp                               %p  = local_load %x0; %ds = mulf %p, %dp

A tile that all groups load alike outside of loops is then loaded once for all of them. What is stored behind the loops
may be staged in what no other group reads of such tiles (`tawa.analysis.rings.idle_tiles`).

Requires: TTGIR of the program of one group (`tawa.transforms.ttir.split_rows`).
Ensures: no gathers of parts or of whole tiles are left; or declines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tawa.analysis.dims.dependents import dependent_values
from tawa.analysis.rings.exchanges import BY_GROUP, COMMON, EXCHANGED, OF, OWNER, SLOTS, STAGED_IN
from tawa.analysis.rings.idle_tiles import idle_boxes
from tawa.declines import EXCHANGED as NOT_ONLY_EXCHANGED
from tawa.dialects.builtin import CastOp
from tawa.dialects.inline.markers import GroupIndexOp, OwnedTileOp, PartOfTileOp, WholeTileOp
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import DescriptorLoadOp, FuncOp, GatherOp, TransOp
from tawa.dialects.ttg import ConvertLayoutOp, LocalAllocOp, LocalLoadOp, MemDescTransOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Builder, Module, Operation, Value, clone_op, memdesc_type, shape_of, source_of
from tawa.ir.attributes import array_attr, int_attr
from tawa.plan import Plan
from tawa.transforms.drop_dead import DropDead
from tawa.transforms.partition.share_transposes import operand_buffer
from tawa.transforms.partition.transpose_tile import box_of, transposed_view
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class ExchangeParts:
    """Options: the Plan, which says whether the dots that read exchanged tiles run an iteration behind."""

    plan: Plan = Plan()

    def run(self, module: Module) -> PassResult:
        """Rewrites the operands of every dot that needs tiles of all groups, or a part of a whole one."""
        if not any(map(_is_marker, module.walk())):
            return PassResult(changed=False)
        module.aliases.setdefault("#smem", "#ttg.shared_memory")
        views = _Views(module, SLOTS + any(it.behind for it in self.plan.loops), reused=self.plan.owned)
        traced = [(dot, _trace(dot.a), _trace(dot.b)) for op in module.walk() if (dot := WarpGroupDotOp.of(op))]
        owned = [view for op in module.walk() if (view := OwnedTileOp.of(op))]
        alike = _loaded_alike(module) if owned else ()
        for dot, a, b in traced:
            if a.exchanged is not None:
                views.sum_over_groups(dot, a, b)
            else:
                for index, it in ((WarpGroupDotOp.a.index, a), (WarpGroupDotOp.b.index, b)):
                    buffer = views.owned(it.base)
                    if buffer is None and (it.parts or it.base.defining_op in alike):
                        buffer = views.buffer(it, COMMON)
                    if buffer is not None:
                        dot.op.set_operand(index, views.view(Builder.before(dot.op), buffer, it, {}))
        for marker in owned:
            views.load_owned(marker)
        DropDead().run(module)
        for store, boxes in idle_boxes(module).items():
            store.attributes[STAGED_IN] = array_attr([it for box in boxes for it in (box.number, box.column)])
        left = next((op for op in module.walk() if _is_marker(op)), None)
        if left is not None:
            return PassResult(True, (NOT_ONLY_EXCHANGED.remark(source_of(module, left)),))
        return PassResult(changed=True)


def _is_marker(op: Operation) -> bool:
    return PartOfTileOp.matches(op) or WholeTileOp.matches(op) or OwnedTileOp.matches(op)


def _loaded_alike(module: Module) -> set[Operation]:
    """The loads outside of loops that do not depend on the group."""
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    dependent = dependent_values(function.body, lambda op: GroupIndexOp.of(op) is not None)
    loads = [op for op in module.walk() if DescriptorLoadOp.matches(op) and not enclosing_loops(op)]
    return {op for op in loads if dependent.isdisjoint(op.operands)}


@dataclass(slots=True)
class _Traced:
    """An operand as a view of the tile `base`.

    dims: the dimension of the base for each dimension of the operand. parts: the sizes of the group's part, by
    dimension of the base. exchanged: the dimension along which each group has computed a part of the base.
    """

    base: Value
    dims: tuple[int, ...] = (0, 1)
    parts: dict[int, int] = field(default_factory=dict[int, int])
    exchanged: int | None = None


def _trace(operand: Value) -> _Traced:
    """Follows an operand to the tile that it is a view of."""
    op = operand.defining_op
    if op is None:
        return _Traced(operand)
    alloc = LocalAllocOp.of(op)
    if ConvertLayoutOp.of(op) or (alloc and alloc.source is not None):
        return _trace(op.operands[0])
    if view := TransOp.of(op) or MemDescTransOp.of(op):
        found = _trace(view.source)
        found.dims = tuple(found.dims[int(at)] for at in view.order)
        return found
    gather = GatherOp.of(op)
    marker = _unconverted(gather.source).defining_op if gather else None
    if gather is None or marker is None or not _is_marker(marker):
        return _Traced(operand)
    found = _trace(marker.operands[0])
    dim = found.dims[gather.axis]
    if PartOfTileOp.matches(marker):
        found.parts[dim] = shape_of(op.result)[gather.axis]
    else:
        found.exchanged = dim
    return found


def _unconverted(value: Value) -> Value:
    while (convert := ConvertLayoutOp.of(value.defining_op)) is not None:
        value = convert.source
    return value


class _Views:
    """Buffers of tiles, and views of them. made: the buffers, by tile. slots: of an exchanged tile.

    reused: whether groups may write to common tiles, for what they stage there in the end.
    """

    def __init__(self, module: Module, slots: int, reused: bool) -> None:
        self.module, self.slots, self.reused = module, slots, reused
        self.made: dict[Value, Value] = {}

    def buffer(self, it: _Traced, what: str) -> Value | None:
        """The buffer of a tile, with an attribute that says what it is; None if dots cannot read it in any order."""
        tile, found = it.base, self.made.get(it.base)
        maker, type = tile.defining_op, operand_buffer(tile)
        loaded = DescriptorLoadOp.matches(maker)
        if found is None and maker is not None and type is not None and loaded == (what == COMMON):
            type = replace(type, mutable=what == COMMON and self.reused)
            made = Builder.after(maker).create(LocalAllocOp.NAME, (tile,), (str(type),), hints=(tile.hint,))
            if what == EXCHANGED:
                made.attributes[what] = int_attr(self.slots)
            elif not enclosing_loops(made):  # a tile that a loop loads goes through a ring
                made.attributes[what] = int_attr(sum(COMMON in it.attributes for it in self.module.walk()))
            found = self.made[tile] = made.result
        return found

    def view(self, builder: Builder, buffer: Value, it: _Traced, at: Mapping[int, tuple[int, int]]) -> Value:
        """The view of a buffer that an operand is. at: where it begins in a dimension, and its size, besides parts."""
        whole = memdesc_type(buffer.type).shape
        shape = tuple(at[dim][1] if dim in at else it.parts.get(dim, size) for dim, size in enumerate(whole))
        if shape != whole:
            buffer = box_of(builder, buffer, tuple(at[dim][0] if dim in at else 0 for dim in range(len(whole))), shape)
            assert buffer.defining_op is not None
            if it.parts:
                steps = [it.parts.get(dim, 0) for dim in range(len(whole))]
                buffer.defining_op.attributes[BY_GROUP] = array_attr(steps)
        return transposed_view(builder, self.module, buffer) if it.dims == (1, 0) else buffer

    def owned(self, tile: Value) -> Value | None:
        """The buffer of a tile that one group owns, as all groups read it; None for another tile."""
        marker = OwnedTileOp.of(tile.defining_op)
        if marker is None:
            return None
        if tile not in self.made:
            source = _unconverted(marker.source)
            maker, type = source.defining_op, operand_buffer(source)
            if maker is None or type is None:
                return None
            builder = Builder.after(maker)
            stored = builder.create(LocalAllocOp.NAME, (source,), (str(type),), hints=(source.hint,))
            stored.attributes |= {EXCHANGED: int_attr(self.slots), OWNER: int_attr(marker.group)}
            read = builder.create(CastOp.NAME, stored.results, (str(type),), hints=(source.hint,))
            read.attributes[OF] = int_attr(0)
            self.made[tile] = read.result
        return self.made[tile]

    def load_owned(self, marker: OwnedTileOp) -> None:
        """Loads the tile for what is not a dot."""
        tile = marker.op.result
        buffer = self.owned(tile)
        if buffer is not None:
            load = Builder.before(marker.op).create(LocalLoadOp.NAME, (buffer,), (tile.type,), hints=(tile.hint,))
            tile.replace_all_uses_with(load.result)

    def sum_over_groups(self, dot: WarpGroupDotOp, a: _Traced, b: _Traced) -> None:
        """One dot for the tile of each group."""
        summed = b.dims[0]
        left, right = self.buffer(a, EXCHANGED), self.buffer(b, COMMON)
        if left is None or right is None or a.dims[1] != a.exchanged or summed in b.parts:
            return
        builder, total = Builder.before(dot.op), dot.accumulator
        part = shape_of(a.base)[a.dims[1]]
        for group in range(shape_of(b.base)[summed] // part):
            own = builder.create(CastOp.NAME, (left,), (left.type,), hints=(left.hint,))
            own.attributes[OF] = int_attr(group)
            operands = {
                dot.a: self.view(builder, own.result, a, {}),
                dot.b: self.view(builder, right, b, {summed: (group * part, part)}),
                dot.accumulator: total,
            }
            total = builder.insert(clone_op(dot.op, operands)).result
        dot.op.result.replace_all_uses_with(total)
        dot.op.erase()
