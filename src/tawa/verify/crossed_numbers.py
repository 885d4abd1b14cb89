"""Crossed numbers: scalars that one partition puts into a ring and others read out of it.

    put r[i] { splat %ticket }            …  unsplat(local_load(get r[j]))              at the aref level
    local_store splat %ticket, %r[%slot]  …  unsplat(local_load(%r[%slot]))             at the barrier level

A number that comes out of a ring is the one that was put in, if the access with the same count put it in. A run keeps
the number with the slot: in the ring at the aref level (`tawa.verify.run.state`), with the write that is in memory at
the barrier level (`tawa.verify.run.events`). The proof also checks that both sides are in the same iterations
(`tawa.verify.free.proof`).

A number that an atomic returns is unknown, and differs from one execution to the next. So does one that is loaded from
memory that may change (`tawa.dialects.memory.changing_loads`), and one that a mask leaves undefined. Each is told
apart from others by its place in the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tawa.dialects.aref import FilledOp, GetOp, PutOp
from tawa.dialects.control_flow import incoming
from tawa.dialects.declare.declaration import effects_by_name
from tawa.dialects.memory.changing_loads import changing_loads
from tawa.dialects.scalars import width_of
from tawa.dialects.scf import CONTROL
from tawa.dialects.tt import ATOMICS, LoadOp, SplatOp, UnsplatOp
from tawa.dialects.ttg import LocalAllocOp, LocalDeallocOp, LocalLoadOp, LocalStoreOp, MemDescIndexOp
from tawa.ir import Operation, Value, Worklist


@dataclass(frozen=True, slots=True)
class CrossedNumbers:
    """sources: for each value that comes out of a ring, the number that is put into it.

    atomics: each with its place, and loads of memory that may change. undefined: likewise the loads with a mask that
    leaves their number undefined.
    loads: the loads from rings, each with the value that it gives. stores: the puts or stores, each with its number.
    """

    sources: Mapping[Value, Value] = field(default_factory=dict[Value, Value])
    atomics: Mapping[Operation, int] = field(default_factory=dict[Operation, int])
    undefined: Mapping[Operation, int] = field(default_factory=dict[Operation, int])
    loads: Mapping[Operation, Value] = field(default_factory=dict[Operation, Value])
    stores: Mapping[Operation, Value] = field(default_factory=dict[Operation, Value])


NONE_CROSSED = CrossedNumbers()
SEVERAL_ATOMICS = "the run depends on the results of several atomics or loads of changing memory, which may be related"
SAME_MEMORY = "numbers in memory are the same in every partition"


def crossed_numbers(ops: Iterable[Operation]) -> CrossedNumbers:
    """The numbers that cross in a function. ops: all of its operations, at either level.

    A ring with more than one operation that fills it, or filled with anything but one number, is left out.
    """
    every = list(ops)
    atomics = [op for op in every if op.name in ATOMICS and width_of(op.result.type) is not None]
    places = {op: place for place, op in enumerate([*atomics, *changing_loads(every)])}
    partial = [load.op for op in every if (load := LoadOp.of(op)) and load.partial]
    undefined = {op: place for place, op in enumerate(partial)}
    unsplats = [op for op in every if UnsplatOp.matches(op)]
    if not unsplats:
        return CrossedNumbers(atomics=places, undefined=undefined)
    filled: dict[Value, list[Operation]] = {}
    for op in every:
        if (memory := _filled_by(op)) is not None:
            filled.setdefault(memory, []).append(op)
    sources: dict[Value, Value] = {}
    loads: dict[Operation, Value] = {}
    stores: dict[Operation, Value] = {}
    for op in unsplats:
        load = LocalLoadOp.of(op.operands[0].defining_op)
        memory = _root(load.buffer) if load else None
        writers = filled.get(memory, []) if memory is not None else []
        number = _number_of(writers[0]) if len(writers) == 1 else None
        if load is not None and number is not None:
            sources[op.result], loads[load.op], stores[writers[0]] = number, op.result, number
    return CrossedNumbers(sources, places, undefined, loads, stores)


def _filled_by(op: Operation) -> Value | None:
    """The ring, or the buffer, that an operation fills in part."""
    if put := PutOp.of(op):
        return put.ring
    if store := LocalStoreOp.of(op):
        return _root(store.buffer)
    if LocalAllocOp.of(op) and op.operands:
        return op.result
    if op.regions or LocalDeallocOp.matches(op) or not any(it.kind == "write" for it in effects_by_name(op.name)):
        return None
    memories = [_root(it) for it in op.operands if it.type.startswith("!ttg.memdesc")]
    return next((it for it in memories if it is not None), None)


def _number_of(writer: Operation) -> Value | None:
    """The number that a put or a store writes; None if it writes anything else."""
    store = LocalStoreOp.of(writer)
    if store is not None:
        tile = store.source
    else:
        put = PutOp.of(writer)
        values = FilledOp(put.body.terminator).values if put else []
        if len(values) != 1:
            return None
        tile = values[0]
    splat = tile.defining_op
    if splat is None or not SplatOp.matches(splat) or width_of(splat.operands[0].type) is None:
        return None
    return splat.operands[0]


def _root(view: Value) -> Value | None:
    """The ring or the buffer of which a value views one slot; None for any other view.

    A view may be captured by a partition, and carried by loops, which must carry views of one buffer.
    """
    found: set[Value] = set()
    work = Worklist([view])
    for view in work:
        op = view.defining_op
        if op is None or op.name in CONTROL:
            sources = incoming(view)
            if not sources:
                return None
            work += [source.value for source in sources]
        elif get := GetOp.of(op):
            found.add(get.ring)
        elif index := MemDescIndexOp.of(op):
            work += [index.source]
        elif LocalAllocOp.of(op):
            found.add(view)
        else:
            return None
    return found.pop() if len(found) == 1 else None
