"""Names of allocations in messages: no two have the same.

An allocation has the name of the variable that it was assigned to. Where one line makes several, as `tawa.rings` makes
all barriers of a kernel, barriers are named by their role, and the others by number. If several barriers have one
role, each has the tile in front, too, that arrives on it, is read or is filled:

    %made    copies arrive on it, or who waits for it reads next                      full
    %made    who waits for it fills a buffer next                                     empty
    %made, %made, with several rings                                                  k_ring.full, v_ring.full
    %tiles, %tiles                                                                    tiles.0, tiles.1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from tawa.dialects import ttg, ttng
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Operation
from tawa.verify.skeleton.barrier_level import Accesses

_COPIES = op_names(ttng.AsyncTMACopyGlobalToLocalOp)
_FILLS = _COPIES | op_names(ttng.BarrierExpectOp, ttg.LocalStoreOp, ttg.AsyncCopyGlobalToLocalOp)
_READS = op_names(WarpGroupDotOp, ttg.LocalLoadOp, ttng.AsyncTMACopyLocalToGlobalOp, ttng.AsyncTMAReduceOp)


@dataclass(frozen=True, slots=True)
class _Role:
    """``full`` or ``empty``, of the slots of a tile."""

    name: str
    tile: Operation | None


def allocation_names(accesses: Accesses) -> list[str]:
    """The name of each allocation."""
    allocations, ops = list(accesses.allocations), accesses.ops
    given = {op: op.result.hint or f"alloc{number}" for number, op in enumerate(allocations)}
    times = Counter(given.values())
    if len(times) == len(given):
        return list(given.values())
    roles = {op: role for op, role in _roles(ops, accesses).items() if times[given[op]] > 1}
    taken = {name for name in given.values() if times[name] == 1}
    names: dict[Operation, str] = {}
    _number({op: name for op, name in given.items() if op not in roles}, taken, names)
    alike = Counter(role.name for role in roles.values())
    tiles = {op: f"{names[role.tile]}." if role.tile and alike[role.name] > 1 else "" for op, role in roles.items()}
    _number({op: f"{tiles[op]}{roles[op].name}" for op in allocations if op in roles}, taken, names)
    return [names[op] for op in allocations]


def _number(wished: Mapping[Operation, str], taken: set[str], names: dict[Operation, str]) -> None:
    """Gives each operation the name that it wishes, with a number where others have it, too."""
    times = Counter(wished.values())
    for op, name in wished.items():
        if times[name] > 1 or (name in taken and op.result.hint != name):
            name = next(it for it in (f"{name}.{number}" for number in count()) if it not in taken)
        taken.add(name)
        names[op] = name


def _roles(ops: Sequence[Operation], accesses: Accesses) -> dict[Operation, _Role]:
    """The roles of the barriers of which one can be told."""
    roles: dict[Operation, _Role] = {}
    for op in ops:
        if copy := ttng.AsyncTMACopyGlobalToLocalOp.of(op):
            for allocation in accesses.roots_of(copy.barrier):
                roles.setdefault(allocation, _Role("full", _tile(op, accesses)))
    for op in ops:
        if expect := ttng.BarrierExpectOp.of(op):
            for allocation in accesses.roots_of(expect.barrier):
                roles.setdefault(allocation, _Role("full", None))
    for op in ops:
        if wait := ttng.WaitBarrierOp.of(op):
            following = next((it for it in _after(op) if it.name in _FILLS or it.name in _READS), None)
            if following is not None:
                name, tile = "empty" if following.name in _FILLS else "full", _tile(following, accesses)
                if expect := ttng.BarrierExpectOp.of(following):
                    tile = next((roles[it].tile for it in accesses.roots_of(expect.barrier)), None)
                for allocation in accesses.roots_of(wait.barrier):
                    roles.setdefault(allocation, _Role(name, tile))
    return roles


def _tile(op: Operation, accesses: Accesses) -> Operation | None:
    """The allocation of tiles that an operation accesses, if it accesses one."""
    buffers = [it for it in op.operands if "!ttg.memdesc" in it.type and "xi64" not in it.type]
    found = {it for buffer in buffers for it in accesses.roots_of(buffer)}
    return found.pop() if len(found) == 1 else None


def _after(op: Operation) -> Iterator[Operation]:
    """What comes after an operation in its block."""
    assert op.parent is not None
    for following in op.parent.ops[op.parent.index_of(op) + 1 :]:
        yield from following.walk()


__all__ = ["allocation_names"]
