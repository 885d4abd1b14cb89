"""PromotionInfo: which pointer accesses can become TMA copies, and under which conditions.

    for %i … { %t = load %p, … ; dot %t … }      →   a box of %a: 128 x 64 of a tensor [M, K], at [128·%pid, 64·%i];
    store %q, %c                                      a launch must satisfy K·2 % 16 == 0; no premises

`tawa.analysis.tma.boxes` analyses the address. This module decides where the descriptor is made, and whether everything
that the descriptor needs is known there. It changes nothing: `tawa.transforms.ttir.promote_to_tma` rewrites the
accesses that the Plan chooses.

Only loads in a loop that feed a dot are considered, and rows that travel with their tiles: other loads do not benefit.
For an index that wraps around (``% M``), the pointer load reads other rows of the tensor while TMA reads zeros; these
rows must not affect memory (`tawa.analysis.memory.out_of_bounds_uses`).

Where the descriptor is made:

    make="host"     by the launcher: it knows the kernel's arguments, and launches the original kernel if the sizes,
                    strides or alignment of a launch do not meet TMA's requirements.
    make="kernel"   in the entry block. The launch is not checked, so that the alignment must be proved at compile time.

Stores of tiles are considered as well if the program computes several tiles, each by a loop of its own: a TMA store
overlaps with the next tile. So are, with persistent=True, loads before the loop that feed its dots, such as the queries
of
attention: those of the next tile are loaded during the loop of this tile. Both need a host descriptor whose alignment
is proved at compile time, so that no launch gets the original kernel because of them. Stores also need that no later
operation of the kernel depends on their completion, and rows that end at a multiple of 16 bytes, since TMA writes whole
chunks: a launch with other rows gets the kernel with pointer stores (`tawa.bridge.launch.instead`).

For a pointer that the kernel loads from a table, the descriptor is made in the kernel, before the loop of the load, if
tables=True. Its alignment follows from hints on the tile of addresses (`tawa.symbolic.alignment_hints`). If a stride is
loaded from memory, the kernel checks at run time that TMA supports it (`Decision.limits`).

Some facts are *taken for granted* (`AccessInfo.taken`): a divisor in the index arithmetic is positive, a loaded index
is not negative, sums of indices do not overflow, and, with make="kernel", integer arguments are not negative. A kernel
that violates one accesses memory out of bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tawa.analysis.memory.out_of_bounds_uses import seen_by
from tawa.analysis.memory.provenance import why_stored_in_order
from tawa.analysis.memory.tile_stores import tile_stores
from tawa.analysis.rings.loads import from_dots
from tawa.analysis.tma.accesses import NotABox, is_operand_load
from tawa.analysis.tma.boxes import Box, BoxDim, BoxFinder
from tawa.analysis.tma.descriptor_places import Limit, Place, check_descriptor, places_of
from tawa.analysis.tma.host_sizes import HostSizes
from tawa.dialects.control_flow import functions_of, structured_kernel
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
    """How an access becomes a TMA copy.

    place: where the kernel makes the descriptor; None if the launcher does. limits: run-time checks before its use.
    """

    box: Box
    place: Place | None = None
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class AccessInfo:
    """A load or a store that was considered.

    decision: how it becomes a TMA copy; None if it stays a pointer access, and then `reason` says why, and `cure` how
    to change that. conditions: those that a launch must satisfy for it. taken: facts that are taken for granted for it.
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
    """Loads and stores that will become TMA copies."""

    loads: tuple[AccessInfo, ...]
    stores: tuple[AccessInfo, ...]

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions that a launch must satisfy for all of them."""
        return tuple(dict.fromkeys(it for access in (*self.loads, *self.stores) for it in access.conditions))

    @property
    def taken(self) -> tuple[str, ...]:
        """The facts that are taken for granted for all of them."""
        return tuple(dict.fromkeys(it for access in (*self.loads, *self.stores) for it in access.taken))


@dataclass(frozen=True, slots=True)
class PromotionInfo:
    """The accesses of one kernel that can become TMA copies.

    make, nested: the options of `find_promotions`. host: what the launcher can compute; the boxes are polynomials over
    its atoms. loads, stores: in textual order; stores are analysed only if a load can be promoted. declined: why
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
        """The affine interpretation of its values."""
        return self.host.affine

    def choose(self, loads: frozenset[Operation] | None = None, stores: frozenset[Operation] | None = None) -> Choice:
        """The given accesses that can be promoted; None stands for all. Without loads, no stores are chosen."""
        chosen = _among(self.loads, loads)
        return Choice(chosen, _among(self.stores, stores) if chosen else ())


def _among(accesses: tuple[AccessInfo, ...], chosen: frozenset[Operation] | None) -> tuple[AccessInfo, ...]:
    return tuple(it for it in accesses if it.decision is not None and (chosen is None or it.op in chosen))


def find_promotions(
    module: Module,
    make: Make = "host",
    nested: bool = True,
    *,
    tables: bool = True,
    persistent: bool = False,
) -> PromotionInfo:
    """Analyses the loads and stores of a kernel in TTIR without layouts.

    make: where descriptors are made. nested: whether descriptor types contain a tensor type
    (``!tt.tensordesc<tensor<128x64xf16>>``, Triton 3.6), or not (later releases). tables: whether the kernel
    may make descriptors for pointers that it loads. persistent: whether the kernel will be persistent, so that
    operations before and after its loops repeat for every tile.
    """
    last, kernel = functions_of(module)[-1], structured_kernel(module)
    host = HostSizes(module, last, Affine())
    if kernel is None:
        reason = "calls or jumps between blocks: addresses cannot be followed"
        declined = Remark("note", reason, source_of(module, last.op), "inline the callee")
        return PromotionInfo(host, make, nested, declined=declined)
    finder = _Finder(host, make, tables)
    products = from_dots(module)
    by_host = make == "host"
    operands = [op for op in kernel.op.walk() if is_operand_load(op, persistent and by_host, products, by_host)]
    loads = tuple(finder.load(op) for op in operands)
    may_store = by_host and any(load.decision for load in loads)
    stores = tuple(finder.store(op) for op in tile_stores(kernel, persistent)) if may_store else ()
    return PromotionInfo(host, make, nested, loads, stores)


class _Finder:
    """The analysis of one function."""

    def __init__(self, host: HostSizes, make: Make, tables: bool) -> None:
        self.host, self.module, self.function, self.affine = host, host.module, host.function, host.affine
        self.make, self.tables = make, tables
        self.facts = ValueRanges(self.function, self.affine)

    def load(self, op: Operation) -> AccessInfo:
        """Whether and how a load can be promoted."""
        found = AccessInfo(op, source_of(self.module, op))
        try:
            return self._decided(found)
        except NotABox as why:
            return self._kept(found, why)

    def store(self, op: Operation) -> AccessInfo:
        """The same for a store."""
        found = AccessInfo(op, source_of(self.module, op))
        try:
            box = self._stored(op)
            conditions = (*self.host.conditions(box, self.facts), *self.host.whole_rows(box, self.facts))
            self._check_aligned(box)
            return replace(found, decision=Decision(box), conditions=conditions, taken=self._taken([box.proof]))
        except NotABox as why:
            return self._kept(found, why)

    def _kept(self, found: AccessInfo, why: NotABox) -> AccessInfo:
        """An access that stays with pointers, with the line of the operation that stands in the way."""
        place = source_of(self.module, why.op) if why.op is not None else None
        where = f" ({place})" if place is not None and str(place) != str(found.location) else ""
        return replace(found, reason=f"{why.reason}{where}", cure=why.cure)

    def _stored(self, op: Operation) -> Box:
        """The box of a store; raises NotABox."""
        box = BoxFinder(self.affine, self.facts, self.host.in_size, self.host.in_offset).find(op)
        waited_for = why_stored_in_order(self.module, op)
        if waited_for:
            raise NotABox(f"{waited_for}, and a TMA store is not ordered with that")
        if any(dim.run > 1 for dim in box.dims):
            raise NotABox("elements of the tile share an address")
        if any(dim.guards for dim in box.dims):
            raise NotABox("its index wraps around or is clamped", "mask the store instead: rows[:, None] < M")
        order = [dim.tile for dim in box.dims if dim.tile is not None]
        if order != sorted(order):
            raise NotABox("its rows are contiguous along the first dimension of the tile", "store tile.T instead")
        return box

    def _check_aligned(self, box: Box) -> None:
        if not self.host.aligned(box, self.facts):
            raise NotABox("its rows are not known to begin at multiples of 16 bytes at compile time")

    def _decided(self, found: AccessInfo) -> AccessInfo:
        """A load with its decision; raises NotABox."""
        load = found.op
        address = self.affine.tile(global_address(load))
        base = address.base if address is not None else None
        table = base is not None and base.owner is not self.function.body
        if table and not (self.tables and enclosing_loops(load)):
            reason = "its pointer comes from memory: the kernel would have to make a descriptor, which costs more than"
            raise NotABox(f"{reason} it saves if a program computes a single tile", "only_if_faster=False does it")
        if base is None or (self.make == "host" and not table):
            finder = BoxFinder(self.affine, self.facts, self.host.in_size, self.host.in_offset)
            box, conditions = self._checked_bounds(finder.find(load), by_host=True)
            if not enclosing_loops(load):
                self._check_aligned(box)
            conditions = (*self.host.conditions(box, self.facts), *conditions)
            return replace(found, decision=Decision(box), conditions=conditions, taken=self._taken([box.proof]))
        places = places_of(load, base, self.function, self.affine)
        if not places:
            raise NotABox(
                "its pointer is defined in the loop of the load: each load would need a descriptor of its own"
            )
        for place in places[:-1]:
            try:
                return self._inside(found, place, table)
            except NotABox:
                continue  # more values are available at inner places
        return self._inside(found, places[-1], table)

    def _inside(self, found: AccessInfo, place: Place, table: bool) -> AccessInfo:
        """A load with a descriptor that the kernel makes at `place`; raises NotABox."""
        load = found.op
        hinted = hinted_divisors(load, self.function, self.affine) if table else {}
        facts = ValueRanges(self.function, self.affine, hinted) if hinted else self.facts
        finder = BoxFinder(self.affine, facts, place.in_size, place.in_offset)
        box, conditions = self._checked_bounds(finder.find(load), by_host=False)
        checked = check_descriptor(box, facts, self.affine)
        proofs = [box.proof, checked.proof]
        if self.make == "host":
            arguments = dict.fromkeys(argument for proof in proofs for argument in proof.arguments)
            conditions = (*self.host.beside(box, arguments), *conditions)
        decision = Decision(box, place, checked.limits)
        return replace(found, decision=decision, conditions=conditions, taken=self._taken(proofs))

    def _taken(self, proofs: list[Proof]) -> tuple[str, ...]:
        """The facts that are taken for granted."""
        taken = {text: None for proof in proofs for text in proof.taken}
        if self.make == "kernel":
            arguments = [argument for proof in proofs for argument in proof.arguments]
            taken |= {f"{self.host.name(argument)} is not negative": None for argument in arguments}
        return tuple(taken)

    def _checked_bounds(self, box: Box, by_host: bool) -> tuple[Box, tuple[Condition, ...]]:
        """The box and the launch conditions under which no result depends on rows that TMA fills with zeros.

        TMA fills rows that wrap around with zeros. If a result depends on them, boxes must wrap around as a whole: such
        a box begins at the index modulo the size. Raises NotABox if that is not possible.
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
        """The launch conditions under which a box wraps around as a whole or not at all."""
        size = guard.room + dim.index
        alone = guard.whole and guard.modulus == size and len(dim.guards) == 1 and not dim.masked
        whole = alone and self.facts.multiple(dim.index) % dim.block == 0
        if whole and self.facts.multiple(size) % dim.block == 0:
            return []
        if not whole or not by_host or size.number is not None:
            reason = f"its index wraps around or is clamped, and {user} depends on what is read there"
            raise NotABox(reason, "mask the load and the store instead: rows[:, None] < M")
        return [Condition(self.host.value(size), "no tile wraps around in part", multiple=dim.block)]
