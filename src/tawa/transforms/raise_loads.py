"""Raise loads: pointer loads that provably read a box become TMA loads, on TTIR.

    %at  = addptr splat(%a), (rows·s + ks)               %d = argument, or make_tensor_descriptor %a, [M, K], [s, 1]
    for %i … iter_args(%p = %at) {                       for %i … {
      %t = load %p, (ks < K - 64·%i), 0           →        %t = descriptor_load %d[128·%pid, 64·%i]
      … dot %t …                                           … dot %t …
      yield addptr %p, 64 }                                yield }

What is proved is in `tawa.analysis.boxes`; a load that is no box stays as it is, and a remark says why. Only loads in
a loop that feed a dot are looked at: others gain nothing. Rows that a wrap-around (``% M``) reads from elsewhere are
zero afterwards; they must not reach memory (`tawa.analysis.unseen`).

Where the descriptor is made:

    make="host"     as arguments added behind the kernel's own: the descriptor, its sizes (i32), its strides (i64), as
                    Triton's launcher passes a host descriptor. The attribute ``tawa.base = i : i32`` of the descriptor
                    says from which argument its memory comes. `RaiseResult.launch` says what the launcher makes, and
                    when it has to launch the kernel as it was: sizes, strides, alignment of this launch.
    make="kernel"   by ``tt.make_tensor_descriptor`` in the entry block, behind what it is computed from. Nothing is
                    asked of the launch, so all alignment must be known when the kernel is compiled.

Stores of tiles that a program makes one after another, each by a loop of its own, become TMA stores likewise: such a
store overlaps the next tile. So do, with in_turn=True, loads that feed the dots of a whole loop, as the queries of
attention do: the next tile's are loaded beside this tile's loop. Both only with descriptors of the host whose alignment
is known when the kernel is compiled, so that no launch goes to the kernel as it was for their sake; stores only where
nothing in the kernel wants them done before it goes on.

A pointer that the kernel loads from a table can be described in the kernel only, in front of the loop of the load, with
tables=True. Hints on the tile of addresses say how it is aligned (`tawa.analysis.promises`); where a stride comes from
memory, TMA is used only if that is one it takes (`tawa.transforms.ask_limits`).

Some facts are *taken* (`RaiseResult.taken`): a divisor in the index arithmetic is positive, an index from memory is not
negative, sums of indices do not overflow; and in the kernel, that integer arguments are not negative. A kernel that
breaks them reads outside its tensors. trust=False declines what needs one.

Requires: TTIR without layouts, one structured function.
Ensures: the raised loads give the same tiles as the pointer loads did, but for elements on which nothing that is
stored depends; the raised stores write the same elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tawa.analysis.accesses import NotABox, is_operand_load
from tawa.analysis.affine import Affine
from tawa.analysis.box import Box, BoxDim
from tawa.analysis.boxes import BoxFinder
from tawa.analysis.facts import Facts, Proof
from tawa.analysis.forms import Guard
from tawa.analysis.host_sizes import HostSizes
from tawa.analysis.launch_values import Condition, DescriptorSpec, LaunchSpec
from tawa.analysis.loads import from_dots
from tawa.analysis.memory import why_stored_in_order
from tawa.analysis.polynomials import Poly
from tawa.analysis.promises import promised_by
from tawa.analysis.tile_stores import tile_stores
from tawa.analysis.unseen import seen_by
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import FuncOp, StoreOp
from tawa.ir import Builder, Module, Operation, Value, replace_op, source_of
from tawa.remarks import Remark
from tawa.transforms.added_arguments import add_descriptor
from tawa.transforms.ask_limits import ask_limits
from tawa.transforms.drop_dead import DropDead
from tawa.transforms.kernel_descriptors import KernelDescriptors, Limit, Place
from tawa.transforms.load_box import load_box, tile_type
from tawa.transforms.materialize import Materializer, arithmetic
from tawa.transforms.result import PassResult

Make = Literal["host", "kernel"]
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
class RaiseLoads:
    """Options.

    make: where descriptors are made. nested: whether types are spelled as Triton 3.6 does, that of the box inside
    (``!tt.tensordesc<tensor<128x64xf16>>``), or as later releases do. trust: whether facts may be taken for granted.
    tables: whether the kernel may make descriptors of memory whose pointer it loads. in_turn: whether programs will be
    done in turn, so that what stands behind all loops is followed by another tile.
    """

    make: Make = "host"
    nested: bool = True
    trust: bool = True
    tables: bool = True
    in_turn: bool = False

    def run(self, module: Module) -> RaiseResult:
        """Raises what can be raised."""
        functions = [view for op in module.body.ops if (view := FuncOp.of(op))]
        if len(functions) != 1 or not functions[0].structured:
            reason = "calls or jumps between blocks: addresses cannot be followed"
            return RaiseResult(
                False, (Remark("note", reason, source_of(module, functions[-1].op), "inline the callee"),)
            )
        return _Raise(self, module, functions[0]).run()


@dataclass(frozen=True, slots=True)
class _Decision:
    """A load to be raised. place: where the kernel makes its descriptor, None if the host does. limits: asked first."""

    box: Box
    place: Place | None = None
    limits: tuple[Limit, ...] = ()


class _Raise:
    """One kernel under change."""

    def __init__(self, options: RaiseLoads, module: Module, function: FuncOp) -> None:
        self.options, self.module, self.function = options, module, function
        self.affine = Affine()
        self.facts = Facts(function, self.affine)
        self.host = HostSizes(module, function, self.affine)
        self.kernel = KernelDescriptors(function, self.affine)
        self.numbers = Materializer(self.affine.atoms)
        self.remarks: list[Remark] = []
        self.taken: dict[str, None] = {}
        self.conditions: dict[Condition, None] = {}
        self.specs: dict[DescriptorSpec, Value] = {}

    def run(self) -> RaiseResult:
        """All decisions first, while the program is still the one that was analysed."""
        in_turn = self.options.in_turn and self.options.make == "host"
        products = from_dots(self.module)
        loads = [op for op in self.function.op.walk() if is_operand_load(op, in_turn, products)]
        decisions = [decision for load in loads if (decision := self.decide(load)) is not None]
        may_store = decisions and self.options.make == "host"
        stores = tile_stores(self.function, self.options.in_turn) if may_store else []
        stored = [box for store in stores if (box := self.decide_store(store))]
        self.ask(decisions)
        for decision in decisions:
            self.rewrite(decision)
        for box in stored:
            self.rewrite_store(box)
        if decisions:
            DropDead().run(self.module)
        launch = LaunchSpec(tuple(self.specs), tuple(self.conditions))
        left = len(loads) - len(decisions)
        return RaiseResult(bool(decisions), tuple(self.remarks), launch, tuple(self.taken), len(decisions), left)

    # -- decisions -------------------------------------------------------------------------------------------------

    def decide(self, load: Operation) -> _Decision | None:
        """Whether and how a load is to be raised; a remark says why."""
        where = source_of(self.module, load)
        try:
            decision, conditions, taken = self._home(load)
        except NotABox as found:
            self.remarks.append(Remark("note", f"a load stays with pointers: {found.reason}", where, found.cure))
            return None
        self.taken.update(taken)
        self.conditions.update(dict.fromkeys(conditions))
        blocks = "x".join(str(size) for size in decision.box.block if size > 1)
        remark = f"a load through pointers is made by TMA: boxes of {blocks}"
        runs = [dim.run for dim in decision.box.dims if dim.run > 1]
        remark += f", of which {runs[0]} elements of the tile share each" if runs else ""
        if decision.limits:
            strides = ", ".join(self.affine.atoms.text(limit.stride) for limit in decision.limits)
            remark += f", where {strides} turns out to be positive"
        self.remarks.append(Remark("done", remark, where))
        return decision

    def decide_store(self, store: Operation) -> Box | None:
        """The box of a store to be raised; a remark says why, or why not."""
        where = source_of(self.module, store)
        try:
            box = BoxFinder(self.affine, self.facts, self.host.in_size, self.host.in_offset).find(store)
            waited_for = why_stored_in_order(self.module, store)
            if waited_for:
                raise NotABox(f"{waited_for}, and a TMA store keeps no order with that")
            if any(dim.run > 1 for dim in box.dims):
                raise NotABox("elements of the tile share an address")
            if any(dim.guards for dim in box.dims):
                raise NotABox("its index wraps around or is clamped", "mask the store instead: rows[:, None] < M")
            order = [dim.tile for dim in box.dims if dim.tile is not None]
            if order != sorted(order):
                raise NotABox("its rows lie in memory along the first dimension of the tile", "store tile.T instead")
            conditions = self.host.conditions(box, self.facts)
            self._known_aligned(box)
            taken = self._taken([box.proof])
        except NotABox as found:
            self.remarks.append(Remark("note", f"a store stays with pointers: {found.reason}", where, found.cure))
            return None
        self.taken.update(taken)
        self.conditions.update(dict.fromkeys(conditions))
        blocks = "x".join(str(size) for size in box.block if size > 1)
        self.remarks.append(Remark("done", f"a store through pointers is made by TMA: boxes of {blocks}", where))
        return box

    def _known_aligned(self, box: Box) -> None:
        if not self.host.aligned(box, self.facts):
            raise NotABox("that rows begin at multiples of 16 bytes is not known when the kernel is compiled")

    def _home(self, load: Operation) -> tuple[_Decision, tuple[Condition, ...], dict[str, None]]:
        """The decision, with what the launch must fulfil and what is taken for granted; raises NotABox."""
        form = self.affine.form(load.operands[0])
        base = form.base if form is not None else None
        table = base is not None and base.owner is not self.function.body
        if table and not (self.options.tables and enclosing_loops(load)):
            reason = (
                "its pointer comes from memory: the kernel would have to make a descriptor, which costs more than it"
            )
            raise NotABox(f"{reason} brings where a program computes one tile", "only_if_faster=False does it")
        if base is None or (self.options.make == "host" and not table):
            finder = BoxFinder(self.affine, self.facts, self.host.in_size, self.host.in_offset)
            box, conditions = self._unseen(finder.find(load), by_host=True)
            if not enclosing_loops(load):
                self._known_aligned(box)
            conditions = (*self.host.conditions(box, self.facts), *conditions)
            return _Decision(box), conditions, self._taken([box.proof])
        places = self.kernel.places(load, base)
        if not places:
            raise NotABox("its pointer is made in the loop of the load: a descriptor would be made for each load")
        for place in places[:-1]:
            try:
                return self._inside(load, place, table)
            except NotABox:
                continue  # further inside more is known
        return self._inside(load, places[-1], table)

    def _inside(
        self, load: Operation, place: Place, table: bool
    ) -> tuple[_Decision, tuple[Condition, ...], dict[str, None]]:
        """The same with a descriptor that the kernel makes at `place`."""
        promised = promised_by(load, self.function, self.affine) if table else {}
        facts = Facts(self.function, self.affine, promised) if promised else self.facts
        finder = BoxFinder(self.affine, facts, place.in_size, place.in_offset)
        box, conditions = self._unseen(finder.find(load), by_host=False)
        checked = self.kernel.check(box, facts)
        proofs = [box.proof, checked.proof]
        if self.options.make == "host":
            arguments = dict.fromkeys(argument for proof in proofs for argument in proof.arguments)
            conditions = (*self.host.beside(box, arguments), *conditions)
        return _Decision(box, place, checked.limits), conditions, self._taken(proofs)

    def _taken(self, proofs: list[Proof]) -> dict[str, None]:
        """What has to be taken for granted; raises NotABox where nothing may be."""
        taken = {text: None for proof in proofs for text in proof.taken}
        if self.options.make == "kernel":
            arguments = [argument for proof in proofs for argument in proof.arguments]
            taken |= {f"{self.host.name(argument)} is not negative": None for argument in arguments}
        if taken and not self.options.trust:
            raise NotABox(f"it would have to be taken for granted that {next(iter(taken))}", "say so by tl.assume")
        return taken

    def _unseen(self, box: Box, by_host: bool) -> tuple[Box, tuple[Condition, ...]]:
        """The box such that nobody sees what is not read from elsewhere any more; raises NotABox if nothing helps.

        Where somebody does, whole boxes must wrap around: then the box begins at the index modulo the size.
        """
        conditions: list[Condition] = []
        dims = list(box.dims)
        for at, dim in enumerate(box.dims):
            for guard in dim.guards:
                assert dim.tile is not None
                user = seen_by(self.module, self.affine, box.access, dim.tile, guard.room)
                if user is not None:
                    conditions += self._whole_boxes(dim, guard, user, by_host)
                    dims[at] = replace(dim, wraps=True)
        return replace(box, dims=tuple(dims)), tuple(conditions)

    def _whole_boxes(self, dim: BoxDim, guard: Guard, user: str, by_host: bool) -> list[Condition]:
        """What a launch must fulfil so that a box wraps around as a whole or not at all."""
        size = guard.room + dim.index
        alone = guard.whole and guard.modulus == size and len(dim.guards) == 1 and not dim.masked
        whole = alone and self.facts.multiple(dim.index) % dim.block == 0
        if whole and self.facts.multiple(size) % dim.block == 0:
            return []
        if not whole or not by_host or size.number is not None:
            reason = f"its index wraps around or is clamped, and {user} depends on what is read there"
            raise NotABox(reason, "mask the load and the store instead: rows[:, None] < M")
        return [Condition(self.host.value(size), "no tile wraps around in part", multiple=dim.block)]

    # -- the rewrite -----------------------------------------------------------------------------------------------

    def ask(self, decisions: Sequence[_Decision]) -> None:
        """Where strides must be looked at first, puts each loop of such loads beside a copy that keeps to pointers."""
        limits: dict[Operation, dict[Limit, None]] = {}
        for decision in decisions:
            if decision.limits:
                loop = enclosing_loops(decision.box.access)[0]
                limits.setdefault(loop, {}).update(dict.fromkeys(decision.limits))
        for loop, asked in limits.items():
            ask_limits(loop, tuple(asked), self.numbers, is_operand_load)

    def rewrite(self, decision: _Decision) -> None:
        """Puts a TMA load in the place of a pointer load."""
        box = decision.box
        descriptor, shifts = self._descriptor(decision)
        builder = Builder.before(box.access)
        indices = [self._index(box.access, dim, shift) for dim, shift in zip(box.dims, shifts, strict=True)]
        outer = next((at for at, dim in enumerate(box.dims) if dim.tile is not None))
        for gate in box.gates:
            indices[outer] = self._gated(builder, gate, indices[outer])
        tile = load_box(builder, box, descriptor, indices, self.options.nested)
        replace_op(box.access, [tile])

    def rewrite_store(self, box: Box) -> None:
        """Puts a TMA store in the place of a pointer store."""
        store = StoreOp(box.access)
        descriptor, _ = self._descriptor(_Decision(box))
        builder = Builder.before(store.op)
        indices = [self._index(store.op, dim, None) for dim in box.dims]
        for gate in box.gates:
            indices[0] = self._gated(builder, gate, indices[0])
        tile = store.source
        type = tile_type([dim.block for dim in box.dims], box.element)
        if tile.type != type:
            tile = builder.create("tt.reshape", (tile,), (type,), hints=(tile.hint,)).result
        builder.create("tt.descriptor_store", (descriptor, tile, *indices))
        store.op.erase()

    def _descriptor(self, decision: _Decision) -> tuple[Value, Sequence[Value | None]]:
        """The descriptor, and for each dimension what is to be added to its index."""
        box, place = decision.box, decision.place
        if place is not None:
            return self.kernel.make(box, place, decision.limits, self.numbers, self.options.nested)
        spec = self.host.spec(box)
        for known, value in self.specs.items():
            if replace(known, argument=0) == spec:
                return value, [None] * len(box.dims)
        spec = replace(spec, argument=len(self.function.body.args))
        value = add_descriptor(self.function, spec, len(self.specs), self.options.nested)
        self.specs[spec] = value
        return value, [None] * len(box.dims)

    def _index(self, load: Operation, dim: BoxDim, shift: Value | None) -> Value:
        index = self.numbers.number_for(load, dim.index, "at")
        builder = Builder.before(load)
        if dim.wraps:
            index = arithmetic(builder, "arith.remsi", index, self.numbers.number_for(load, dim.sizes[0]), "at")
        return index if shift is None else arithmetic(builder, "arith.addi", index, shift, "at")

    def _gated(self, builder: Builder, gate: Poly, index: Value) -> Value:
        """The index where a condition holds; outside of the tensor otherwise."""
        type = "i64" if self.affine.atoms.wide(gate) else "i32"
        room = self.numbers.number(gate, builder, type)
        zero, outside = builder.constant(0, type), builder.constant(_OUTSIDE)
        holds = builder.create("arith.cmpi", (room, zero), ("i1",), properties={"predicate": "4 : i64"}).result
        return builder.create("arith.select", (holds, index, outside), ("i32",), hints=("at",)).result


__all__ = ["Make", "RaiseLoads", "RaiseResult"]
