"""Raises: which pointer accesses TMA can make, and what has to hold for each.

    for %i … { %t = load %p, … ; dot %t … }      →   a box of %a: 128 x 64 of a tensor [M, K], at [128·%pid, 64·%i];
    store %q, %c                                      a launch must fulfil K·2 % 16 == 0; nothing is taken for granted

What is proved of an address is in `tawa.analysis.boxes`; here it is decided where the descriptor is made, and whether
all that a descriptor needs is known there. Nothing is changed: `tawa.transforms.ttir.promote_to_tma` rewrites what the
Plan chooses.

Only loads in a loop that feed a dot are looked at: others gain nothing. Rows that a wrap-around (``% M``) reads from
elsewhere are zero afterwards; they must not reach memory (`tawa.analysis.memory.out_of_bounds_uses`).

Where the descriptor is made:

    make="host"     by the launcher: it knows the kernel's arguments, and launches the kernel as it was where sizes,
                    strides or alignment of this launch are not as TMA needs them.
    make="kernel"   in the entry block. Nothing is asked of the launch, so all alignment must be known when the kernel
                    is compiled.

Stores of tiles that a program makes one after another, each by a loop of its own, are looked at likewise: a TMA store
overlaps the next tile. So are, with in_turn=True, loads that feed the dots of a whole loop, as the queries of attention
do: the next tile's are loaded beside this tile's loop. Both only with descriptors of the host whose alignment is known
when the kernel is compiled, so that no launch goes to the kernel as it was for their sake; stores only where nothing in
the kernel wants them done before it goes on.

A pointer that the kernel loads from a table can be described in the kernel only, in front of the loop of the load, with
tables=True. Hints on the tile of addresses say how it is aligned (`tawa.symbolic.alignment_hints`); where a stride
comes from memory, TMA is used only if that is one it takes (`Decision.limits`).

Some facts are *taken* (`AccessInfo.taken`): a divisor in the index arithmetic is positive, an index from memory is not
negative, sums of indices do not overflow; and in the kernel, that integer arguments are not negative. A kernel that
breaks them reads outside its tensors. trust=False declines what needs one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tawa.analysis.boxes import Box, BoxDim, BoxFinder
from tawa.analysis.host_sizes import HostSizes
from tawa.analysis.memory.out_of_bounds_uses import seen_by
from tawa.analysis.memory.provenance import why_stored_in_order
from tawa.analysis.memory.tile_stores import tile_stores
from tawa.analysis.rings.loads import from_dots
from tawa.analysis.tma.accesses import NotABox, is_operand_load
from tawa.analysis.tma.descriptor_places import Limit, Place, check_descriptor, places_of
from tawa.dialects.declare.declaration import global_address
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import FuncOp
from tawa.ir import Module, Operation, source_of
from tawa.remarks import Remark, SourceLocation
from tawa.symbolic.affine import Affine
from tawa.symbolic.affine_tile import Guard
from tawa.symbolic.alignment_hints import hinted_divisors
from tawa.symbolic.host.expr import Condition
from tawa.symbolic.known import Proof
from tawa.symbolic.value_ranges import ValueRanges

Make = Literal["host", "kernel"]


@dataclass(frozen=True, slots=True)
class Decision:
    """How TMA makes an access.

    place: where the kernel makes its descriptor, None if the host does. limits: what the kernel asks before it uses it.
    """

    box: Box
    place: Place | None = None
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class AccessInfo:
    """A load or a store that was looked at.

    decision: how TMA makes it; None if it stays with pointers, and then `reason` says why and `cure` what its author
    can do. conditions: what a launch must fulfil for its sake. taken: what is taken for granted for its sake.
    """

    op: Operation
    location: SourceLocation | None
    decision: Decision | None = None
    conditions: tuple[Condition, ...] = ()
    taken: tuple[str, ...] = ()
    reason: str = ""
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """Loads and stores that are to be made by TMA, each of which can be."""

    loads: tuple[AccessInfo, ...]
    stores: tuple[AccessInfo, ...]

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What a launch must fulfil so that all of them are right."""
        return tuple(dict.fromkeys(it for access in (*self.loads, *self.stores) for it in access.conditions))

    @property
    def taken(self) -> tuple[str, ...]:
        """What is taken for granted so that all of them are right."""
        return tuple(dict.fromkeys(it for access in (*self.loads, *self.stores) for it in access.taken))


@dataclass(frozen=True, slots=True)
class Raises:
    """What of one kernel TMA can make.

    make, nested: as `find_raises` was told. host: what the launcher can compute; its interpretation is what the boxes
    are written in. loads, stores: in textual order; stores are analysed only where a load can be raised. declined: why
    nothing was analysed.
    """

    host: HostSizes
    make: Make
    nested: bool
    loads: tuple[AccessInfo, ...] = ()
    stores: tuple[AccessInfo, ...] = ()
    declined: Remark | None = None

    @property
    def module(self) -> Module:
        """The module that was analysed."""
        return self.host.module

    @property
    def function(self) -> FuncOp:
        """Its kernel."""
        return self.host.function

    @property
    def affine(self) -> Affine:
        """The interpretation of its values."""
        return self.host.affine

    def choose(self, loads: frozenset[Operation] | None = None, stores: frozenset[Operation] | None = None) -> Choice:
        """Those of some accesses that can be raised; None stands for all. Without a load, there are no stores."""
        chosen = _among(self.loads, loads)
        return Choice(chosen, _among(self.stores, stores) if chosen else ())


def _among(accesses: tuple[AccessInfo, ...], chosen: frozenset[Operation] | None) -> tuple[AccessInfo, ...]:
    return tuple(it for it in accesses if it.decision is not None and (chosen is None or it.op in chosen))


def find_raises(
    module: Module,
    make: Make = "host",
    nested: bool = True,
    *,
    trust: bool = True,
    tables: bool = True,
    in_turn: bool = False,
) -> Raises:
    """Looks at the loads and stores of a kernel: TTIR without layouts.

    make: where descriptors are made. nested: whether types are spelled as Triton 3.6 does, that of the box inside
    (``!tt.tensordesc<tensor<128x64xf16>>``), or as later releases do. trust: whether facts may be taken for granted.
    tables: whether the kernel may make descriptors of memory whose pointer it loads. in_turn: whether programs will be
    done in turn, so that what stands behind all loops is followed by another tile.
    """
    functions = [view for op in module.body.ops if (view := FuncOp.of(op))]
    host = HostSizes(module, functions[-1], Affine())
    if len(functions) != 1 or not functions[0].structured:
        reason = "calls or jumps between blocks: addresses cannot be followed"
        declined = Remark("note", reason, source_of(module, functions[-1].op), "inline the callee")
        return Raises(host, make, nested, declined=declined)
    finder = _Finder(host, make, trust, tables)
    products = from_dots(module)
    by_host = make == "host"
    operands = [op for op in functions[0].op.walk() if is_operand_load(op, in_turn and by_host, products)]
    loads = tuple(finder.load(op) for op in operands)
    may_store = by_host and any(load.decision for load in loads)
    stores = tuple(finder.store(op) for op in tile_stores(functions[0], in_turn)) if may_store else ()
    return Raises(host, make, nested, loads, stores)


class _Finder:
    """Decides for one function."""

    def __init__(self, host: HostSizes, make: Make, trust: bool, tables: bool) -> None:
        self.host, self.module, self.function, self.affine = host, host.module, host.function, host.affine
        self.make, self.trust, self.tables = make, trust, tables
        self.facts = ValueRanges(self.function, self.affine)

    def load(self, op: Operation) -> AccessInfo:
        """Whether and how a load is to be raised."""
        found = AccessInfo(op, source_of(self.module, op))
        try:
            return self._home(found)
        except NotABox as why:
            return replace(found, reason=why.reason, cure=why.cure)

    def store(self, op: Operation) -> AccessInfo:
        """The same for a store."""
        found = AccessInfo(op, source_of(self.module, op))
        try:
            box = self._stored(op)
            conditions = self.host.conditions(box, self.facts)
            self._check_aligned(box)
            return replace(found, decision=Decision(box), conditions=conditions, taken=self._taken([box.proof]))
        except NotABox as why:
            return replace(found, reason=why.reason, cure=why.cure)

    def _stored(self, op: Operation) -> Box:
        """The box of a store; raises NotABox."""
        box = BoxFinder(self.affine, self.facts, self.host.in_size, self.host.in_offset).find(op)
        waited_for = why_stored_in_order(self.module, op)
        if waited_for:
            raise NotABox(f"{waited_for}, and a TMA store keeps no order with that")
        if any(dim.run > 1 for dim in box.dims):
            raise NotABox("elements of the tile share an address")
        if any(dim.guards for dim in box.dims):
            raise NotABox("its index wraps around or is clamped", "mask the store instead: rows[:, None] < M")
        order = [dim.tile for dim in box.dims if dim.tile is not None]
        if order != sorted(order):
            raise NotABox("its rows lie in memory along the first dimension of the tile", "store tile.T instead")
        return box

    def _check_aligned(self, box: Box) -> None:
        if not self.host.aligned(box, self.facts):
            raise NotABox("that rows begin at multiples of 16 bytes is not known when the kernel is compiled")

    def _home(self, found: AccessInfo) -> AccessInfo:
        """A load with its decision; raises NotABox."""
        load = found.op
        address = self.affine.tile(global_address(load))
        base = address.base if address is not None else None
        table = base is not None and base.owner is not self.function.body
        if table and not (self.tables and enclosing_loops(load)):
            reason = (
                "its pointer comes from memory: the kernel would have to make a descriptor, which costs more than it"
            )
            raise NotABox(f"{reason} brings where a program computes one tile", "only_if_faster=False does it")
        if base is None or (self.make == "host" and not table):
            finder = BoxFinder(self.affine, self.facts, self.host.in_size, self.host.in_offset)
            box, conditions = self._unseen(finder.find(load), by_host=True)
            if not enclosing_loops(load):
                self._check_aligned(box)
            conditions = (*self.host.conditions(box, self.facts), *conditions)
            return replace(found, decision=Decision(box), conditions=conditions, taken=self._taken([box.proof]))
        places = places_of(load, base, self.function, self.affine)
        if not places:
            raise NotABox("its pointer is made in the loop of the load: a descriptor would be made for each load")
        for place in places[:-1]:
            try:
                return self._inside(found, place, table)
            except NotABox:
                continue  # further inside more is known
        return self._inside(found, places[-1], table)

    def _inside(self, found: AccessInfo, place: Place, table: bool) -> AccessInfo:
        """The same with a descriptor that the kernel makes at `place`."""
        load = found.op
        promised = hinted_divisors(load, self.function, self.affine) if table else {}
        facts = ValueRanges(self.function, self.affine, promised) if promised else self.facts
        finder = BoxFinder(self.affine, facts, place.in_size, place.in_offset)
        box, conditions = self._unseen(finder.find(load), by_host=False)
        checked = check_descriptor(box, facts, self.affine)
        proofs = [box.proof, checked.proof]
        if self.make == "host":
            arguments = dict.fromkeys(argument for proof in proofs for argument in proof.arguments)
            conditions = (*self.host.beside(box, arguments), *conditions)
        decision = Decision(box, place, checked.limits)
        return replace(found, decision=decision, conditions=conditions, taken=self._taken(proofs))

    def _taken(self, proofs: list[Proof]) -> tuple[str, ...]:
        """What has to be taken for granted; raises NotABox where nothing may be."""
        taken = {text: None for proof in proofs for text in proof.taken}
        if self.make == "kernel":
            arguments = [argument for proof in proofs for argument in proof.arguments]
            taken |= {f"{self.host.name(argument)} is not negative": None for argument in arguments}
        if taken and not self.trust:
            raise NotABox(f"it would have to be taken for granted that {next(iter(taken))}", "say so by tl.assume")
        return tuple(taken)

    def _unseen(self, box: Box, by_host: bool) -> tuple[Box, tuple[Condition, ...]]:
        """The box, and what a launch must fulfil, so that no result depends on rows that TMA no longer reads.

        Rows that wrapped around are zero by TMA. Where a result depends on them, whole boxes must wrap around: such a
        box begins at the index modulo the size. Raises NotABox where that is not possible.
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


__all__ = ["AccessInfo", "Choice", "Decision", "Make", "Raises", "find_raises"]
