"""Sliced stores: whether a tile can be stored by TMA in slices of its columns.

    #mma, 128x256 of f32: bits 7 and 6 of the column number registers     two and four slices of whole registers
    #blocked, 128x256 of f16: bit 7 of the column numbers a lane          no slices

Each slice must hold whole boxes of TMA, and registers alone must number the slices, so that no element moves between
threads.
"""

from __future__ import annotations

import math

from tawa.dialects.tt import TMAStore
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import TensorDescType, TensorType, Value, parse_type
from tawa.ir.attributes import read_int
from tawa.ir.encodings import aliases_at, fields_of
from tawa.machine.distribution import Distribution, distribution_at


def why_no_slices(store: TMAStore, slices: int) -> str:
    """Why a store cannot leave in so many slices of its columns (a power of two); empty if it can."""
    if slices == 1:
        return ""
    block = parse_type(store.descriptor.type)
    assert isinstance(block, TensorDescType)
    fields, shape = fields_of(aliases_at(store.op), block.block.encoding), block.block.shape
    row_bytes = block.bytes // math.prod(shape[:-1])
    # A block with a swizzle is copied in boxes as wide as that, so the descriptor of the block serves its slices.
    box = read_int(fields.get("swizzlingByteWidth", "0")) or row_bytes
    if row_bytes // slices < box:
        return f"{slices} slices of {shape[-1]} columns have rows of {row_bytes // slices} bytes, a box of TMA {box}"
    if not slices_in_registers(unconverted(store), slices):
        return f"the layout of the stored tile spreads {slices} slices of its columns over threads"
    return ""


def unconverted(store: TMAStore) -> Value:
    """The stored tile before its layout was changed for the store: any layout can be written to a buffer."""
    change = ConvertLayoutOp.of(store.source.defining_op)
    return change.source if change else store.source


def slices_in_registers(tile: Value, count: int) -> bool:
    """Whether registers alone number `count` (a power of two) slices of the columns of a tile."""
    return distribution_of_slices(tile, count) is not None


def distribution_of_slices(tile: Value, count: int) -> Distribution | None:
    """The distribution of a tile if registers alone number its slices, else None."""
    type = parse_type(tile.type)
    if tile.defining_op is None or not isinstance(type, TensorType) or type.shape[-1] % count:
        return None
    found, width = distribution_at(tile.defining_op, tile.type), type.shape[-1] // count
    if found is None or any(base[-1] >= width for base in (*found.lanes, *found.warps)):
        return None
    numbers = [base for base in found.registers if base[-1] >= width]
    bits = [(*(0,) * (len(type.shape) - 1), width << bit) for bit in range(count.bit_length() - 1)]
    return found if sorted(numbers) == bits else None
