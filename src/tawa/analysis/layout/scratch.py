"""Scratch memory: the shared memory that an operation on tiles takes while it runs.

    #mma → #blocked, 128x128 f16, 4 warps        8 KiB of 32: both have (8, 0) and (64, 0) in registers

A conversion: elements that differ in a base which both layouts have in registers stay in their threads, so Triton moves
one part of the tile after the other through the same memory. A base is not free for that if one access of a thread
covers it: 16 bytes, or 4 with `stmatrix` and `ldmatrix`, which give four neighbouring threads of an accumulator the
other 12. A reduction: one element for each warp along the axis.

Source: Triton, lib/Tools/GenericSwizzling.cpp and lib/Analysis/Utility.cpp.
"""

from __future__ import annotations

from tawa.dialects.tt import ReduceOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Operation, PointerType, ScalarType, TensorType, parse_type
from tawa.ir.encodings import aliases_at, kind_of
from tawa.machine.distribution import Distribution, distribution_at
from tawa.machine.nvidia import VECTOR_BYTES

_MATRIX_BITS = 16
"""Bits of the elements that `stmatrix` and `ldmatrix` move."""
_MATRIX_BYTES = 4
"""Bytes that a thread has of a row of them."""
_POINTER_BITS = 64


def conversion_bytes(convert: Operation) -> int:
    """The scratch memory of a conversion that does not stay in registers; the whole tile if a layout is not known."""
    tile = parse_type(ConvertLayoutOp(convert).source.type)
    assert isinstance(tile, TensorType)
    types = ConvertLayoutOp(convert).source.type, convert.result.type
    source, target = (distribution_at(convert, type) for type in types)
    bits = _bits(tile.element)
    if source is None or target is None or bits is None:
        return tile.bytes
    by_matrix = [
        bits == _MATRIX_BITS and _is_accumulator(convert, type) and _has_rows(other, one)
        for type, one, other in zip(types, (source, target), (target, source), strict=True)
    ]
    access = _MATRIX_BYTES if by_matrix.count(True) == 1 else VECTOR_BYTES
    common = sum(any(base) and base in target.registers for base in source.registers)
    return tile.bytes >> max(0, common - (8 * access // bits).bit_length() + 1)


def reduction_bytes(reduce: Operation) -> int:
    """The scratch memory of a reduction over several warps; 0 if each warp reduces elements of its own only."""
    view = ReduceOp(reduce)
    found = distribution_at(reduce, view.sources[0].type)
    warps = 1 << sum(base[view.axis] > 0 for base in found.warps) if found is not None else 1
    tiles = [parse_type(source.type) for source in view.sources] if warps > 1 else []
    return sum(it.bytes // it.shape[view.axis] * warps for it in tiles if isinstance(it, TensorType))


def _has_rows(other: Distribution, accumulator: Distribution) -> bool:
    """Whether a thread of the other layout has what four neighbouring threads of an accumulator have of a row."""
    return all(base in other.registers for base in (accumulator.registers[0], *accumulator.lanes[:2]))


def _is_accumulator(convert: Operation, type: str) -> bool:
    tile = parse_type(type)
    return isinstance(tile, TensorType) and kind_of(aliases_at(convert), tile.encoding) == "#ttg.nvidia_mma"


def _bits(element: str) -> int | None:
    kind = parse_type(element)
    if isinstance(kind, PointerType):
        return _POINTER_BITS
    return max(8, kind.bits) if isinstance(kind, ScalarType) else None
