"""Loads whose number may change while the kernel runs: each execution may give another one, like that of an atomic.

    %n = tt.load %p {isVolatile = true}                       the program says so
    %n = tt.load %p;  …  tt.store (addptr %p, %i), %x         the kernel writes through the same argument

Different arguments do not alias, and neither do the objects behind addresses in their memory.
"""

from __future__ import annotations

from collections.abc import Iterable

from tawa.dialects.control_flow import incoming
from tawa.dialects.declare.declaration import address_of, effects_by_name
from tawa.dialects.tt import FuncOp, LoadOp
from tawa.ir import Block, Operation, Value

_ADDRESSES = ("!tt.ptr", "!tt.tensordesc")

Root = tuple[Value, bool]
"""An argument, or a value of unknown origin; and whether an address is loaded from its memory."""


def changing_loads(ops: Iterable[Operation]) -> list[Operation]:
    """Those of the operations of a function, in their order."""
    every = list(ops)
    loads = [load for op in every if (load := LoadOp.of(op))]
    if not loads:
        return []
    written: set[Root] = set()
    for op in every:
        for effect in effects_by_name(op.name) if not op.regions else ():
            if effect.kind == "write" and effect.space == "global" and (address := address_of(op, effect)) is not None:
                written |= roots_of(address)
    return [load.op for load in loads if load.volatile or (written and written & roots_of(load.pointers))]


def roots_of(address: Value) -> set[Root]:
    """What an address, a tile of addresses or a descriptor is derived from."""
    roots: set[Root] = set()
    seen: set[Root] = set()
    work: list[Root] = [(address, False)]
    while work:
        value, behind = work.pop()
        if (value, behind) in seen:
            continue
        seen.add((value, behind))
        op = value.defining_op
        if load := LoadOp.of(op):
            sources, behind = [load.pointers], True
        elif not (sources := [use.value for use in incoming(value)]) and op is not None:
            sources = [it for it in op.operands if any(kind in it.type for kind in _ADDRESSES)] or list(op.operands)
        elif not sources and (base := _described(value)) is not None:
            sources = [base]
        work += [(source, behind) for source in sources]
        if not sources:
            roots.add((value, behind))
    return roots


def _described(argument: Value) -> Value | None:
    """The argument whose memory a descriptor describes that the compiler has added."""
    function = FuncOp.of(argument.owner.parent_op) if isinstance(argument.owner, Block) else None
    return function.memory_of(argument) if function is not None else None
