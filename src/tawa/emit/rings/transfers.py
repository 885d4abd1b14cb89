"""mbarriers and TMA loads: as methods of `Ring` where they follow its protocol, otherwise as plain Gluon calls.

wait empty[slot], parity ^ 1
expect full[slot], 32768                   ring.put(slot, parity, (k_desc,), ([n, 0],))
copy k_desc[n, 0] to tiles[slot]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tawa.dialects import ttg, ttng
from tawa.dialects.declare.declaration import by_name
from tawa.emit.body import Body, Writer, statement
from tawa.emit.rings.recognised import Ring, number_of, opposite
from tawa.emit.values.expressions import integers
from tawa.emit.values.pure import PURE
from tawa.ir import Operation, Value


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot of a ring member. text: the index as an expression."""

    ring: Ring
    role: str
    index: int
    text: str
    value: Value | None

    def same(self, other: Slot | None, role: str) -> bool:
        """Whether `other` is the same slot of the same ring, in this role."""
        return other is not None and (other.ring, other.role, other.text) == (self.ring, role, self.text)


def slot_of(body: Body, value: Value) -> Slot | None:
    """The slot that a view selects; None for other values, and in code that is written more than once."""
    found = body.slot_of(value) if not body.twice else None
    return Slot(found[0].ring, found[0].role, found[0].index, *found[1:]) if found is not None else None


def call(body: Body, slot: Slot, method: str, *arguments: str) -> str:
    """The call of a method of a ring."""
    body.file.methods.add(method)
    return f"{body.ring(slot.ring)}.{method}({', '.join(it for it in (slot.text, *arguments) if it)})"


def _pred(body: Body, value: Value | None) -> str:
    text = body.of(value) if value is not None else "True"
    return "" if text == "True" else f"pred={text}"


def _raw(*parts: str) -> str:
    return ", ".join(it for it in parts if it)


# -- waits -------------------------------------------------------------------------------------------------------------


def _wait(body: Body, op: Operation) -> None:
    view = ttng.WaitBarrierOp(op)
    slot, pred = slot_of(body, view.barrier), _pred(body, view.predicate)
    if slot is not None and slot.role == "full":
        _get(body, op, slot, pred)
        return
    parity = opposite(view.parity)
    if slot is not None and slot.role == "empty" and parity is not None:
        if not pred and _transfer(body, op, slot, view):
            return
        _line(body, op, call(body, slot, "acquire", body.of(parity), pred))
        return
    _line(body, op, f"mbarrier.wait({_raw(body.of(view.barrier), body.of(view.parity), pred)})")


def _line(body: Body, op: Operation, text: str) -> None:
    statement(lambda body, op: text)(body, op)


def _get(body: Body, op: Operation, slot: Slot, pred: str) -> None:
    """Writes a wait for a full slot as `get`, which returns the tiles that are read afterwards."""
    text = call(body, slot, "get", body.of(ttng.WaitBarrierOp(op).parity), pred)
    views = [_views(body, op, slot, index) for index in range(len(slot.ring.stems))]
    for it in (op, *(view for found in views for view in found[:1])):
        body.comment(it)
    body.release(op)
    if not any(views):
        body.put(text)
        return
    names: list[str] = []
    for index, found in enumerate(views):
        for view in found:
            body.written.add(view)
            body.release(view)
        if not found:
            names.append("_")
            continue
        names.append(body.take(found[0].result, f"{slot.ring.stems[index]}_tile"))
        for view in found[1:]:
            body.names.give(view.result, names[-1])  # a name of two values stays
    body.put(f"({names[0]},) = {text}" if len(names) == 1 else f"{', '.join(names)} = {text}")


def _views(body: Body, op: Operation, slot: Slot, index: int) -> list[Operation]:
    """The views of tile `index` of this slot that follow an operation."""
    if slot.value is None and not slot.text.isdigit():
        return []
    found: list[Operation] = []
    for view in body.current.ops[body.current.ops.index(op) :]:
        if ttg.MemDescIndexOp.matches(view) and view not in body.written and view.result.uses:
            member = body.members.get(view.operands[0])
            same = view.operands[1] is slot.value or (slot.text == str(number_of(view.operands[1])))
            if member is not None and (member.ring, member.role, member.index) == (slot.ring, "tiles", index) and same:
                found.append(view)
    return found


# -- transfers ---------------------------------------------------------------------------------------------------------


def _expect(body: Body, op: Operation) -> None:
    view = ttng.BarrierExpectOp(op)
    slot, pred = slot_of(body, view.barrier), _pred(body, view.predicate)
    if slot is not None and slot.role == "full" and not pred and _transfer(body, op, slot, None):
        return
    _line(body, op, f"mbarrier.expect({_raw(body.of(view.barrier), str(view.size), pred)})")


def _load(body: Body, op: Operation) -> None:
    view = ttng.AsyncTMACopyGlobalToLocalOp(op)
    where = ", ".join(body.of(it) for it in view.indices)
    parts = (body.of(view.descriptor), f"[{where}]", body.of(view.barrier), body.of(view.buffer))
    _line(body, op, f"tma_load({_raw(*parts, _pred(body, view.predicate))})")


def _transfer(body: Body, op: Operation, slot: Slot, wait: ttng.WaitBarrierOp | None) -> bool:
    """Tries to write the expect and all copies of a slot as one `put` or `fill`, in place of the last copy."""
    following = list(_effects_from(body, op))[: len(slot.ring.stems) + 1 + (wait is not None)]
    expect, copies = following[wait is not None :][:1], following[wait is not None :][1:]
    if not expect or not _expects(body, expect[0], slot) or len(copies) != len(slot.ring.stems):
        return False
    order: list[Operation | None] = [None] * len(copies)
    for copy in copies:
        index = _copies(body, copy, slot)
        if index is None or order[index] is not None:
            return False
        order[index] = copy
    loads = [ttng.AsyncTMACopyGlobalToLocalOp(it) for it in order if it is not None]

    def late() -> None:
        descriptors = _tuple(body.of(it.descriptor) for it in loads)
        places = _tuple(f"[{', '.join(body.of(value) for value in it.indices)}]" for it in loads)
        parity = opposite(wait.parity) if wait is not None else None
        method = ("put", body.of(parity)) if parity is not None else ("fill", "")
        text = call(body, slot, *method, descriptors, places)
        for it in following[:-1]:
            body.release(it)
        _line(body, following[-1], text)

    for it in following:
        body.comment(it)
    body.written.update(following[:-1])
    body.later[following[-1]] = late
    return True


def _effects_from(body: Body, op: Operation) -> Iterator[Operation]:
    """The operations with effects from this one on, in its block."""
    for it in body.current.ops[body.current.ops.index(op) :]:
        if it.name not in PURE:
            yield it


def _expects(body: Body, op: Operation, slot: Slot) -> bool:
    if not ttng.BarrierExpectOp.matches(op):
        return False
    view = ttng.BarrierExpectOp(op)
    return (
        slot.same(_peek(body, view.barrier), "full")
        and view.size == slot.ring.found.slot_bytes
        and _true(view.predicate)
    )  # fmt: skip


def _copies(body: Body, op: Operation, slot: Slot) -> int | None:
    """The index of the tile that a copy fills in this slot; None for any other operation and for a predicated copy."""
    if not ttng.AsyncTMACopyGlobalToLocalOp.matches(op):
        return None
    view = ttng.AsyncTMACopyGlobalToLocalOp(op)
    buffer = _peek(body, view.buffer)
    whole = slot.same(_peek(body, view.barrier), "full") and slot.same(buffer, "tiles") and _true(view.predicate)
    return buffer.index if whole and buffer is not None else None


def _peek(body: Body, value: Value) -> Slot | None:
    """As `slot_of`; None for a view whose index is not written yet."""
    op = value.defining_op
    if op is not None and ttg.MemDescIndexOp.matches(op) and op.operands[1] not in body.names:
        return None
    return slot_of(body, value)


def _true(value: Value | None) -> bool:
    if value is None:
        return True
    op = value.defining_op
    return op is not None and op.properties.get("value") == "true"


def _tuple(texts: Iterator[str] | Sequence[str]) -> str:
    parts = list(texts)
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


# -- arrivals ----------------------------------------------------------------------------------------------------------


def _arrive(body: Body, op: Operation) -> str:
    view = ttng.ArriveBarrierOp(op)
    slot, pred = slot_of(body, view.barrier), _pred(body, view.predicate)
    if slot is not None and view.count == 1:
        return call(body, slot, "consumed" if slot.role == "empty" else "filled", pred)
    return f"mbarrier.arrive({_raw(body.of(view.barrier), f'count={view.count}', pred)})"


WRITERS: dict[str, Writer] = by_name({
    ttng.WaitBarrierOp: _wait,
    ttng.BarrierExpectOp: _expect,
    ttng.AsyncTMACopyGlobalToLocalOp: _load,
    ttng.ArriveBarrierOp: statement(_arrive),
    ttng.InitBarrierOp: statement(
        lambda body, op: f"mbarrier.init({body.of(op.operands[0])}, count={integers(op.properties['count'])[0]})"
    ),
    ttng.InvalBarrierOp: statement(lambda body, op: f"mbarrier.invalidate({body.of(op.operands[0])})"),
})  # fmt: skip
