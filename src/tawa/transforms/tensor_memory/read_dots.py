"""Read dots: what Triton's layout passes make of a dot on Blackwell becomes one operation, as it is on Hopper.

    %d, %t = ttng.tmem_alloc %acc
    %u = ttng.tc_gen5_mma %a, %b, %d[%t], true, true      →      %r = ttng.warp_group_dot %a, %b, %acc
    %r, _ = ttng.tmem_load %d[%u]

So the accumulator is a tile, and rings, paths and forms are decided as for any dot. `accumulate`, behind the rings,
gives it its tensor memory.

Ensures: no operation of tensor memory is left, or the kernel is declined.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.declines import TENSOR_MEMORY
from tawa.dialects.arith import constant_int
from tawa.dialects.tcgen05 import ACCUMULATOR, UNSIGNED, TCGen5Dot, TCGen5MMAOp, TMEMAllocOp, TMEMLoadOp, dot_of
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Builder, Module, Operation, source_of
from tawa.transforms.result import PassResult

_UNLIMITED = "1073741824 : i32"
"""The products that tcgen05 sums in fp32 without a second accumulator."""


@dataclass(frozen=True, slots=True)
class ReadDots:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Rewrites every dot of the module."""
        dots = [dot for op in module.walk() if (dot := dot_of(op))]
        for dot in dots:
            reason = _read(dot)
            if reason:
                return PassResult(True, (TENSOR_MEMORY.remark(source_of(module, dot.op), why=reason),))
        left = next((op for op in module.walk() if "tensor_memory" in "".join(it.type for it in op.results)), None)
        if left is not None:
            reason = "the kernel uses it in a way that is not supported"
            return PassResult(True, (TENSOR_MEMORY.remark(source_of(module, left), why=reason),))
        return PassResult(bool(dots))


def _read(dot: TCGen5Dot) -> str:
    """Rewrites one dot; returns the reason that this is not possible, if any."""
    made = TMEMAllocOp.of(dot.d.defining_op)
    if TCGen5MMAOp.of(dot.op) is None:
        return "scaled dots are not specialised for Blackwell yet"
    if dot.two_ctas:
        return "a dot of two CTAs is not specialised"
    always = constant_int(dot.use_d) and constant_int(dot.predicate)
    if made is None or made.source is None or not always or dot.commits:
        return "the kernel manages its accumulator in tensor memory itself"
    loads = [load for user in made.buffer.users if (load := TMEMLoadOp.of(user))]
    if len(loads) != 1 or len(made.buffer.uses) != 2:
        return "the kernel manages its accumulator in tensor memory itself"
    load = loads[0].op
    tile = load.results[0]
    properties = {"inputPrecision": "0 : i32", "isAsync": "false", "maxNumImpreciseAcc": _UNLIMITED}
    builder = Builder.before(dot.op)
    result = builder.create(
        WarpGroupDotOp.NAME, (dot.a, dot.b, made.source), (tile.type,), properties=properties, hints=(tile.hint,)
    ).result
    assert result.defining_op is not None
    result.defining_op.attributes[ACCUMULATOR] = f'"{made.buffer.type}"'
    if "is_unsigned" in dot.op.properties:
        result.defining_op.attributes[UNSIGNED] = "unit"
    tile.replace_all_uses_with(result)
    _erase(load, dot.op, made.op)
    return ""


def _erase(*ops: Operation) -> None:
    """Erases operations, whose tokens only each other use."""
    for op in ops:
        op.erase()


__all__ = ["ReadDots"]
