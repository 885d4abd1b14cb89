"""Functions of numbers that neither Python nor NumPy spells as the GPU computes them; on scalars and on tiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tawa.sim.numbers import is_tile


def both(a: Any, b: Any) -> Any:
    """Bitwise and."""
    return a & b


def either(a: Any, b: Any) -> Any:
    """Bitwise or."""
    return a | b


def differ(a: Any, b: Any) -> Any:
    """Bitwise exclusive or."""
    return a ^ b


def floor_quotient(a: Any, b: Any) -> Any:
    """Division towards minus infinity."""
    return a // b


def quotient(a: Any, b: Any) -> Any:
    """Division that cuts off; by zero it gives -1, as the GPU does."""
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
    """What `quotient` leaves."""
    if not is_tile(a) and not is_tile(b):
        return a if b == 0 else a - quotient(a, b) * b
    return a - quotient(a, b) * b


def ceiling(a: Any, b: Any) -> Any:
    """Division towards plus infinity."""
    return -(-a // b)


def ceiling_unsigned(a: Any, b: Any) -> Any:
    """The same without a sign."""
    return a // b + (a % b != 0)


def shift_left(a: Any, b: Any) -> Any:
    """Shift; by the width or more it gives 0."""
    if not is_tile(a):
        return a << min(int(b), 64)
    bits = a.dtype.itemsize * 8
    shifted = np.left_shift(a, np.minimum(b, bits - 1).astype(a.dtype))
    return np.where(np.asarray(b) >= bits, 0, shifted).astype(a.dtype)


def shift_right(a: Any, b: Any) -> Any:
    """Shift of a signed or unsigned number; by the width or more it gives 0 or the sign."""
    if not is_tile(a):
        return a >> min(int(b), 64)
    bits = a.dtype.itemsize * 8
    shifted = np.right_shift(a, np.minimum(b, bits - 1).astype(a.dtype))
    return shifted if a.dtype.kind == "i" else np.where(np.asarray(b) >= bits, 0, shifted).astype(a.dtype)


def fused(a: Any, b: Any, c: Any) -> Any:
    """a·b + c."""
    return a * b + c


def reciprocal_root(a: Any) -> Any:
    """1 / √a."""
    return 1.0 / np.sqrt(a)


def error_function(a: Any) -> Any:
    """erf."""
    return np.vectorize(math.erf, otypes=[np.float64])(a)
