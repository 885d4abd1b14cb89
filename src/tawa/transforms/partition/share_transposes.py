"""Share transposes: a tile in registers that a dot reads transposed is stored once, and the dot reads a view of it.

    t = trans ds                                      s = local_alloc ds
    a = convert_layout t                       →      a = memdesc_trans s
    dq = dot(a, k)                                    dq = dot(a, k)

A transposed operand in registers goes through shared memory anyway: it is stored, and loaded in the layout of the dot.
Tensor cores read a buffer of 16-bit elements in either order, so that the load and its registers are not needed. The
tile as it is may be an operand of another dot, from registers.

Requires: TTGIR before anything is specialised.
Ensures: the dot reads the same elements.
Source: PTX ISA, "wgmma.mma_async" (`imm-trans-a`: 16-bit elements only).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tawa.dialects.tt import TransOp
from tawa.dialects.ttg import ConvertLayoutOp, LocalAllocOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Builder, MemDescType, Module, TensorType, Value, parse_type
from tawa.transforms.partition.transpose_tile import transposed_view
from tawa.transforms.result import PassResult

_SWIZZLES = (128, 64, 32)  # bytes of a row of a swizzled block, widest first
_BITS = 16
_ENCODING = "#ttg.nvmma_shared<{{swizzlingByteWidth = {}, transposed = false, elementBitWidth = 16}}>"


@dataclass(frozen=True, slots=True)
class ShareTransposes:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Rewrites operand A of every dot that reads a transposed tile from registers."""
        changed = False
        for dot in [dot for op in module.walk() if (dot := WarpGroupDotOp.of(op)) and dot.a_in_registers]:
            tile = _transposed(dot.a)
            buffer = operand_buffer(tile) if tile is not None else None
            if tile is not None and buffer is not None:
                module.aliases.setdefault("#smem", "#ttg.shared_memory")
                _view(dot, module, tile, buffer)
                changed = True
        return PassResult(changed)


def _unconverted(value: Value) -> Value:
    """The tile before its layout was changed."""
    while (convert := ConvertLayoutOp.of(value.defining_op)) is not None:
        value = convert.source
    return value


def _transposed(operand: Value) -> Value | None:
    """The tile whose transpose an operand is; None if it is not the transpose of a tile in registers."""
    transpose = TransOp.of(_unconverted(operand).defining_op)
    return _unconverted(transpose.op.operands[0]) if transpose is not None else None


def operand_buffer(tile: Value) -> MemDescType | None:
    """The buffer of a tile of 16-bit elements that dots read in either order, as swizzled as its rows allow."""
    type = parse_type(tile.type)
    if not isinstance(type, TensorType) or len(type.shape) != 2 or type.bytes * 8 != _BITS * prod(type.shape):
        return None
    swizzle = next((it for it in _SWIZZLES if type.shape[1] * _BITS // 8 % it == 0), None)
    return MemDescType(type.shape, type.element, _ENCODING.format(swizzle), "#smem") if swizzle else None


def _view(dot: WarpGroupDotOp, module: Module, tile: Value, buffer: MemDescType) -> None:
    """Stores the tile, makes operand A a transposed view of it, and drops what transposed it in registers."""
    builder, maker = Builder.before(dot.op), tile.defining_op
    outside = maker is not None and maker.parent is not dot.op.parent  # a loop that only reads the tile stores it once
    at = Builder.after(maker) if outside and maker is not None else builder
    made = at.create(LocalAllocOp.NAME, (tile,), (str(buffer),), hints=(tile.hint,)).result
    transposed = transposed_view(builder, module, made)
    transposed.hint = dot.a.hint
    unused = dot.a
    dot.op.set_operand(WarpGroupDotOp.a.index, transposed)
    while unused is not tile and not unused.uses and (op := unused.defining_op) is not None:
        unused = op.operands[0]
        op.erase()
