"""Sums: operations whose result depends on the number of warps that execute the kernel.

    tt.reduce(%p) { addf }        each thread adds its own elements, then the threads of a warp, then the warps
    tt.reduce(%p) { maxnumf }     does not round: the same bits in every order

The layout of a tile follows from the number of warps. With another number, floats are added in another order.
"""

from __future__ import annotations

from tawa.dialects import arith
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.inline.assembly import reads_thread
from tawa.dialects.inline.code import INLINE
from tawa.dialects.tt import DOTS, DotOp, ReduceOp, ScanOp
from tawa.ir import Module, Operation, TensorType, parse_type
from tawa.machine.machines import WGMMA

_FOLDS = op_names(ReduceOp, ScanOp)
_EXACT = op_names(
    arith.MaxNumFOp, arith.MaximumFOp, arith.MinNumFOp, arith.MinimumFOp,
    arith.SelectOp, arith.ConstantOp, arith.NegFOp, arith.ExtFOp,
)  # fmt: skip
"""Operations on floats that do not round."""
_FLOATS = ("f", "bf", "tf")
_FP8 = "f8"


def ordered_sum(module: Module) -> Operation | None:
    """The first reduction or scan that rounds, so that its result depends on the order of its elements; or None."""
    return next((op for op in module.walk() if rounds(op)), None)


def fp8_dot(module: Module) -> Operation | None:
    """The first dot of fp8 operands, or None. A wgmma adds their products with fewer bits than an mma of one warp."""
    return next((op for op in module.walk() if _multiplies_fp8(op)), None)


def thread_numbers(module: Module) -> Operation | None:
    """The first inline assembly that reads the number of a thread or of a warp, or a clock; or None."""
    return next((op for op in module.walk() if op.name in INLINE and reads_thread(op)), None)


def fits_wgmma(module: Module) -> bool:
    """Whether any dot has as many rows as one wgmma."""
    tiles = [parse_type(op.result.type) for op in module.walk() if op.name in DOTS]
    return any(isinstance(tile, TensorType) and tile.shape[-2] >= WGMMA.rows for tile in tiles)


def rounds(op: Operation) -> bool:
    """Whether `op` is a reduction or scan that rounds."""
    if op.name not in _FOLDS:
        return False
    inside = [op for region in op.regions for block in region.blocks for op in block.ops]
    return any(op.name not in _EXACT and any(it.type.startswith(_FLOATS) for it in op.results) for op in inside)


def _multiplies_fp8(op: Operation) -> bool:
    dot = DotOp.of(op)
    tile = parse_type(dot.a.type) if dot else None
    return isinstance(tile, TensorType) and tile.element.startswith(_FP8)
