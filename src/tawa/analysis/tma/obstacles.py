"""Obstacles: the operation for which an address is not affine, and what to write instead.

base + ((k + ks) // 8)[:, None] * stride        the division: k is not known to be a multiple of 8
base + table[rows][:, None] * stride            the load of the index
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects import arith
from tawa.dialects.control_flow import incoming
from tawa.dialects.declare.declaration import by_name, op_names
from tawa.dialects.tt import LoadOp
from tawa.ir import Block, Operation, Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.words import word_of


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What is wrong, and the cure. op: the operation; None if it is unknown."""

    reason: str
    cure: str
    op: Operation | None = None


_FORM = "compute it as base + rows[:, None] * stride + columns[None, :], with rows and columns in steps of one"
_UNKNOWN = Obstacle(
    "its address is not affine: not the sum of a pointer and, for each dimension, a stride times the place", _FORM
)
_WRAPPED = ("a sum that does not count in steps of one wraps around", "mask the access in place of %")
_WORDS = by_name(
    {
        **dict.fromkeys((arith.RemSIOp, arith.RemUIOp), _WRAPPED),
        LoadOp: ("its indices are loaded from memory, and TMA gathers no rows", ""),
        arith.MulIOp: ("two indices are multiplied that both depend on the place", _FORM),
    }
)


_DIVISIONS = op_names(arith.DivSIOp, arith.DivUIOp, arith.ShRSIOp, arith.ShRUIOp)


def find_obstacle(affine: Affine, address: Value) -> Obstacle:
    """Why an address is not affine."""
    op = _first(affine, address, set())
    if op is None:
        return _UNKNOWN
    if op.name in _DIVISIONS:
        reason, cure = _divided(affine, op)
    else:
        reason, cure = _WORDS.get(op.name, (f"{word_of(op)} is no sum of multiples of the place", _FORM))
    return Obstacle(f"its address is not affine: {reason}", cure, op)


def _divided(affine: Affine, op: Operation) -> tuple[str, str]:
    divisor = affine.uniform(op.operands[1])
    if divisor is None or divisor.number is None:
        return "an index is divided by a number that is no constant", "divide by a tl.constexpr, or on the host"
    number = divisor.number if "div" in op.name else 1 << divisor.number
    reason = f"an index is divided by {number}, and it is not known to begin at a multiple of {number}"
    return reason, f"divide the parts: k // {number} + ks // {number} in place of (k + ks) // {number}"


def _first(affine: Affine, value: Value, seen: set[Value]) -> Operation | None:
    """The first operation on the way to a value whose own operands have a meaning, and whose result has none."""
    if value in seen or affine.meaning(value) is not None:
        return None
    seen.add(value)
    owner = value.owner
    carried = [use.value for use in incoming(value)]
    sources = carried or ([] if isinstance(owner, Block) else owner.operands)
    before = next((op for it in sources if (op := _first(affine, it, seen)) is not None), None)
    if before is not None or carried or isinstance(owner, Block):
        return before
    known = all(affine.meaning(it) is not None for it in sources) or LoadOp.matches(owner)
    return owner if known else None
