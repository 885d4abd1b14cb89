"""The structural rules of all dialects, for `tawa.ir.verify_structure`: types across regions, terminators."""

from __future__ import annotations

from functools import cache

from tawa.dialects.aref import RingType
from tawa.dialects.registry import all_specs
from tawa.ir import Operation, StructureRules, Value


@cache
def structure_rules() -> StructureRules:
    """Terminators, isolated operations and per-operation checks of every declared dialect."""
    return StructureRules(
        terminators=frozenset(spec.name for spec in all_specs() if spec.terminator),
        isolated=frozenset(spec.name for spec in all_specs() if spec.isolated),
        checks=(
            ("scf.for", _check_for),
            ("scf.if", _check_if),
            ("scf.while", _check_while),
            ("aref.put", _check_put),
            ("aref.get", _check_get),
            ("aref.consumed", _check_consumed),
            ("aref.landed", _check_landed),
            ("ttg.warp_specialize", _check_warp_specialize),
            ("warp.group", _check_group),
        ),
    )


def _types(values: list[Value]) -> list[str]:
    return [value.type for value in values]


def _check_for(op: Operation) -> str | None:
    body = op.regions[0].block
    carried = _types(op.operands[3:])
    if len(op.operands) < 3:
        return "a loop needs lower bound, upper bound and step"
    if len(body.args) != len(carried) + 1:
        return f"{len(carried)} initial values for {len(body.args) - 1} carried arguments"
    for what, types in (
        ("arguments", _types(body.args[1:])),
        ("results", _types(op.results)),
        ("yielded values", _types(body.terminator.operands)),
    ):
        if types != carried:
            return f"initial values {carried} but {what} {types}"
    return None


def _check_if(op: Operation) -> str | None:
    if op.operands[0].type != "i1":
        return f"the condition is {op.operands[0].type}, not i1"
    results = _types(op.results)
    for region in op.regions:
        if region.blocks and region.blocks[0].ops:
            yielded = _types(region.block.terminator.operands)
            if yielded != results:
                return f"results {results} but a branch yields {yielded}"
        elif results:
            return "it has results but a branch yields none"
    return None


def _check_while(op: Operation) -> str | None:
    before, after = op.regions[0].block, op.regions[1].block
    inits = _types(op.operands)
    if _types(before.args) != inits or _types(after.terminator.operands) != inits:
        return "initial values, arguments and yielded values differ in type"
    handed = _types(before.terminator.operands[1:])
    if handed != _types(after.args) or handed != _types(op.results):
        return "the condition hands on other types than the body takes or the loop returns"
    return None


def _check_put(op: Operation) -> str | None:
    ring = RingType.parse(op.operands[0].type)
    if op.operands[1].type != ring.index_type:
        return f"index {op.operands[1].type} into a ring of depth {ring.depth}"
    filled = op.regions[0].block.terminator
    if filled.name != "aref.filled" or len(filled.operands) != len(ring.payload):
        return f"the ring takes {len(ring.payload)} tiles"
    return None


def _check_get(op: Operation) -> str | None:
    ring = RingType.parse(op.operands[0].type)
    if op.operands[1].type != ring.index_type:
        return f"index {op.operands[1].type} into a ring of depth {ring.depth}"
    if len(op.results) != len(ring.payload):
        return f"{len(op.results)} views of {len(ring.payload)} buffers"
    if tuple(_types(op.results)) != ring.payload:
        return f"views {_types(op.results)} of buffers {list(ring.payload)}"
    return None


def _check_consumed(op: Operation) -> str | None:
    ring = RingType.parse(op.operands[0].type)
    if op.operands[1].type != ring.index_type:
        return f"index {op.operands[1].type} into a ring of depth {ring.depth}"
    if len(op.operands) > 2 and op.operands[2].type != "i1":
        return f"the condition is {op.operands[2].type}, not i1"
    return None


def _check_landed(op: Operation) -> str | None:
    ring = RingType.parse(op.operands[0].type)
    if op.operands[1].type != ring.index_type:
        return f"index {op.operands[1].type} into a ring of depth {ring.depth}"
    return None if ring.payload else "nothing is copied into a token"


def _check_group(op: Operation) -> str | None:
    handed = _types(op.regions[0].block.terminator.operands)
    return None if handed == _types(op.results) else f"results {_types(op.results)} but it ends with {handed}"


def _check_warp_specialize(op: Operation) -> str | None:
    holder = op.regions[1].block.ops[0]
    captures = _types(op.operands or holder.operands)
    for region in holder.regions:
        if _types(region.block.args) != captures:
            return f"captures {captures} but a partition takes {_types(region.block.args)}"
    return None
