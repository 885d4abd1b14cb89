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
from tawa.ir import Module, Operation, TensorType, parse_type, source_of
from tawa.machine.distribution import distribution_at
from tawa.machine.machines import WGMMA

Order = tuple[int, int, tuple[tuple[int, ...], ...], bool]
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


def other_order(first: Module | None, second: Module) -> Operation | None:
    """The first sum of `second` that may add its elements in another order than in `first`; or None.

    The two are one kernel with layouts; sums are told apart by their places in the source. The order is that of the
    layout along the axis: which elements a thread has, and which threads of a warp, and which warps have the others.
    """
    known: dict[object, set[Order | None]] = {}
    for op in first.walk() if first is not None else ():
        if first is not None and rounds(op):
            known.setdefault(source_of(first, op), set()).add(_order(op))
    for op in second.walk():
        if rounds(op) and ((order := _order(op)) is None or known.get(source_of(second, op)) != {order}):
            return op
    return None


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


def _order(fold: Operation) -> Order | None:
    """The axis of a reduction or scan, the size and the order along it, and whether it adds products.

    None if the order is not known. LLVM rounds a product and its sum together unless a conversion is between them.
    """
    view = ReduceOp.of(fold) or ScanOp(fold)
    type, axis = view.sources[0].type, view.axis
    found, tile = distribution_at(fold, type), parse_type(type)
    if found is None or not isinstance(tile, TensorType):
        return None
    return axis, tile.shape[axis], found.along(axis), any(arith.MulFOp.matches(it.defining_op) for it in view.sources)


def _multiplies_fp8(op: Operation) -> bool:
    dot = DotOp.of(op)
    tile = parse_type(dot.a.type) if dot else None
    return isinstance(tile, TensorType) and tile.element.startswith(_FP8)
