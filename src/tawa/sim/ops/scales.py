"""Scaled operands of tcgen05 mmas: packed fp4, scales for blocks of a row, and the order of scales in shared memory.

A row of A, or a column of B, has one scale for 32 (mxfp) or 16 (nvfp4) elements: an exponent (ue8m0, as i8), or an
fp8 number. Two fp4 numbers share a byte, the first in its low half.

Sources: PTX ISA, "Block scaling for tcgen05.mma" and "tcgen05.cp"; OCP Microscaling Formats; Triton's
`ScaleDotElemType`.
"""

from __future__ import annotations

import numpy as np

from tawa.ir import MemDescType
from tawa.sim.errors import UnsupportedOp
from tawa.sim.machine.values import SharedView
from tawa.sim.numbers import Array, decode

_BLOCK_ROWS, _BLOCK_COLUMNS = 128, 4
_ELEMENTS = {0: "f8E4M3FN", 1: "f8E5M2", 4: "f4E2M1"}
_FP4 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
_EXPONENT_BIAS, _NAN_EXPONENT = 127, 255


def scaled(operand: SharedView, kind: int, scales: SharedView, *, turned: bool = False) -> Array:
    """The values of A, or of the turned B, times their scales, exactly. kind: of Triton's `ScaleDotElemType`."""
    if kind not in _ELEMENTS:
        raise UnsupportedOp(f"a scaled operand of kind {kind}; those of 4 and 8 bits are simulated")
    bits = np.ascontiguousarray(operand.bits.T if turned else operand.bits)
    values = _fp4(bits) if _ELEMENTS[kind] == "f4E2M1" else decode(bits, _ELEMENTS[kind]).astype(np.float64)
    rows, columns = values.shape
    blocks = scales.bits.size // rows
    if not blocks or columns % blocks or scales.bits.size % rows:
        raise UnsupportedOp(f"{scales.type} as the scales of {rows} rows of {columns} elements")
    factors = _factors(rows_of(scales, MemDescType((rows, blocks), scales.type.element, "")), scales.type.element)
    return values * np.repeat(factors, columns // blocks, axis=1)


def rows_of(source: SharedView, target: MemDescType) -> Array:
    """The bits of a buffer in the shape of `target`: as they are, or scales in blocks of 32 x 16 bytes.

    A block has four columns of 128 rows, of which row 32·i + j is in bytes 4·i … of row j.
    """
    shape, bits = target.shape, np.ascontiguousarray(source.bits).reshape(source.type.shape)
    if source.type.shape == shape and source.type.element == target.element:
        return bits
    rows, columns = shape[0] // _BLOCK_ROWS, shape[-1] // _BLOCK_COLUMNS
    if bits.itemsize != 1 or len(shape) != 2 or bits.size != rows * columns * _BLOCK_ROWS * _BLOCK_COLUMNS:
        raise UnsupportedOp(f"{source.type} as {target}")
    return bits.reshape(rows, columns, 32, 4, 4).transpose(0, 3, 2, 1, 4).reshape(shape)


def _factors(bits: Array, element: str) -> Array:
    if element != "i8":
        return decode(bits, element).astype(np.float64)
    exponents = bits.astype(np.int64)
    return np.where(exponents == _NAN_EXPONENT, np.nan, np.ldexp(1.0, exponents - _EXPONENT_BIAS))


def _fp4(bits: Array) -> Array:
    codes = np.stack([bits & 0xF, bits >> 4], axis=-1).reshape(*bits.shape[:-1], -1)
    return np.where(codes & 8, -1.0, 1.0) * _FP4[codes & 7]
