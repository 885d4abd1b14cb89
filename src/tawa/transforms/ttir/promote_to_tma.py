"""Promote to TMA: pointer loads that provably read a box become TMA loads, on TTIR.

    %at  = addptr splat(%a), (rows·s + ks)               %d = argument, or make_tensor_descriptor %a, [M, K], [s, 1]
    for %i … iter_args(%p = %at) {                       for %i … {
      %t = load %p, (ks < K - 64·%i), 0           →        %t = descriptor_load %d[128·%pid, 64·%i]
      … dot %t …                                           … dot %t …
      yield addptr %p, 64 }                                yield }

`tawa.analysis.tma.promotions` finds which loads and stores can be promoted, and what must hold for each. An access that
cannot be promoted, or that the Plan does not choose, stays as it is, and a remark says why.

Where the descriptor is made:

    make="host"     by the launcher, and passed as added arguments: the descriptor, its sizes (i32), its strides (i64),
                    in the form of Triton's host descriptors. The attribute ``tawa.base = i : i32`` of the descriptor
                    names the argument that is its base pointer. `PromotionResult.launch` lists the descriptors to make
                    and the conditions (sizes, strides, alignment); a launch that violates one runs the original kernel.
    make="kernel"   by ``tt.make_tensor_descriptor`` in the entry block, after the definitions of its operands.

The descriptor of a pointer that the kernel loads from a table is made right before the loop of the load. If a stride
comes from memory, the loop is versioned: a runtime check selects between TMA and pointer loads
(`tawa.transforms.ttir.version_loop`).

The promoted load yields its tile in the form that the pointer load had:

    box of 64 x 128 of a tensor in the other order                descriptor_load, trans
    box of 8 x 64 whose rows are each repeated 8 times            descriptor_load, expand_dims, broadcast, reshape
    row of 1 x 64                                                 descriptor_load of one dimension, expand_dims
    box of 1 x 64 x 128                                           descriptor_load of two dimensions, reshape
    box of 16 tokens x 4 heads x 64 for a tile of 64 x 64         descriptor_load of three dimensions, reshape

Requires: TTIR without layouts, unchanged since the analysis.
Ensures: promoted loads yield the same tiles as the pointer loads, except for elements on which no store depends;
promoted stores write the same elements. If no load is promoted, the module does not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tawa.analysis.tma.accesses import is_operand_load
from tawa.analysis.tma.boxes import Box, BoxDim
from tawa.analysis.tma.descriptor_places import Limit
from tawa.analysis.tma.promotions import AccessInfo, Choice, Decision, PromotionInfo
from tawa.dialects.arith import AddIOp, CmpIOp, Predicate, RemSIOp, SelectOp
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import (
    BroadcastOp,
    DescriptorLoadOp,
    DescriptorStoreOp,
    ExpandDimsOp,
    ReshapeOp,
    StoreOp,
    TransOp,
)
from tawa.ir import Builder, Module, Operation, Value, replace_op
from tawa.ir.attributes import array_attr, int_attr
from tawa.remarks import Remark
from tawa.symbolic.affine import Affine
from tawa.symbolic.dim_relations import shape_of
from tawa.symbolic.host.launch_spec import DescriptorSpec, LaunchSpec
from tawa.symbolic.polynomial import Poly
from tawa.transforms.drop_dead import DropDead
from tawa.transforms.materialize import Materializer
from tawa.transforms.result import PassResult
from tawa.transforms.ttir.added_arguments import add_descriptor
from tawa.transforms.ttir.kernel_descriptors import KernelDescriptors
from tawa.transforms.ttir.version_loop import version_loop

_PLAIN = {"cache": "1 : i32", "evict": "1 : i32"}
_OUTSIDE = -(1 << 30)
"""An index at which a box is out of bounds of every tensor."""


@dataclass(frozen=True, slots=True)
class PromotionResult(PassResult):
    """The result of the promotion.

    launch: the descriptors that the launcher makes, and its conditions. taken: assumptions that no launch checks.
    promoted, left: how many loads that feed a dot in a loop were promoted, and how many were not.
    """

    launch: LaunchSpec = field(default_factory=LaunchSpec)
    taken: tuple[str, ...] = ()
    promoted: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True)
class PromoteToTma:
    """Options.

    info: the result of the analysis of the module. loads, stores: which of them to promote (None: all that can be).
    """

    info: PromotionInfo
    loads: frozenset[Operation] | None = None
    stores: frozenset[Operation] | None = None

    def run(self, module: Module) -> PromotionResult:
        """Promotes the chosen accesses."""
        assert module is self.info.module
        if self.info.declined is not None:
            return PromotionResult(False, (self.info.declined,))
        choice = self.info.choose(self.loads, self.stores)
        remarks = tuple(_remarks(self.info, choice))
        descriptors = _Promotion(self.info).run(choice) if choice.loads else ()
        if choice.loads:
            DropDead().run(module)
        promoted, left = len(choice.loads), len(self.info.loads) - len(choice.loads)
        launch = LaunchSpec(descriptors, choice.conditions)
        return PromotionResult(
            bool(choice.loads), remarks, launch=launch, taken=choice.taken, promoted=promoted, left=left
        )


def _remarks(info: PromotionInfo, choice: Choice) -> Iterator[Remark]:
    """A remark for each load, and for each store if any load is promoted."""
    for load in info.loads:
        yield _remark("load", load, load in choice.loads, info.affine)
    for store in info.stores if choice.loads else ():
        yield _remark("store", store, store in choice.stores, info.affine)


def _remark(kind: str, access: AccessInfo, chosen: bool, affine: Affine) -> Remark:
    decision = access.decision
    if decision is None or not chosen:
        reason = access.reason if decision is None else "the Plan says so"
        return Remark("note", f"a {kind} stays with pointers: {reason}", access.location, access.cure)
    blocks = "x".join(str(size) for size in decision.box.block if size > 1)
    text = f"a pointer {kind} becomes a TMA {kind}: boxes of {blocks}"
    runs = [run for run in map(decision.box.repeats, decision.box.dims) if run > 1]
    text += f", each element repeated {runs[0]} times in the tile" if runs else ""
    if decision.limits:
        strides = ", ".join(affine.atoms.text(limit.stride) for limit in decision.limits)
        text += f", if {strides} is positive at run time"
    where = [str(condition) for condition in access.conditions if condition.only_for]
    text += f", where {' and '.join(where)}" if where else ""
    return Remark("done", text, access.location)


class _Promotion:
    """The rewrite of one kernel."""

    def __init__(self, info: PromotionInfo) -> None:
        self.function, self.affine, self.nested = info.function, info.affine, info.nested
        self.host = info.host
        self.kernel = KernelDescriptors(info.function, info.affine)
        self.numbers = Materializer(info.affine.atoms)
        self.specs: dict[DescriptorSpec, Value] = {}

    def run(self, choice: Choice) -> tuple[DescriptorSpec, ...]:
        """Rewrites the chosen accesses; returns the descriptors that the host must make."""
        loads, stores = ([it.decision for it in part if it.decision] for part in (choice.loads, choice.stores))
        self.version_loops(loads)
        for load in loads:
            self.rewrite(load)
        for store in stores:
            self.rewrite_store(store)
        return tuple(self.specs)

    def version_loops(self, decisions: Sequence[Decision]) -> None:
        """Versions each loop with loads whose strides must be checked at run time; the copy keeps its pointer loads."""
        limits: dict[Operation, dict[Limit, None]] = {}
        for decision in decisions:
            if decision.limits:
                loop = enclosing_loops(decision.box.access)[0]
                limits.setdefault(loop, {}).update(dict.fromkeys(decision.limits))
        for loop, needed in limits.items():
            version_loop(loop, tuple(needed), self.numbers, is_operand_load)

    def rewrite(self, decision: Decision) -> None:
        """Replaces a pointer load by a TMA load."""
        box = decision.box
        descriptor, shifts = self._descriptor(decision)
        builder = Builder.before(box.access)
        indices = [self._index(box.access, dim, shift) for dim, shift in zip(box.dims, shifts, strict=True)]
        outer = next((at for at, dim in enumerate(box.dims) if dim.tile is not None))
        for gate in box.gates:
            indices[outer] = self._gated(builder, gate, indices[outer])
        tile = _load_box(builder, box, descriptor, indices, self.nested)
        replace_op(box.access, [tile])

    def rewrite_store(self, decision: Decision) -> None:
        """Replaces a pointer store by a TMA store."""
        box = decision.box
        store = StoreOp(box.access)
        descriptor, _ = self._descriptor(decision)
        builder = Builder.before(store.op)
        indices = [self._index(store.op, dim, None) for dim in box.dims]
        for gate in box.gates:
            indices[0] = self._gated(builder, gate, indices[0])
        tile = store.source
        type = _tile_type([dim.block for dim in box.dims], box.element)
        if tile.type != type:
            tile = builder.create(ReshapeOp.NAME, (tile,), (type,), hints=(tile.hint,)).result
        builder.create(DescriptorStoreOp.NAME, (descriptor, tile, *indices))
        store.op.erase()

    def _descriptor(self, decision: Decision) -> tuple[Value, Sequence[Value | None]]:
        """The descriptor, and for each dimension the offset to add to its index (None: no offset)."""
        box, place = decision.box, decision.place
        if place is not None:
            return self.kernel.make(box, place, decision.limits, self.numbers, self.nested)
        spec = self.host.spec(box)
        for known, value in self.specs.items():
            if replace(known, argument=0) == spec:
                return value, [None] * len(box.dims)
        spec = replace(spec, argument=len(self.function.body.args))
        value = add_descriptor(self.function, spec, len(self.specs), self.nested)
        self.specs[spec] = value
        return value, [None] * len(box.dims)

    def _index(self, load: Operation, dim: BoxDim, shift: Value | None) -> Value:
        index = self.numbers.number_for(load, dim.index, "at")
        builder = Builder.before(load)
        if dim.wraps:
            index = RemSIOp.create(builder, index, self.numbers.number_for(load, dim.sizes[0]), "at")
        return index if shift is None else AddIOp.create(builder, index, shift, "at")

    def _gated(self, builder: Builder, gate: Poly, index: Value) -> Value:
        """`index` if the gate is positive, else an index that is out of bounds."""
        type = "i64" if self.affine.atoms.wide(gate) else "i32"
        room = self.numbers.number(gate, builder, type)
        zero, outside = builder.constant(0, type), builder.constant(_OUTSIDE)
        holds = CmpIOp.create(builder, Predicate.SGT, room, zero)
        return SelectOp.create(builder, holds, index, outside, "at")


def _load_box(builder: Builder, box: Box, descriptor: Value, indices: Sequence[Value], nested: bool) -> Value:
    """The tile, with its dimensions in order and those of size one restored. nested: as Triton up to 3.7 spells it."""
    inside = [dim for dim in box.dims if dim.tile is not None]
    type, hints = _tile_type([dim.block for dim in inside], box.element), (box.access.result.hint,)
    properties = dict(_PLAIN) if nested else {}
    tile = builder.create(DescriptorLoadOp.NAME, (descriptor, *indices), (type,), properties=properties, hints=hints)
    order = sorted(range(len(inside)), key=lambda at: (inside[at].tile, inside[at].low))
    if order != sorted(order):
        type = _tile_type([inside[at].block for at in order], box.element)
        properties = {"order": array_attr(order)}
        tile = builder.create(TransOp.NAME, (tile.result,), (type,), properties=properties, hints=hints)
    whole = _repeat(builder, tile.result, [box.repeats(inside[at]) for at in order], box.element)
    shape = shape_of(box.access.result)
    if len(shape_of(whole)) == 1 and len(shape) == 2 and 1 in shape:  # as kernels write it: its layout is then a slice
        axis = {"axis": int_attr(shape.index(1))}
        return builder.create(
            ExpandDimsOp.NAME, (whole,), (box.access.result.type,), properties=axis, hints=hints
        ).result
    if shape_of(whole) != shape:
        whole = builder.create(ReshapeOp.NAME, (whole,), (box.access.result.type,), hints=hints).result
    return whole


def _repeat(builder: Builder, tile: Value, runs: Sequence[int], element: str) -> Value:
    """Repeats each element along dimension d `runs[d]` times, next to each other."""
    if all(run == 1 for run in runs):
        return tile
    hints, sizes = (tile.hint,), shape_of(tile)
    apart: list[int] = []
    spread: list[int] = []
    for dim, (size, run) in enumerate(zip(sizes, runs, strict=True)):
        apart, spread = [*apart, size], [*spread, size]
        if run > 1:
            properties = {"axis": int_attr(len(apart))}
            apart, spread = [*apart, 1], [*spread, run]
            type = _tile_type((*apart, *sizes[dim + 1 :]), element)
            tile = builder.create(ExpandDimsOp.NAME, (tile,), (type,), properties=properties, hints=hints).result
    tile = builder.create(BroadcastOp.NAME, (tile,), (_tile_type(spread, element),), hints=hints).result
    whole = [size * run for size, run in zip(sizes, runs, strict=True)]
    return builder.create(ReshapeOp.NAME, (tile,), (_tile_type(whole, element),), hints=hints).result


def _tile_type(shape: Sequence[int], element: str) -> str:
    """The type of a tile without a layout."""
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"
