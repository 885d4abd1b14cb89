"""Column slices: takes a tile in registers apart by its columns, without moving an element between threads.

    %s = reshape %t : 64x256xbf16 -> 64x2x2x64                 the two high bits of the column
    %h = trans %s {order = [0, 3, 1, 2]} : 64x64x2x2           become the last dimensions
    %even, %odd = split %h : 64x64x2
    %0, %2 = split %even : 64x64;   %1, %3 = split %odd        slices 0 to 3 of 64 columns

Each step renames registers, because the bits of the column that number the slices are bits of the register in the
layout of the tile, as they are in results of wgmma. A tile whose layout spreads these columns over threads cannot be
taken apart like this.

Source: the linear layouts that Triton infers for `tt.reshape`, `tt.trans` and `tt.split`.
"""

from __future__ import annotations

from tawa.analysis.layout.sliced_stores import distribution_of_slices
from tawa.dialects.tt import ReshapeOp, SplitOp, TransOp
from tawa.ir import Builder, TensorType, Value, parse_type
from tawa.ir.attributes import array_attr
from tawa.machine.distribution import Base, Distribution


def column_slices(tile: Value, count: int, builder: Builder) -> list[Value]:
    """The slices, from the first column on. Requires `slices_in_registers` if there are several."""
    if count == 1:
        return [tile]
    type, layout = parse_type(tile.type), distribution_of_slices(tile, count)
    assert isinstance(type, TensorType) and layout is not None
    bits, width, rows = count.bit_length() - 1, type.shape[-1] // count, len(type.shape) - 1

    def numbered(base: Base) -> Base:
        return (*base[:-1], *_high_bits(base[-1] // width, bits), base[-1] % width)

    shape, layout = (*type.shape[:-1], *(2,) * bits, width), layout.mapped(numbered)
    reshaped = builder.create(ReshapeOp.NAME, (tile,), (_type(shape, type.element, layout),)).result
    order = (*range(rows), rows + bits, *range(rows, rows + bits))
    shape, layout = tuple(shape[dim] for dim in order), layout.mapped(lambda base: tuple(base[dim] for dim in order))
    transposed = (_type(shape, type.element, layout),)
    behind = builder.create(TransOp.NAME, (reshaped,), transposed, properties={"order": array_attr(order)})
    return _split(behind.result, bits, builder)


def _split(tile: Value, bits: int, builder: Builder) -> list[Value]:
    """The slices of a tile whose last `bits` dimensions number them, the most significant bit first."""
    if not bits:
        return [tile]
    whole = parse_type(tile.type)
    assert isinstance(whole, TensorType)
    encoding = f"#ttg.slice<{{dim = {len(whole.shape) - 1}, parent = {whole.encoding}}}>"
    half = str(TensorType(whole.shape[:-1], whole.element, encoding))
    even, odd = (_split(it, bits - 1, builder) for it in builder.create(SplitOp.NAME, (tile,), (half, half)).results)
    return [it for pair in zip(even, odd, strict=True) for it in pair]


def _type(shape: tuple[int, ...], element: str, layout: Distribution) -> str:
    return str(TensorType(shape, element, layout.to_encoding()))


def _high_bits(number: int, bits: int) -> tuple[int, ...]:
    """The bits of a number, the most significant first."""
    return tuple(number >> bit & 1 for bit in reversed(range(bits)))
