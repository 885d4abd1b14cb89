"""Read dots: what Triton's layout passes make of a dot on Blackwell becomes one operation, as it is on Hopper.

    %d, %t = ttng.tmem_alloc %acc
    %u = ttng.tc_gen5_mma %a, %b, %d[%t], true, true      →      %r = ttng.warp_group_dot %a, %b, %acc
    %r, _ = ttng.tmem_load %d[%u]

So the accumulator is a tile, and rings, paths and forms are decided as for any dot. `accumulate`, behind the rings,
gives it its tensor memory.

The scales of a block-scaled dot are two more operands in shared memory. Triton leaves scales there that TMA loads in
blocks of 512 bytes. All others it lets the threads put into tensor memory; here they go to shared memory, too, in the
order of such blocks:

    %m = tmem_alloc %s                                           %m = local_alloc %s
    tc_gen5_mma_scaled %a, %b, …, %m, …                   →      warp_group_dot %a, %b, %acc, %m, …

A tile that is no whole blocks stays a tile, which the threads store to tensor memory (`accumulate`), as Triton has it:

    tc_gen5_mma_scaled %a, %b, …, %m, …                   →      warp_group_dot %a, %b, %acc, %s, …

Ensures: no operation of tensor memory is left, or the kernel is declined.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.declines import TENSOR_MEMORY
from tawa.dialects.arith import constant_int
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.tcgen05 import ACCUMULATOR, SCALED, UNSIGNED, TCGen5Dot, TMEMAllocOp, TMEMLoadOp, dot_of
from tawa.dialects.ttg import LocalAllocOp, LocalLoadOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Builder, MemDescType, Module, Operation, TensorType, Value, parse_type, source_of
from tawa.transforms.result import PassResult

_UNLIMITED = "1073741824 : i32"
"""The products that tcgen05 sums in fp32 without a second accumulator."""
_BLOCK_ROWS, _BLOCK_COLUMNS = 128, 4
"""A block of scales, which one tcgen05.cp copies to tensor memory."""
_MOVES = op_names(TMEMAllocOp, LocalLoadOp, LocalAllocOp)


@dataclass(frozen=True, slots=True)
class ReadDots:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Rewrites every dot of the module."""
        dots = [dot for op in module.walk() if (dot := dot_of(op))]
        for dot in dots:
            reason = _read(module, dot)
            if reason:
                return PassResult(True, (TENSOR_MEMORY.remark(source_of(module, dot.op), why=reason),))
        left = next((op for op in module.walk() if "tensor_memory" in "".join(it.type for it in op.results)), None)
        if left is not None:
            reason = "the kernel uses it in a way that is not supported"
            return PassResult(True, (TENSOR_MEMORY.remark(source_of(module, left), why=reason),))
        return PassResult(bool(dots))


def _read(module: Module, dot: TCGen5Dot) -> str:
    """Rewrites one dot; returns the reason that this is not possible, if any."""
    made = TMEMAllocOp.of(dot.d.defining_op)
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
    scales = [_without_tensor_memory(module, it) for it in dot.scales]
    properties = {"inputPrecision": "0 : i32", "isAsync": "false", "maxNumImpreciseAcc": _UNLIMITED}
    operands = (dot.a, dot.b, made.source, *scales)
    builder = Builder.before(dot.op)
    op = builder.create(WarpGroupDotOp.NAME, operands, (tile.type,), properties=properties, hints=(tile.hint,))
    op.attributes[ACCUMULATOR] = f'"{made.buffer.type}"'
    if "is_unsigned" in dot.op.properties:
        op.attributes[UNSIGNED] = "unit"
    if scales:
        op.attributes |= {SCALED[name]: dot.op.properties[name] for name in SCALED}
    tile.replace_all_uses_with(op.result)
    held = [it.defining_op for it in dict.fromkeys(dot.scales)]
    for it in (load, dot.op, made.op):  # their tokens only each other use
        it.erase()
    for it in held:
        _drop(it)
    return ""


# -- scales ------------------------------------------------------------------------------------------------------------


def _without_tensor_memory(module: Module, scales: Value) -> Value:
    """Scales in shared memory: those of TMA as they are, a tile in blocks. A tile that is no whole blocks, itself."""
    made = TMEMAllocOp.of(scales.defining_op)
    if made is None or made.source is None:
        return scales
    tile = made.source
    load = LocalLoadOp.of(tile.defining_op)  # Triton moves tiles from one layout to another through shared memory
    held = LocalAllocOp.of(load.buffer.defining_op) if load is not None else None
    if held is not None and held.source is not None:
        tile = held.source
    kind = parse_type(tile.type)
    assert isinstance(kind, TensorType)
    rows, columns = kind.shape
    if rows % _BLOCK_ROWS or columns % _BLOCK_COLUMNS:
        return made.source
    encoding = f"#scales{rows}x{columns}"
    module.aliases.setdefault(encoding, _blocks(rows, columns))
    module.aliases.setdefault("#smem", "#ttg.shared_memory")
    type = MemDescType(kind.shape, kind.element, encoding)
    return Builder.before(made.op).create(LocalAllocOp.NAME, (tile,), (str(type),), hints=(tile.hint,)).result


def _blocks(rows: int, columns: int) -> str:
    """The layout of scales in blocks: the scales of row 32·i + j are in bytes 4·i … 4·i + 3 of the j-th 16 bytes."""
    inner = [(0, 1), (0, 2), (32, 0), (64, 0), *((1 << bit, 0) for bit in range(5))]
    outer = [(0, 1 << bit) for bit in range(2, columns.bit_length() - 1)]
    outer += [(1 << bit, 0) for bit in range(7, rows.bit_length() - 1)]
    offsets = ", ".join(f"[{row}, {column}]" for row, column in inner + outer)
    return f"#ttg.shared_linear<{{offset = [{offsets}]}}, alignment = 128>"


def _drop(op: Operation | None) -> None:
    """Erases what moved scales to tensor memory, if nothing else uses it."""
    while op is not None and op.name in _MOVES and not op.result.uses:
        source = op.operands[0].defining_op
        op.erase()
        op = source
