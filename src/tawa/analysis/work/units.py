"""The unit of an SM that computes a dot, as far as TTIR tells: wgmma, mma.sync, or the CUDA cores.

Source: Triton, `supportMMA` in lib/Analysis/Utility.cpp.
"""

from __future__ import annotations

import math
from typing import Literal

from tawa.dialects.tt import DotOp
from tawa.ir import Operation, TensorType, parse_type
from tawa.ir.attributes import read_int
from tawa.machine.machines import WGMMA

Unit = Literal["wgmma", "mma", "cuda cores"]
_IEEE = 2
_LEAST_COLUMNS = 8


def best_unit(dot: Operation) -> Unit:
    """The best unit that a dot may run on: of a ``tt.dot``, as far as types, precision and shape tell."""
    view = DotOp.of(dot)
    if view is None:
        return "wgmma"
    a, result = parse_type(view.a.type), parse_type(dot.result.type)
    if not isinstance(a, TensorType) or not isinstance(result, TensorType):
        return "wgmma"
    if a.element == "f64":
        return "mma"
    if a.element == "f32" and read_int(dot.properties.get("inputPrecision", "0 : i32")) == _IEEE:
        return "cuda cores"
    bits = a.bytes * 8 // math.prod(a.shape)
    fits = (
        result.shape[-2] % WGMMA.rows == 0
        and result.shape[-1] % _LEAST_COLUMNS == 0
        and a.shape[-1] * bits >= 8 * WGMMA.k_bytes
    )
    return "wgmma" if fits else "mma"
