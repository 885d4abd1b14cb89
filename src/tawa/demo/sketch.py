"""A readable sketch of the aref level: protocol and heavy operations, without types, constants and index arithmetic.

    %ring0 = aref.create : 3 slots of (128x64xf16, 256x64xf16)
    warp.group producer, 1 warp {
      scf.for 0 to %K {
        aref.put %ring0[%count] {
          tt.descriptor_load %a_desc
          …

It is for reading only; ``tawa compile --emit aref`` prints the whole level.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tawa.dialects.aref import ConsumedOp, CreateOp, GetOp, LandedOp, PutOp
from tawa.dialects.arith import constant_int
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.scf import CONTROL, ForOp
from tawa.dialects.tt import AtomicRMWOp, DescriptorLoadOp, DescriptorStoreOp, FuncOp, StoreOp
from tawa.dialects.ttg import LocalStoreOp
from tawa.dialects.ttng import AsyncTMACopyLocalToGlobalOp, AsyncTMAStoreWaitOp, WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Block, Operation, Value, parse_module
from tawa.plan.fields import tile_text
from tawa.runtime.explain.table import plural

_SHOWN = op_names(
    LocalStoreOp,
    AsyncTMACopyLocalToGlobalOp,
    DescriptorLoadOp,
    DescriptorStoreOp,
    StoreOp,
    AtomicRMWOp,
    WarpGroupDotOp,
)


def sketch(aref: str) -> str:
    """Draws the aref level, given as text, as a few lines of text."""
    function = next(view for op in parse_module(aref).body.ops if (view := FuncOp.of(op)))
    return "\n".join(_block(function.body))


def _block(block: Block) -> list[str]:
    return [line for op in block.ops for line in _lines(op)]


def _lines(op: Operation) -> Iterator[str]:
    if create := CreateOp.of(op):
        payload = ", ".join(map(tile_text, create.type.payload))
        yield f"{_name(op.result)} = aref.create : {plural(create.type.depth, 'slot')} of ({payload})"
    elif group := GroupOp.of(op):
        registers = f", {group.registers} registers" if group.registers else ""
        yield from _nested(f"warp.group {group.partition}, {plural(group.num_warps, 'warp')}{registers}", group.body)
    elif put := PutOp.of(op):
        fresh = " fresh" if put.fresh else ""
        yield from _nested(f"aref.put {_slot(put)}{fresh}", put.body)
    elif get := GetOp.of(op):
        yield f"aref.get {_slot(get)}"
    elif consumed := ConsumedOp.of(op):
        condition = f" if {_name(consumed.condition)}" if consumed.condition else ""
        yield f"aref.consumed {_slot(consumed)}{condition}"
    elif landed := LandedOp.of(op):
        yield f"aref.landed {_slot(landed)}"
    elif WarpGroupDotWaitOp.matches(op) or AsyncTMAStoreWaitOp.matches(op):
        yield f"{op.name} pendings = {op.properties['pendings'].partition(' ')[0]}"
    elif dot := WarpGroupDotOp.of(op):
        yield f"{op.name} {_name(dot.accumulator)}"
    elif op.name in _SHOWN:
        yield f"{op.name} {_name(op.operands[0])}"
    elif op.name in CONTROL:
        branches = [lines for region in op.regions for block in region.blocks if (lines := _block(block))]
        loop = ForOp.of(op)
        bounds = f" {_name(loop.bounds[0])} to {_name(loop.bounds[1])}" if loop else ""
        yield from _control(op.name + bounds, branches)


def _control(name: str, branches: list[list[str]]) -> Iterator[str]:
    """A loop or a condition around the lines in it; nothing if there are none."""
    for index, lines in enumerate(branches):
        yield f"{name} {{" if index == 0 else "} or {"
        yield from (f"  {line}" for line in lines)
    if branches:
        yield "}"


def _nested(head: str, body: Block) -> Iterator[str]:
    yield f"{head} {{"
    yield from (f"  {line}" for line in _block(body))
    yield "}"


def _slot(view: PutOp | GetOp | ConsumedOp | LandedOp) -> str:
    return f"{_name(view.ring)}[{_name(view.index)}]"


def _name(value: Value) -> str:
    """The value's name without its number, or its constant value; the result of a loop has its name inside the loop."""
    number = constant_int(value)
    if number is not None:
        return str(number)
    if isinstance(value.owner, Operation) and (loop := ForOp.of(value.owner)):
        value = loop.iter_args[value.index]
    return "%" + (re.sub(r"_\d+$", "", value.hint) or "value")
