"""The shared memory of a specialised kernel, the largest depth that fits, and the message if none does."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from tawa.analysis.names import name_text
from tawa.machine.nvidia import SHARED_BYTES
from tawa.plan.fields import OperandPlan, RingPlan
from tawa.plan.plan import Plan

LIMIT_BYTES = SHARED_BYTES


@dataclass(frozen=True, slots=True)
class SharedUse:
    """Shared memory of one compiled kernel. total_bytes: allocated by Triton. operands: the loads of the rings."""

    total_bytes: int
    rings: tuple[RingPlan, ...]
    operands: tuple[OperandPlan, ...] = ()

    @property
    def ring_bytes(self) -> int:
        """The bytes of the rings' buffers."""
        return sum(ring.total_bytes for ring in self.rings)

    @property
    def other_bytes(self) -> int:
        """Everything else: barriers, staging buffers, scratch. Triton may overlap it with rings; at least 0."""
        return max(0, self.total_bytes - self.ring_bytes)

    def fits(self) -> bool:
        """Whether the kernel fits into the shared memory of one CTA."""
        return self.total_bytes <= LIMIT_BYTES


def shared_use(total_bytes: int, plan: Plan | None) -> SharedUse:
    """The use of a kernel for which Triton allocates `total_bytes`."""
    rings = tuple(it for it in plan.rings if not it.is_exchanged or it.slot_bytes) if plan is not None else ()
    return SharedUse(total_bytes, rings, plan.operands if plan is not None else ())


def largest_depth(use: SharedUse, fixed: Collection[str] = ()) -> int | None:
    """The largest D below the present one with which the kernel fits, or None.

    Only rings that are deeper than the new D change. fixed: names of rings whose depth does not change.
    """
    deepest = max((ring.slots for ring in use.rings if ring.name not in fixed), default=0)
    for depth in range(deepest - 1, 0, -1):
        if use.other_bytes + sum(ring.total_bytes for ring in at_most(use.rings, depth, fixed)) <= LIMIT_BYTES:
            return depth
    return None


def at_most(rings: Iterable[RingPlan], depth: int, fixed: Collection[str] = ()) -> tuple[RingPlan, ...]:
    """The rings with their depth limited to `depth`, except those that are fixed."""
    return tuple(it if it.name in fixed else replace(it, depth=min(it.slots, depth)) for it in rings)


def overflow_text(kernel: str, use: SharedUse) -> str:
    """The message for a kernel that does not fit: each ring, the rest, the limit, the largest D that fits."""
    lines = [f"{kernel}: needs {use.total_bytes} bytes of shared memory; one CTA has {LIMIT_BYTES} (227 KiB)"]
    for ring in use.rings:
        payload = ", ".join(ring.payload)
        carried = [it for it in use.operands if it.ring == ring.name]
        who = "; ".join(name_text(it.key) + (f" ({it.line})" if it.line else "") for it in carried)
        payload += f"; {who}" if who else ""
        lines.append(f"  ring {ring.name} ({payload}): {ring.depth} x {ring.slot_bytes} = {ring.total_bytes} bytes")
    lines.append(f"  everything else: {use.other_bytes} bytes")
    depth = largest_depth(use)
    cure = f"aref_depth={depth} (the largest that fits)" if depth else "smaller blocks: no depth fits"
    return "\n".join([*lines, f"  cure: {cure}"])
