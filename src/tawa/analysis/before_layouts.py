"""Refusals that are certain on TTIR, before Triton assigns layouts, which takes up to a third of a compile.

What is certain here would be refused later with the same reason, except dots that no tensor core computes: such a
kernel is refused whatever was asked, since ptxas would take minutes for its consumers.
"""

from __future__ import annotations

from collections.abc import Iterator

from tawa.analysis.legality import check_module, declined
from tawa.analysis.rings.loads import find_dots
from tawa.analysis.work.units import best_unit
from tawa.declines import NO_DOT, NO_LOAD, NO_TENSOR_CORE, NOT_IN_A_LOOP
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import DescriptorLoadOp, DotOp, LoadOp
from tawa.ir import Module, Operation, TensorType, is_scalar, parse_type
from tawa.machine.nvidia import WARP_GROUP
from tawa.remarks import Remark


def check_before_layouts(module: Module, persistent: bool) -> Iterator[Remark]:
    """Refusals of a kernel as TTIR with structured control flow.

    persistent: whether a loop over tiles will be put around it.
    """
    dots = find_dots(module)
    if not dots:
        yield declined(module, None, NO_DOT)
    yield from check_module(module, WARP_GROUP)  # the number of warps is checked when it is known for each group
    if dots and not persistent:
        if not any(enclosing_loops(dot) for dot in dots):
            yield declined(module, dots[0], NOT_IN_A_LOOP)
        elif not any(_loads_a_tile(op) and enclosing_loops(op) for op in module.walk()):
            looped = next(dot for dot in dots if enclosing_loops(dot))
            yield declined(module, looped, NO_LOAD)
    units = [best_unit(dot) for dot in dots]
    if units and set(units) == {"cuda cores"}:
        yield declined(module, dots[0], NO_TENSOR_CORE, operands=_operands(dots[0]))


def _operands(dot: Operation) -> str:
    a = parse_type(DotOp(dot).a.type)
    return f"{a.element} of full precision (ieee)" if isinstance(a, TensorType) else "of full precision"


def _loads_a_tile(op: Operation) -> bool:
    return DescriptorLoadOp.matches(op) or (LoadOp.matches(op) and not is_scalar(op.result.type))
