"""Accesses that other threads of a program may execute, because no access to the same memory is left unordered with it.

    for j: store(p + j, x)             may move to other threads: all of them meet at the barrier
    barrier;  store(p + k, y)

    for j: x = load(p);  store(p, y)   may not: it is the same thread that reads what it has written

Threads of a program see the writes of each other only after a barrier. Without one, a program relies on elements that
are stored and loaded in one layout, hence by one thread.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.memory.provenance import Root, memory_roots
from tawa.dialects.declare.declaration import address_of
from tawa.dialects.effects import effects_of
from tawa.dialects.scf import enclosing_loops
from tawa.ir import Module, Operation


@dataclass(frozen=True, slots=True)
class AccessInfo:
    """The accesses to global memory: whether it writes, and its roots, None if they are unknown. barriers: of all."""

    accesses: dict[Operation, tuple[bool, list[Root] | None]]
    barriers: tuple[Operation, ...]

    @staticmethod
    def of(module: Module) -> AccessInfo:
        """The accesses of a module."""
        accesses: dict[Operation, tuple[bool, list[Root] | None]] = {}
        barriers: list[Operation] = []
        for op in module.walk():
            for effect in effects_of(op) if not op.regions else ():
                if effect.kind == "barrier":
                    barriers.append(op)
                elif effect.kind == "any" or (effect.space == "global" and effect.kind in ("read", "write")):
                    address = address_of(op, effect)
                    writes = effect.kind != "read" or (op in accesses and accesses[op][0])
                    accesses[op] = writes, memory_roots(address) if address is not None else None
        return AccessInfo(accesses, tuple(barriers))

    def may_move(self, op: Operation, loop: Operation) -> bool:
        """Whether other threads may execute an access in a loop."""
        writes, roots = self.accesses[op]
        for other, (others, own) in self.accesses.items():
            if other is op or not (writes or others):
                continue
            if roots and own and not any(it in own for it in roots):
                continue
            if not self._is_ordered(other, loop):
                return False
        return True

    def _is_ordered(self, other: Operation, loop: Operation) -> bool:
        """Whether a barrier is between a loop and an access outside of it."""
        block = loop.parent
        beside = other.within(block) if block is not None else None
        if block is None or beside is None or beside is loop or enclosing_loops(loop):
            return False
        places = [block.ops.index(it) for it in (loop, beside)]
        return any(it.parent is block and min(places) < block.ops.index(it) < max(places) for it in self.barriers)
