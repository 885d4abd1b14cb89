"""Sums, and other operations whose result depends on the number of warps that execute the kernel.

    tt.reduce(%p) { addf }        each thread adds its own elements, then the threads of a warp, then the warps
    tt.reduce(%p) { maxnumf }     the same in every order
    addf %s, (mulf %a, %b)        one rounding; two if a conversion of layouts is between the product and the sum

The layout of a tile follows from the number of warps. With another number, floats are added in another order, and
conversions stand elsewhere.
"""

from __future__ import annotations

from itertools import combinations

from tawa.dialects import arith
from tawa.dialects.builtin import GpuBarrierOp
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.inline.assembly import only_registers, reads_thread
from tawa.dialects.inline.code import INLINE
from tawa.dialects.memory.changing_loads import changing_loads, roots_of
from tawa.dialects.tt import ATOMICS, DOTS, CatOp, DotOp, ReduceOp, ReshapeOp, ScanOp, StoreOp, is_relaxed
from tawa.ir import Module, Operation, TensorType, parse_type, source_of
from tawa.machine.distribution import distribution_at
from tawa.machine.fused_products import CARRIED, SPREAD, ways_of_products
from tawa.machine.machines import WGMMA

Order = tuple[object, ...]
_SUMS = op_names(arith.AddFOp, arith.SubFOp)
_ORDERLESS = op_names(
    arith.AddIOp, arith.MulIOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp, arith.MaxSIOp, arith.MaxUIOp, arith.MinSIOp,
    arith.MinUIOp, arith.MaxNumFOp, arith.MaximumFOp, arith.MinNumFOp, arith.MinimumFOp,
)  # fmt: skip
"""Operations that combine elements to the same bits in every order."""
_FOLDS = op_names(ReduceOp, ScanOp)
_EXACT = op_names(
    arith.MaxNumFOp, arith.MaximumFOp, arith.MinNumFOp, arith.MinimumFOp,
    arith.SelectOp, arith.ConstantOp, arith.NegFOp, arith.ExtFOp,
)  # fmt: skip
"""Operations on floats that do not round."""
_FLOATS = ("f", "bf", "tf")
_FP8 = "f8"


def ordered_sum(module: Module) -> Operation | None:
    """The first reduction or scan whose result depends on the order of its elements, or None."""
    return next((op for op in module.walk() if is_ordered(op)), None)


def other_sum(first: Module | None, second: Module) -> Operation | None:
    """The first sum of `second` that may give other bits than in `first`, or other bits in each thread; or None.

    The two are one kernel with layouts for other warps, as Triton's passes leave it; sums are told apart by their
    places in the source. first: None if it is not known.
    """
    known = _sums_by_place(first) if first is not None else {}
    for place, found in _sums_by_place(second).items():
        theirs, ours = [it for _, it in known.get(place, ())], [it for _, it in found]
        if None in ours or (ours != theirs and len({*theirs, *ours}) > 1) or not theirs:
            return found[0][0]
    return None


def uneven_sum(module: Module) -> Operation | None:
    """The first reduction whose threads may have other bits of one sum, or None.

    A thread without two elements of its own adds its product, unrounded, to the rounded one of another thread. Which
    thread's result is used then decides, and a conversion of layouts decides that.
    """
    return next((op for op in module.walk() if is_ordered(op) and _is_uneven(op)), None)


def fp8_dot(module: Module) -> Operation | None:
    """The first dot of fp8 operands, or None. A wgmma adds their products with fewer bits than an mma of one warp."""
    return next((op for op in module.walk() if _multiplies_fp8(op)), None)


def thread_numbers(module: Module) -> Operation | None:
    """The first inline assembly that reads the number of a thread or of a warp, or a clock; or None."""
    return next((op for op in module.walk() if op.name in INLINE and reads_thread(op)), None)


def beyond_threads(module: Module) -> Operation | None:
    """The first inline assembly that may depend on more than the elements of its thread, or None."""
    inline = (op for op in module.walk() if op.name in INLINE)
    return next((op for op in inline if reads_thread(op) or not only_registers(op)), None)


def reordered_elements(module: Module) -> Operation | None:
    """The first tile whose elements lie in the order of a layout, or None. A fold that needs no order may follow."""
    for op in module.walk():
        if CatOp.matches(op):
            return op
        free = ReshapeOp.matches(op) and "allow_reorder" in {**op.properties, **op.attributes}
        if free and not all(it.name in _FOLDS and not is_ordered(it) for it in op.result.users):
            return op
    return None


def exchanged_memory(module: Module) -> Operation | None:
    """The first access whose threads may need those of another access before it, or None.

    One warp executes them one after the other, and several need a barrier, which a kernel for one warp may lack: loads
    of what the kernel writes, atomics that order other accesses or whose result is used, and one of several stores
    through one argument.
    """
    ops = list(module.walk())
    stores = [store for op in ops if (store := StoreOp.of(op))]
    for op in ops:
        if op.name in ATOMICS and (not is_relaxed(op) or any(it.uses for it in op.results)):
            return op
    changed = changing_loads(ops)
    if changed:
        return changed[0]
    if any(GpuBarrierOp.matches(op) for op in ops):
        return None
    pairs = combinations(stores, 2)
    return next((two.op for one, two in pairs if roots_of(one.pointers) & roots_of(two.pointers)), None)


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


def is_ordered(op: Operation) -> bool:
    """Whether `op` is a reduction or scan whose result depends on the order of its elements.

    It does not if one operation combines two elements, and rounds nothing. A choice by a comparison depends on the
    order where elements are equal or NaN.
    """
    if op.name not in _FOLDS:
        return False
    (block,) = op.regions[0].blocks
    combine = block.ops[0]
    alone = len(block.ops) == 2 and len(block.args) == 2 and set(combine.operands) == set(block.args)
    return not (alone and combine.name in _ORDERLESS)


def _sums_by_place(module: Module) -> dict[object, list[tuple[Operation, Order | None]]]:
    """The sums of a kernel in their order, by their places, with what decides their bits."""
    found: dict[object, list[tuple[Operation, Order | None]]] = {}
    for op in module.walk():
        if is_ordered(op) or (op.name in _SUMS and not _is_in_fold(op)):
            found.setdefault((source_of(module, op), op.name), []).append((op, _order(op)))
    return found


def _is_in_fold(op: Operation) -> bool:
    return any(it.name in _FOLDS for it in op.ancestors())


def _order(op: Operation) -> Order | None:
    """What decides the bits of a sum; None if that is not known, or if it is more than layouts.

    Of a reduction or scan: the axis, its size, which registers, lanes and warps are along it, and how products reach
    it. LLVM may unroll a loop for few warps and not for many, so nothing is known of products that a loop carries; nor
    of sums of two products, of which LLVM rounds only one.
    """
    fold = ReduceOp.of(op) or ScanOp.of(op)
    reached = tuple(ways_of_products(it) for it in (fold.sources if fold is not None else op.operands))
    if any(CARRIED in it for it in reached):
        return None
    if fold is None:
        return reached if sum(map(bool, reached)) < 2 else None
    tile, found = parse_type(fold.sources[0].type), distribution_at(op, fold.sources[0].type)
    if not isinstance(tile, TensorType) or found is None or _is_uneven(op) or any(SPREAD in it for it in reached):
        return None
    axis = fold.axis
    along = tuple(tuple(it[axis] for it in kind if it[axis]) for kind in (found.registers, found.lanes, found.warps))
    # Triton packs neighbours of 16 bits before it adds.
    return axis, tile.shape[axis], along, bool(found.registers) and bool(found.registers[0][axis]), reached


def _is_uneven(op: Operation) -> bool:
    """Whether a reduction may leave other bits of a sum in each thread that has it."""
    fold = ReduceOp.of(op)
    if fold is None or not any(ways_of_products(it) for it in fold.sources):
        return False
    found = distribution_at(op, fold.sources[0].type)
    if found is None:
        return True
    in_threads, between = ([it for it in kind if it[fold.axis]] for kind in (found.registers, found.lanes))
    return bool(between) and not in_threads


def _multiplies_fp8(op: Operation) -> bool:
    dot = DotOp.of(op)
    tile = parse_type(dot.a.type) if dot else None
    return isinstance(tile, TensorType) and tile.element.startswith(_FP8)
