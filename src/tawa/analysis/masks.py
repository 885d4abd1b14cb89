"""Masks as conjunctions of bounds: ``(rows < M) & (ks >= 0) & (k < K)``.

upper     room - r_d > 0          rows[:, None] < M with rows = 128·pid + r0   →   room = M - 128·pid
lower     room + r_d > 0          the same the other way round
uniform   room > 0                a condition without a place in the tile
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from tawa.analysis.forms import Form, Guard, moved_dims
from tawa.analysis.polynomials import ONE, Poly, constant
from tawa.ir import Operation, Value
from tawa.ir.attributes import read_int

Forms = Callable[[Value], Form | None]
Kind = Literal["upper", "lower", "uniform"]
_LESS, _LESS_EQUAL, _GREATER, _GREATER_EQUAL = 2, 3, 4, 5  # arith.cmpi, signed


@dataclass(frozen=True, slots=True)
class Bound:
    """One comparison. dim: of the tile (0 for uniform). guards: where the numbers compared are what they seem."""

    kind: Kind
    room: Poly
    dim: int = 0
    guards: tuple[Guard, ...] = ()


def conjuncts(forms: Forms, mask: Value) -> tuple[Bound, ...] | None:
    """The bounds that hold together exactly where `mask` is true; None where it is no such conjunction."""
    op = mask.defining_op
    if op is None:
        return None
    match op.name:
        case "arith.andi":
            parts = [conjuncts(forms, operand) for operand in op.operands]
            if any(part is None for part in parts):
                return None
            return tuple(dict.fromkeys(bound for part in parts for bound in part or ()))
        case "arith.constant":
            return () if op.properties["value"].startswith(("true", "dense<true>")) else None
        case "arith.cmpi":
            return _comparison(forms, op)
        case "tt.splat":
            return conjuncts(forms, op.operands[0])
        case "tt.expand_dims" | "tt.broadcast" | "tt.trans" | "tt.reshape":
            return _moved(forms, op)
        case _:
            return None


def _moved(forms: Forms, op: Operation) -> tuple[Bound, ...] | None:
    places, inner = moved_dims(op), conjuncts(forms, op.operands[0])
    if places is None or inner is None:
        return None
    return tuple(
        replace(
            bound,
            dim=places[bound.dim] if bound.kind != "uniform" else 0,
            guards=tuple(replace(guard, dim=places[guard.dim]) for guard in bound.guards),
        )
        for bound in inner
    )


def _comparison(forms: Forms, op: Operation) -> tuple[Bound, ...] | None:
    """``left < right`` as ``right - left > 0``."""
    left, right = (forms(operand) for operand in op.operands)
    predicate = read_int(op.properties["predicate"])
    if left is None or right is None or left.base is not None or right.base is not None:
        return None
    if predicate in (_GREATER, _GREATER_EQUAL):
        left, right = right, left
    elif predicate not in (_LESS, _LESS_EQUAL):
        return None
    gap = right.plus(left.times(constant(-1)))
    if gap is None or gap.runs:
        return None
    room = gap.offset + ONE if predicate in (_LESS_EQUAL, _GREATER_EQUAL) else gap.offset
    if not gap.lanes:
        return (Bound("uniform", room, 0, gap.guards),) if not gap.guards else None
    if len(gap.lanes) != 1:
        return None
    ((dim, lane),) = gap.lanes.items()
    kinds: dict[int | None, Kind] = {-1: "upper", 1: "lower"}
    kind = kinds.get(lane.number)
    return (Bound(kind, room, dim, gap.guards),) if kind else None


__all__ = ["Bound", "conjuncts"]
