"""Buffers in shared and in tensor memory: allocations, rings of them, and what threads load and store."""

from __future__ import annotations

from tawa.dialects import tcgen05, ttg
from tawa.dialects.declare.declaration import by_name
from tawa.emit.body import INDENT, Body, Writer, statement, type_of
from tawa.emit.errors import cannot_say
from tawa.emit.rings.recognised import Ring
from tawa.emit.rings.ring_class import TENSOR_MEMORY
from tawa.emit.values.expressions import type_source
from tawa.ir import MemDescType, Operation
from tawa.ir.locations import source_of
from tawa.ir.types import memdesc_type


def _alloc(body: Body, op: Operation) -> None:
    if (ring := body.allocations.get(op)) is not None:
        if op is ring.last:
            _ring(body, ring)
        return
    if len(op.results) > 1:
        raise cannot_say("a token of tensor memory", source_of(body.file.module, op))
    type = memdesc_type(op.result.type)
    barrier = type.element == "i64" and type.shape[-1:] == (1,)
    layout = "mbarrier.MBarrierLayout()" if barrier else body.layout(type)
    value = f", {body.of(op.operands[0])}" if op.operands else ""
    wish = body.wishes.get(op.result) or op.result.hint or ("barriers" if barrier else "tiles")
    body.results(op, _allocated(type, layout, value), [wish])


def _allocated(type: MemDescType, layout: str, value: str = "") -> str:
    """The call that allocates a buffer. value: its initial contents, as a further argument."""
    call = "allocate_tensor_memory" if type.in_tensor_memory else "gl.allocate_shared_memory"
    return f"{call}({type_source(type.element)}, {list(type.shape)}, {layout}{value})"


def _ring(body: Body, ring: Ring) -> None:
    """Makes a ring."""
    body.file.methods.add("mbarriers")
    if any(memdesc_type(it.result.type).in_tensor_memory for it in ring.found.tiles):
        body.file.methods.add(TENSOR_MEMORY)
    tiles = [_allocated(type, body.layout(type)) for type in (memdesc_type(it.result.type) for it in ring.found.tiles)]
    body.put(f"{body.ring(ring)} = Ring(")
    body.depth += 1
    if len(tiles) == 1:
        body.put(f"({tiles[0]},),")
    else:
        body.put("(")
        for tile in tiles:
            body.put(f"{INDENT}{tile},")
        body.put("),")
    for it in ring.found.ends.values():
        body.put(f"mbarriers({it.slots}, {it.arrivals}),")
    body.depth -= 1
    body.put(")")


def _load(body: Body, op: Operation) -> None:
    if len(op.operands) > 1 or len(op.results) > 1:
        raise cannot_say(f"a token or a reduction of {op.name}", source_of(body.file.module, op))
    body.results(op, f"{body.of(op.operands[0], atomic=True)}.load({body.layout(type_of(op.result))})")


def _store_tensor(body: Body, op: Operation) -> str:
    view = tcgen05.TMEMStoreOp(op)
    if len(op.operands) > 3:
        raise cannot_say("a token of tensor memory", source_of(body.file.module, op))
    predicate = body.of(view.predicate)
    more = "" if predicate == "True" else f", pred={predicate}"
    return f"{body.of(view.buffer, atomic=True)}.store({body.of(view.source)}{more})"


WRITERS: dict[str, Writer] = by_name(
    {
        ttg.LocalAllocOp: _alloc,
        tcgen05.TMEMAllocOp: _alloc,
        ttg.LocalDeallocOp: statement(lambda body, op: f"{body.of(op.operands[0])}._keep_alive()"),
        ttg.LocalLoadOp: _load,
        tcgen05.TMEMLoadOp: _load,
        ttg.LocalStoreOp: statement(
            lambda body, op: f"{body.of(op.operands[1], atomic=True)}.store({body.of(op.operands[0])})"
        ),
        tcgen05.TMEMStoreOp: statement(_store_tensor),
    }
)
