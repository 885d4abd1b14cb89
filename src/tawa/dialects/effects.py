"""Effects of one operation, nested operations included."""

from __future__ import annotations

from tawa.dialects import Effect, spec_of
from tawa.dialects.arith import ASSUME
from tawa.dialects.tt import ATOMICS, INLINE
from tawa.ir import Operation
from tawa.ir.attributes import read_bool, read_int

_ANEW = 7  # .cv: what others wrote meanwhile is seen
_UNORDERED = frozenset({"read", "write"})


def effects_of(op: Operation) -> tuple[Effect, ...]:
    """Everything `op` may do to the world. An operation no dialect declares may do anything."""
    if op.name in INLINE:
        return () if read_bool(op.properties.get("pure", "false")) else (Effect("any"),)
    if op.name == "tt.load" and _is_volatile(op):
        return (Effect("read", "global", 0), Effect("order"))
    spec = spec_of(op.name)
    if not spec.recursive:
        return spec.effects
    nested = [
        effect
        for region in op.regions
        for block in region.blocks
        for inner in block.ops
        for effect in effects_of(inner)
    ]
    return (*spec.effects, *nested)


def _is_volatile(load: Operation) -> bool:
    return read_bool(load.properties.get("isVolatile", "false")) or read_int(load.properties.get("cache", "1")) == _ANEW


def is_pure(op: Operation) -> bool:
    """Whether copying, moving or dropping `op` cannot be seen."""
    return not effects_of(op)


def is_plain_load(op: Operation) -> bool:
    """Whether `op` is a load through pointers that may be repeated: it is not volatile."""
    return op.name == "tt.load" and all(effect.kind == "read" for effect in effects_of(op))


def gives_order(op: Operation) -> bool:
    """Whether others may rely on what `op` does before or behind something else: atomics, barriers, unknown effects."""
    if op.name in ATOMICS:
        return True
    return op.name != ASSUME and not op.regions and any(it.kind not in _UNORDERED for it in effects_of(op))


def has_side_effect(op: Operation) -> bool:
    """Whether `op` itself must happen: it writes memory other than a new buffer, or its order can be seen."""
    return any(effect.kind in ("write", "order", "barrier", "any") for effect in effects_of(op))
