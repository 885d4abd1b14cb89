"""Refusals that are certain on TTIR, before Triton assigns layouts, which takes up to a third of a compile.

What is certain here would be refused later with the same reason, except dots that no tensor core computes: such a
kernel is refused whatever was asked, since ptxas would take minutes for its consumers.

Source of the conditions: Triton, `supportMMA` in lib/Analysis/Utility.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tawa.analysis.legality import check_module, declined
from tawa.analysis.resources import NO_WGMMA
from tawa.analysis.rings.loads import find_dots
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import DescriptorLoadOp, DotOp, LoadOp
from tawa.ir import Module, Operation, TensorType, is_scalar, parse_type
from tawa.ir.attributes import read_int
from tawa.machine.hopper import WARP_GROUP, WGMMA_ROWS
from tawa.remarks import Remark

Unit = Literal["wgmma", "mma", "cuda cores"]

NO_TENSOR_CORE = "no tensor core computes this dot: its operands are {}"
_IEEE = 2
_WGMMA_K_BITS, _WGMMA_COLUMNS = 256, 8


def check_before_layouts(module: Module, persistent: bool, wherever_legal: bool) -> Iterator[Remark]:
    """Refusals of a kernel as TTIR with structured control flow.

    persistent: whether a loop over tiles will be put around it. wherever_legal: whether it is specialised even if that
    is not expected to pay.
    """
    yield from check_module(module, WARP_GROUP)  # the number of warps is checked when it is known for each group
    dots = find_dots(module)
    if dots and not persistent:
        if not any(enclosing_loops(dot) for dot in dots):
            yield declined(module, dots[0], "the dot is not in a loop: there is no next tile to load meanwhile")
        elif not any(_loads_a_tile(op) and enclosing_loops(op) for op in module.walk()):
            looped = next(dot for dot in dots if enclosing_loops(dot))
            yield declined(module, looped, "no operand of a dot is loaded inside a loop")
    units = [best_unit(dot) for dot in dots]
    if units and set(units) == {"cuda cores"}:
        cure = 'input_precision="tf32" or "tf32x3", or operands of 16 bits'
        yield declined(module, dots[0], NO_TENSOR_CORE.format(_operands(dots[0])), cure)
    if units and "wgmma" not in units and not wherever_legal:
        cure = "enable_warp_specialization=True or only_if_faster=False specialises anyway"
        yield declined(module, dots[0], f"not expected to pay: {NO_WGMMA}", cure)


def best_unit(dot: Operation) -> Unit:
    """The best unit that a dot may run on: of a ``tt.dot``, as far as types, precision and shape tell."""
    view = DotOp.of(dot)
    if view is None:
        return "wgmma"
    a, result = parse_type(view.a.type), parse_type(dot.result.type)
    if not isinstance(a, TensorType) or not isinstance(result, TensorType):
        return "wgmma"
    if a.element == "f64":
        return "mma"
    if a.element == "f32" and read_int(dot.properties.get("inputPrecision", "0 : i32")) == _IEEE:
        return "cuda cores"
    bits = a.bytes * 8 // _count(a)
    fits = (
        result.shape[-2] % WGMMA_ROWS == 0
        and result.shape[-1] % _WGMMA_COLUMNS == 0
        and a.shape[-1] * bits >= _WGMMA_K_BITS
    )
    return "wgmma" if fits else "mma"


def _count(tile: TensorType) -> int:
    count = 1
    for size in tile.shape:
        count *= size
    return count


def _operands(dot: Operation) -> str:
    a = parse_type(DotOp(dot).a.type)
    return f"{a.element} of full precision (ieee)" if isinstance(a, TensorType) else "of full precision"


def _loads_a_tile(op: Operation) -> bool:
    return DescriptorLoadOp.matches(op) or (LoadOp.matches(op) and not is_scalar(op.result.type))


__all__ = ["NO_TENSOR_CORE", "best_unit", "check_before_layouts"]
