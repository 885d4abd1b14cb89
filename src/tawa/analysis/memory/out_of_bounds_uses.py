"""Whether the out-of-bounds rows of a loaded tile can affect memory.

    rows = (128·pid + r) % M        rows past M hold another row of A; a TMA load fills them with zeros
    a = load a + rows[:, None]·s + …
    c = dot a, b, c                  rows of a are rows of c
    store c, mask = 128·pid + r < M  those rows are not stored: no use

The elements along a dimension are followed forward through the ties of `tawa.symbolic.dim_relations`. Stores, and
additions to memory, whose mask excludes the out-of-bounds rows are no uses. A use is an operation that mixes the
dimension (a reduction, a contraction), an operation that takes the elements as addresses, a store without such a mask,
and any other atomic.
"""

from __future__ import annotations

from tawa.dialects.scf import ENDS, LOOPS
from tawa.dialects.tt import ATOMICS, AtomicRMWOp, LoadOp, StoreOp, through_pointers
from tawa.ir import Module, Operation, Value, Worklist, source_of
from tawa.symbolic.affine import Affine
from tawa.symbolic.dim_relations import Place, relations_of, shape_of
from tawa.symbolic.polynomial import Poly


def seen_by(module: Module, affine: Affine, load: Operation, dim: int, room: Poly) -> str | None:
    """The first use of elements of `load` where ``room - r_dim > 0`` does not hold, as text, or None."""
    work = Worklist([(load.result, dim)])
    for value, at in work:
        for use in value.uses:
            user = use.op
            if store := through_pointers(user):
                if use.index != 1 or not _cuts(affine, store, at, room):
                    return _place(module, user)
                continue
            if user.name in ATOMICS:
                return _place(module, user)
            read = LoadOp.of(user)
            if read is not None and read.pointers is value:
                return _place(module, user)
            holder = user.parent_op if user.name in ENDS else user
            if holder is None or (user.name in ENDS and _varies(affine, holder, room)):
                return _place(module, user)
            relations = relations_of(holder)
            places = [tie for tie in relations.ties if any(_same(place, value, at) for place in tie)]
            mixed = any(_same(mixed.place, value, at) for mixed in relations.mixed)
            if mixed or (not places and any(shape_of(result) for result in holder.results)) or not holder.results:
                return _place(module, user)
            work += [(place.value, place.dim) for tie in places for place in tie if place.user is None]
    return None


def _varies(affine: Affine, op: Operation, room: Poly) -> bool:
    """Whether `op` is a loop in which the bound varies, so that the next iteration has other out-of-bounds rows."""
    return op.name in LOOPS and not affine.atoms.invariant(room, op)


def _same(place: Place, value: Value, dim: int) -> bool:
    return place.value is value and place.dim == dim


def _cuts(affine: Affine, store: StoreOp | AtomicRMWOp, dim: int, room: Poly) -> bool:
    """Whether the mask of a store excludes the elements where ``room - r_dim > 0`` does not hold."""
    if store.mask is None:
        return False
    bounds = affine.bounds(store.mask) or ()
    same = [bound for bound in bounds if bound.kind == "upper" and bound.dim == dim and bound.room == room]
    return any(bound.unconditional for bound in same)  # a comparison with guards excludes nothing beyond them


def _place(module: Module, op: Operation) -> str:
    place = source_of(module, op)
    return f"{op.name.removeprefix('tt.')}" + (f" in line {place.line}" if place else "")
