"""Effects of one operation, nested operations included."""

from __future__ import annotations

import re

from tawa.dialects import declared_ops
from tawa.dialects.builtin import AssumeOp
from tawa.dialects.declare.declaration import ANY_EFFECT, Effect, OpView, op_class
from tawa.dialects.inline.code import INLINE
from tawa.dialects.inline.effects import ties_of
from tawa.dialects.tt import ATOMICS, LoadOp
from tawa.ir import Operation

# Operations whose effects do not depend on their attributes or on nested operations.
_FIXED = {
    it.NAME: it.EFFECTS
    for it in declared_ops()
    if it.effects is OpView.effects and not it.RECURSIVE and it.NAME not in INLINE
}
_PLACE = re.compile(r"%(n?ctaid|n?clusterid|cluster_)")
_UNORDERED = frozenset({"read", "write", "hint", "grids"})
_REPEATABLE = frozenset({"hint", "grids"})
_SEEN = frozenset({"write", "order", "barrier", "any"})


def effects_of(op: Operation) -> tuple[Effect, ...]:
    """All effects of `op`. An operation that no dialect declares may have any effect."""
    fixed = _FIXED.get(op.name)
    if fixed is not None:
        return fixed
    if op.name in INLINE:
        return tuple(Effect(kind) for kind in sorted(ties_of(op)))
    declared = op_class(op.name)
    own = declared(op).effects() if declared else ANY_EFFECT
    if not op.regions or (declared is not None and not declared.RECURSIVE):
        return own
    nested = [
        effect
        for region in op.regions
        for block in region.blocks
        for inner in block.ops
        for effect in effects_of(inner)
    ]
    return (*own, *nested)


def is_pure(op: Operation) -> bool:
    """Whether `op` has no effects, so that it can be copied, moved or erased."""
    return not effects_of(op)


def is_plain_load(op: Operation) -> bool:
    """Whether `op` is a load through pointers that may be repeated: it is not volatile."""
    load = LoadOp.of(op)
    return load is not None and not load.volatile


def gives_order(op: Operation) -> bool:
    """Whether `op` may order memory accesses for other threads: atomics, barriers, unknown effects."""
    if op.name in ATOMICS:
        return True
    return not AssumeOp.matches(op) and not op.regions and any(it.kind not in _UNORDERED for it in effects_of(op))


def is_bound_to_its_program(op: Operation) -> bool:
    """Whether `op` may order programs, or is inline assembly that reads which program it is in."""
    return gives_order(op) or _PLACE.search(op.properties.get("asm_string", "")) is not None


def orders_programs(op: Operation) -> bool:
    """Whether `op` may order programs, or reads which program it is in. A barrier orders the threads of one program."""
    kinds = {effect.kind for effect in effects_of(op)}
    return is_bound_to_its_program(op) and not (kinds == {"barrier"} and "asm_string" not in op.properties)


def has_side_effect(op: Operation) -> bool:
    """Whether `op` must not be erased: it happens once, or is an advice or a wait."""
    return any(effect.kind in _SEEN | _REPEATABLE for effect in effects_of(op))


def happens_once(op: Operation) -> bool:
    """Whether `op` must not be repeated: it writes memory other than a new buffer, or its order is observable."""
    return any(effect.kind in _SEEN for effect in effects_of(op))


def waits_for_grids(op: Operation) -> bool:
    """Whether `op` waits for grids that were launched earlier, and does nothing else."""
    return not op.regions and {effect.kind for effect in effects_of(op)} == {"grids"}
