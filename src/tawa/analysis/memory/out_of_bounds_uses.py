"""Whether rows of a tile that lie outside the tensor can be seen in memory.

    rows = (128·pid + r) % M        rows past M hold some other row of A; a TMA load has zeros there
    a = load a + rows[:, None]·s + …
    c = dot a, b, c                  rows of a are rows of c
    store c, mask = 128·pid + r < M  those rows are not stored: nobody sees them

What is computed of the elements along a dimension is followed forward, through the ties of `split_rules`. It may end in
stores whose mask cuts off at least what the load should have cut off. It is seen where an operation mixes the dimension
(a reduction, a contraction), where it becomes an address, and in a store without such a mask.
"""

from __future__ import annotations

from tawa.dialects.scf import ENDS, LOOPS
from tawa.dialects.tt import LoadOp, StoreOp
from tawa.ir import Module, Operation, Value, source_of
from tawa.symbolic.affine import Affine
from tawa.symbolic.dim_relations import Place, relations_of, shape_of
from tawa.symbolic.polynomial import Poly


def seen_by(module: Module, affine: Affine, load: Operation, dim: int, room: Poly) -> str | None:
    """Who sees elements of `load` where ``room - r_dim > 0`` does not hold, in words; None if nobody does."""
    seen: set[tuple[Value, int]] = set()
    work = [(load.result, dim)]
    while work:
        value, at = work.pop()
        if (value, at) in seen:
            continue
        seen.add((value, at))
        for use in value.uses:
            user = use.op
            if StoreOp.matches(user):
                if use.index != 1 or not _cuts(affine, user, at, room):
                    return _place(module, user)
                continue
            read = LoadOp.of(user)
            if read is not None and read.pointers is value:
                return _place(module, user)
            ruled = user.parent_op if user.name in ENDS else user
            if ruled is None or (user.name in ENDS and _turns(affine, ruled, room)):
                return _place(module, user)
            relations = relations_of(ruled)
            places = [tie for tie in relations.ties if any(_same(place, value, at) for place in tie)]
            mixed = any(_same(mixed.place, value, at) for mixed in relations.mixed)
            if mixed or (not places and any(shape_of(result) for result in ruled.results)) or not ruled.results:
                return _place(module, user)
            work += [(place.value, place.dim) for tie in places for place in tie if place.user is None]
    return None


def _turns(affine: Affine, op: Operation, room: Poly) -> bool:
    """Whether what lies outside is something else in the next iteration, which a loop hands its values to."""
    return op.name in LOOPS and not affine.atoms.invariant(room, op)


def _same(place: Place, value: Value, dim: int) -> bool:
    return place.value is value and place.dim == dim


def _cuts(affine: Affine, store: Operation, dim: int, room: Poly) -> bool:
    """Whether the mask of a store leaves out what lies outside ``room - r_dim > 0``."""
    mask = StoreOp(store).mask
    if mask is None:
        return False
    bounds = affine.bounds(mask) or ()
    same = [bound for bound in bounds if bound.kind == "upper" and bound.dim == dim and bound.room == room]
    return any(not bound.guards for bound in same)  # a bound of what wraps around itself cuts nothing off there


def _place(module: Module, op: Operation) -> str:
    place = source_of(module, op)
    return f"{op.name.removeprefix('tt.')}" + (f" in line {place.line}" if place else "")


__all__ = ["seen_by"]
