"""Stand-ins for the lists for TTGIR: the bridge's tests are about what it does with an outcome, not about passes.

Each is given the kernel with layouts, the options of the request and the Plan as far as it is decided.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tawa.flow import Outcome
from tawa.machine.nvidia import SHARED_BYTES
from tawa.plan import LoopPlan, PartitionPlan, Plan, PlanOptions, RingPlan
from tawa.remarks import Remark, SourceLocation

Specialise = Callable[..., Outcome]


def plan_of(depth: int, slot_bytes: int = 16384, mma_depth: int = 0) -> Plan:
    """A Plan with one ring."""
    partitions = (PartitionPlan("producer", "producer", 1, 24), PartitionPlan("consumer", "consumer", 4, 240))
    rings = (RingPlan("r0", ("64x64xf16",), depth, min(slot_bytes, SHARED_BYTES)),)  # no Plan has larger slots
    return Plan(partitions=partitions, rings=rings, loops=(LoopPlan(0, mma_depth),))


def untouched(ttgir: str, options: PlanOptions, plan: Plan) -> Outcome:
    """Applied, and the module comes back as it was: no software pipelining, so its PTX is not that of stock Triton."""
    made = plan.over(plan_of(options.aref_depth or 2))
    remark = Remark("applied", "specialised by a fake", SourceLocation("kernel.py", 7))
    return Outcome(True, made, (remark,), f"// aref D={made.rings[0].depth}\n", ttgir, {"partition": 0.5})


def declines(ttgir: str, options: PlanOptions, plan: Plan) -> Outcome:
    """Says no."""
    return Outcome(False, None, (Remark("declined", "a store in the way", SourceLocation("kernel.py", 9), "move it"),))


def broken(ttgir: str, options: PlanOptions, plan: Plan) -> Outcome:
    """A fault of Tawa's own."""
    raise AssertionError("slot 3 of 2")


def bad_text(ttgir: str, options: PlanOptions, plan: Plan) -> Outcome:
    """Text that Triton's parser refuses."""
    return Outcome(True, plan_of(2), (), "// aref\n", ttgir.replace('"tt.return"', '"tt.retrun"'))


def bad_lowering(ttgir: str, options: PlanOptions, plan: Plan) -> Outcome:
    """A module that parses, and that only ptxas refuses, at the very end."""
    ops = (
        '%tawa_one = "arith.constant"() <{value = 1 : i32}> : () -> i32',
        '%tawa_bad = "tt.elementwise_inline_asm"(%tawa_one) <{asm_string = "nonsense $0, $1;", constraints = "=r,r", '
        "packed_element = 1 : i32, pure = false}> : (i32) -> i32",
    )
    return Outcome(True, plan_of(2), (), "// aref\n", _before_return(ttgir, ops))


def _before_return(ttgir: str, ops: tuple[str, ...]) -> str:
    lines = "".join(rf"\1{op}" for op in ops)
    text, count = re.subn(r'(\n\s*)"tt.return"', rf'{lines}\1"tt.return"', ttgir)
    assert count == 1
    return text


def uses_shared(slot_bytes: int, natural_depth: int) -> Specialise:
    """A pipeline that allocates D times `slot_bytes` of shared memory for a buffer that nothing reads."""

    def specialise(ttgir: str, options: PlanOptions, plan: Plan) -> Outcome:
        depth = options.aref_depth or natural_depth
        made = plan.over(plan_of(depth, slot_bytes))
        buffer = (
            f"!ttg.memdesc<{made.rings[0].depth}x{slot_bytes}xi8, #ttg.swizzled_shared<{{vec = 1, perPhase = 1, "
            "maxPhase = 1, order = [0]}>, #ttg.shared_memory, mutable>"
        )
        ops = (
            f'%tawa_big = "ttg.local_alloc"() : () -> {buffer}',
            f'"ttg.local_dealloc"(%tawa_big) : ({buffer}) -> ()',
        )
        text = _before_return(ttgir, ops)
        remark = Remark("applied", "specialised by a fake")
        return Outcome(True, made, (remark,), f"// aref D={made.rings[0].depth}\n", text)

    return specialise
