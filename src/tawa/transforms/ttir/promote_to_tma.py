"""Raise loads: pointer loads that provably read a box become TMA loads, on TTIR.

    %at  = addptr splat(%a), (rows·s + ks)               %d = argument, or make_tensor_descriptor %a, [M, K], [s, 1]
    for %i … iter_args(%p = %at) {                       for %i … {
      %t = load %p, (ks < K - 64·%i), 0           →        %t = descriptor_load %d[128·%pid, 64·%i]
      … dot %t …                                           … dot %t …
      yield addptr %p, 64 }                                yield }

`tawa.analysis.tma.promotions` finds which loads and stores can be promoted, and what must hold for each. An access that
cannot be promoted, or that the Plan does not choose, stays as it is, and a remark says why.

Where the descriptor is made:

    make="host"     as arguments added behind the kernel's own: the descriptor, its sizes (i32), its strides (i64), as
                    Triton's launcher passes a host descriptor. The attribute ``tawa.base = i : i32`` of the descriptor
                    says from which argument its memory comes. `RaiseResult.launch` says what the launcher makes, and
                    when it has to launch the kernel as it was: sizes, strides, alignment of this launch.
    make="kernel"   by ``tt.make_tensor_descriptor`` in the entry block, behind what it is computed from.

A pointer that the kernel loads from a table is described in front of the loop of the load; where a stride comes from
memory, the loop stands beside one that keeps to pointers (`tawa.transforms.ttir.version_loop`).

Requires: TTIR without layouts, as it was analysed.
Ensures: the raised loads give the same tiles as the pointer loads did, but for elements on which nothing that is
stored depends; the raised stores write the same elements. Without a raised load, nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tawa.analysis.boxes import BoxDim
from tawa.analysis.tma.accesses import is_operand_load
from tawa.analysis.tma.descriptor_places import Limit
from tawa.analysis.tma.promotions import AccessInfo, Choice, Decision, Raises
from tawa.dialects.arith import AddIOp, CmpIOp, Predicate, RemSIOp, SelectOp
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import DescriptorStoreOp, ReshapeOp, StoreOp
from tawa.ir import Builder, Module, Operation, Value, replace_op
from tawa.remarks import Remark
from tawa.symbolic.affine import Affine
from tawa.symbolic.host.launch_spec import DescriptorSpec, LaunchSpec
from tawa.symbolic.polynomial import Poly
from tawa.transforms.drop_dead import DropDead
from tawa.transforms.materialize import Materializer
from tawa.transforms.result import PassResult
from tawa.transforms.ttir.added_arguments import add_descriptor
from tawa.transforms.ttir.kernel_descriptors import KernelDescriptors
from tawa.transforms.ttir.load_box import load_box, tile_type
from tawa.transforms.ttir.version_loop import ask_limits

_OUTSIDE = -(1 << 30)
"""An index at which a box lies outside of every tensor."""


@dataclass(frozen=True, slots=True)
class RaiseResult(PassResult):
    """What became of a kernel.

    launch: what the launcher has to do. taken: what was taken for granted. raised, left: how many loads that feed a dot
    in a loop were raised, and how many were not.
    """

    launch: LaunchSpec = field(default_factory=LaunchSpec)
    taken: tuple[str, ...] = ()
    raised: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True)
class PromoteToTma:
    """Options.

    raises: what was found of the module. loads, stores: which of them are raised; None means all that can be.
    """

    raises: Raises
    loads: frozenset[Operation] | None = None
    stores: frozenset[Operation] | None = None

    def run(self, module: Module) -> RaiseResult:
        """Raises what was chosen."""
        assert module is self.raises.module
        if self.raises.declined is not None:
            return RaiseResult(False, (self.raises.declined,))
        choice = self.raises.choose(self.loads, self.stores)
        remarks = tuple(_remarks(self.raises, choice))
        descriptors = _Raise(self.raises).run(choice) if choice.loads else ()
        if choice.loads:
            DropDead().run(module)
        raised, left = len(choice.loads), len(self.raises.loads) - len(choice.loads)
        launch = LaunchSpec(descriptors, choice.conditions)
        return RaiseResult(bool(choice.loads), remarks, launch=launch, taken=choice.taken, raised=raised, left=left)


def _remarks(raises: Raises, choice: Choice) -> Iterator[Remark]:
    """What becomes of each access; of stores only where a load is raised."""
    for load in raises.loads:
        yield _remark("load", load, load in choice.loads, raises.affine)
    for store in raises.stores if choice.loads else ():
        yield _remark("store", store, store in choice.stores, raises.affine)


def _remark(kind: str, access: AccessInfo, chosen: bool, affine: Affine) -> Remark:
    decision = access.decision
    if decision is None or not chosen:
        reason = access.reason if decision is None else "the Plan says so"
        return Remark("note", f"a {kind} stays with pointers: {reason}", access.location, access.cure)
    blocks = "x".join(str(size) for size in decision.box.block if size > 1)
    text = f"a {kind} through pointers is made by TMA: boxes of {blocks}"
    runs = [dim.run for dim in decision.box.dims if dim.run > 1]
    text += f", of which {runs[0]} elements of the tile share each" if runs else ""
    if decision.limits:
        strides = ", ".join(affine.atoms.text(limit.stride) for limit in decision.limits)
        text += f", where {strides} turns out to be positive"
    return Remark("done", text, access.location)


class _Raise:
    """One kernel under change."""

    def __init__(self, raises: Raises) -> None:
        self.function, self.affine, self.nested = raises.function, raises.affine, raises.nested
        self.host = raises.host
        self.kernel = KernelDescriptors(raises.function, raises.affine)
        self.numbers = Materializer(raises.affine.atoms)
        self.specs: dict[DescriptorSpec, Value] = {}

    def run(self, choice: Choice) -> tuple[DescriptorSpec, ...]:
        """Rewrites what was chosen; the descriptors that the host makes for it."""
        loads, stores = ([it.decision for it in part if it.decision] for part in (choice.loads, choice.stores))
        self.ask(loads)
        for load in loads:
            self.rewrite(load)
        for store in stores:
            self.rewrite_store(store)
        return tuple(self.specs)

    def ask(self, decisions: Sequence[Decision]) -> None:
        """Where strides must be looked at first, puts each loop of such loads beside a copy that keeps to pointers."""
        limits: dict[Operation, dict[Limit, None]] = {}
        for decision in decisions:
            if decision.limits:
                loop = enclosing_loops(decision.box.access)[0]
                limits.setdefault(loop, {}).update(dict.fromkeys(decision.limits))
        for loop, asked in limits.items():
            ask_limits(loop, tuple(asked), self.numbers, is_operand_load)

    def rewrite(self, decision: Decision) -> None:
        """Puts a TMA load in the place of a pointer load."""
        box = decision.box
        descriptor, shifts = self._descriptor(decision)
        builder = Builder.before(box.access)
        indices = [self._index(box.access, dim, shift) for dim, shift in zip(box.dims, shifts, strict=True)]
        outer = next((at for at, dim in enumerate(box.dims) if dim.tile is not None))
        for gate in box.gates:
            indices[outer] = self._gated(builder, gate, indices[outer])
        tile = load_box(builder, box, descriptor, indices, self.nested)
        replace_op(box.access, [tile])

    def rewrite_store(self, decision: Decision) -> None:
        """Puts a TMA store in the place of a pointer store."""
        box = decision.box
        store = StoreOp(box.access)
        descriptor, _ = self._descriptor(decision)
        builder = Builder.before(store.op)
        indices = [self._index(store.op, dim, None) for dim in box.dims]
        for gate in box.gates:
            indices[0] = self._gated(builder, gate, indices[0])
        tile = store.source
        type = tile_type([dim.block for dim in box.dims], box.element)
        if tile.type != type:
            tile = builder.create(ReshapeOp.NAME, (tile,), (type,), hints=(tile.hint,)).result
        builder.create(DescriptorStoreOp.NAME, (descriptor, tile, *indices))
        store.op.erase()

    def _descriptor(self, decision: Decision) -> tuple[Value, Sequence[Value | None]]:
        """The descriptor, and for each dimension what is to be added to its index."""
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
        """The index where a condition holds; outside of the tensor otherwise."""
        type = "i64" if self.affine.atoms.wide(gate) else "i32"
        room = self.numbers.number(gate, builder, type)
        zero, outside = builder.constant(0, type), builder.constant(_OUTSIDE)
        holds = CmpIOp.create(builder, Predicate.SGT, room, zero)
        return SelectOp.create(builder, holds, index, outside, "at")


__all__ = ["PromoteToTma", "RaiseResult"]
