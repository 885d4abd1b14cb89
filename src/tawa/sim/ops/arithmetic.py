"""Arithmetic on scalars and tiles for which Python and NumPy have no function, or one that differs from the GPU's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tawa.sim.numbers import is_tile


def bitwise_and(a: Any, b: Any) -> Any:
    """Bitwise AND."""
    return a & b


def bitwise_or(a: Any, b: Any) -> Any:
    """Bitwise OR."""
    return a | b


def bitwise_xor(a: Any, b: Any) -> Any:
    """Bitwise XOR."""
    return a ^ b


def floor_divide(a: Any, b: Any) -> Any:
    """Division rounded towards minus infinity."""
    return a // b


def divide(a: Any, b: Any) -> Any:
    """Division rounded towards zero; division by zero gives -1, as on the GPU."""
    if not is_tile(a) and not is_tile(b):
        if b == 0:
            return -1
        cut = abs(a) // abs(b)
        return cut if (a < 0) == (b < 0) else -cut
    left, right = np.asarray(a), np.asarray(b)
    safe = np.where(right == 0, 1, right).astype(right.dtype)
    floor = np.floor_divide(left, safe)
    up = (np.remainder(left, safe) != 0) & ((left < 0) != (safe < 0))
    return np.where(right == 0, -1, floor + up).astype(left.dtype)


def remainder(a: Any, b: Any) -> Any:
    """The remainder of `divide`; of a division by zero, the dividend."""
    if not is_tile(a) and not is_tile(b):
        return a if b == 0 else a - divide(a, b) * b
    return a - divide(a, b) * b


def ceil_divide(a: Any, b: Any) -> Any:
    """Division rounded towards plus infinity."""
    return -(-a // b)


def ceil_divide_unsigned(a: Any, b: Any) -> Any:
    """Unsigned division rounded up."""
    return a // b + (a % b != 0)


def shift_left(a: Any, b: Any) -> Any:
    """Left shift; a shift by the width or more gives 0."""
    if not is_tile(a):
        return a << min(int(b), 64)
    bits = a.dtype.itemsize * 8
    shifted = np.left_shift(a, np.minimum(b, bits - 1).astype(a.dtype))
    return np.where(np.asarray(b) >= bits, 0, shifted).astype(a.dtype)


def shift_right(a: Any, b: Any) -> Any:
    """Arithmetic or logical right shift; a shift by the width or more gives the sign or 0."""
    if not is_tile(a):
        return a >> min(int(b), 64)
    bits = a.dtype.itemsize * 8
    shifted = np.right_shift(a, np.minimum(b, bits - 1).astype(a.dtype))
    return shifted if a.dtype.kind == "i" else np.where(np.asarray(b) >= bits, 0, shifted).astype(a.dtype)


def multiply_add(a: Any, b: Any, c: Any) -> Any:
    """a·b + c."""
    return a * b + c


def rsqrt(a: Any) -> Any:
    """1 / √a."""
    return 1.0 / np.sqrt(a)


def erf(a: Any) -> Any:
    """The error function erf."""
    return np.vectorize(math.erf, otypes=[np.float64])(a)
