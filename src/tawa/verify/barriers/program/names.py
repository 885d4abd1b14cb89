"""Names of allocations in messages: no two have the same.

An allocation has the name of the variable that it was assigned to. Where one line makes several, as `tawa.rings` makes
all barriers of a kernel, barriers are named by their role, and the others by number:

    %made    copies arrive on it, or who waits for it reads next                      full
    %made    who waits for it fills a buffer next                                     empty
    %tiles, %tiles                                                                    tiles.0, tiles.1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tawa.dialects import ttg, ttng
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.ttg import VIEWS
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Operation, Value

_COPIES = op_names(ttng.AsyncTMACopyGlobalToLocalOp)
_FILLS = _COPIES | op_names(ttng.BarrierExpectOp, ttg.LocalStoreOp, ttg.AsyncCopyGlobalToLocalOp)
_READS = op_names(WarpGroupDotOp, ttg.LocalLoadOp, ttng.AsyncTMACopyLocalToGlobalOp, ttng.AsyncTMAReduceOp)


def allocation_names(
    allocations: Sequence[Operation], ops: Sequence[Operation], carried: Mapping[Value, Sequence[Value]]
) -> list[str]:
    """The name of each allocation. ops: of the program. carried: the values that an argument or result may have."""
    given = [op.result.hint or f"alloc{number}" for number, op in enumerate(allocations)]
    times = Counter(given)
    if len(times) == len(given):
        return given
    roles = _roles(ops, carried)
    wished = [roles.get(op, name) if times[name] > 1 else name for op, name in zip(allocations, given, strict=True)]
    often, names = Counter(wished), list[str]()
    taken = {name for name in given if times[name] == 1}
    for name, own in zip(wished, given, strict=True):
        if often[name] > 1 and times[own] > 1:
            name = next(it for it in (f"{name}.{number}" for number in range(len(given))) if it not in taken)
        taken.add(name)
        names.append(name)
    return names


def _roles(ops: Sequence[Operation], carried: Mapping[Value, Sequence[Value]]) -> dict[Operation, str]:
    """``full`` or ``empty`` for the barriers of which one can be told."""
    roles: dict[Operation, str] = {}
    for op in ops:
        if op.name in _COPIES or ttng.BarrierExpectOp.matches(op):
            for value in op.operands:
                if "xi64" in value.type:
                    roles.update(dict.fromkeys(_allocations(value, carried), "full"))
    for op in ops:
        if wait := ttng.WaitBarrierOp.of(op):
            following = next((it.name for it in _after(op) if it.name in _FILLS or it.name in _READS), "")
            role = "empty" if following in _FILLS else "full" if following else ""
            for allocation in _allocations(wait.barrier, carried) if role else ():
                roles.setdefault(allocation, role)
    return roles


def _after(op: Operation) -> Iterator[Operation]:
    """What comes after an operation in its block."""
    assert op.parent is not None
    for following in op.parent.ops[op.parent.index_of(op) + 1 :]:
        yield from following.walk()


def _allocations(value: Value, carried: Mapping[Value, Sequence[Value]]) -> Iterator[Operation]:
    """The allocations that a value may be a view of."""
    work, seen = [value], set[Value]()
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        work += carried.get(value, ())
        made = value.defining_op
        if made is not None and made.name in VIEWS:
            work.append(made.operands[0])
        elif made is not None and ttg.LocalAllocOp.matches(made):
            yield made


__all__ = ["allocation_names"]
