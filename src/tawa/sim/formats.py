"""Conversion of narrow floats for callers: NumPy lacks bf16 and fp8, so arrays hold their bits as integers.

Element names are MLIR's (``bf16``, ``f8E4M3FN``, ``f8E5M2``, ``f16``, ``f32``) or Triton's (``fp16``, ``fp8e4nv``, …).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tawa.ir.types import MLIR_FLOATS
from tawa.sim.numbers import Array, decode, encode, is_float, memory_dtype, round_to

_NATIVE: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def from_floats(values: Array, element: str) -> Array:
    """Rounds floats to `element`. Returns an array for `simulate`: float16, float32 or float64, otherwise bits."""
    element = MLIR_FLOATS.get(element, element)
    if not is_float(element):
        raise ValueError(f"not a float type: {element}")
    bits = encode(round_to(np.asarray(values), element), element)
    return bits.view(_NATIVE.get(element, bits.dtype))


def to_floats(array: Array, element: str) -> Array:
    """The inverse of `from_floats`: float32 values (float64 for f64)."""
    element = MLIR_FLOATS.get(element, element)
    return decode(np.ascontiguousarray(array).view(memory_dtype(element)), element)
