"""Parses MLIR constants: ``3 : i32``, ``true``, ``0xFF800000 : f32``, ``dense<0.0> : tensor<…>``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np

from tawa.ir import TensorType, parse_type
from tawa.sim.errors import UnsupportedOp
from tawa.sim.numbers import decode, is_float, memory_dtype, register_dtype, round_to, wrap


@lru_cache(maxsize=4096)
def constant(text: str, type: str) -> Any:
    """The value of an ``arith.constant``. Raises UnsupportedOp if the attribute cannot be parsed."""
    kind = parse_type(type)
    if not isinstance(kind, TensorType):
        return _scalar(text, type)
    found = re.match(r"dense<(.*)> : tensor<", text, re.DOTALL)
    if found is None:
        raise UnsupportedOp(f"the constant {text[:60]}")
    inside = found.group(1)
    if "[" not in inside:
        tile = np.full((), _scalar(inside, kind.element), register_dtype(kind.element))
        return np.broadcast_to(tile, kind.shape)
    numbers = [_scalar(item, kind.element) for item in re.split(r"[\[\],\s]+", inside) if item]
    return np.asarray(numbers, register_dtype(kind.element)).reshape(kind.shape)


def _scalar(text: str, element: str) -> Any:
    text = text.split(" : ")[0].strip().strip('"')
    if text in ("true", "false"):
        return int(text == "true")
    try:
        if not is_float(element):
            return wrap(int(text, 0), element)
        if text.startswith("0x"):
            return decode(np.asarray([int(text, 16)], memory_dtype(element)), element)[0]
        return round_to(float(text), element)
    except ValueError:
        raise UnsupportedOp(f"the constant {text[:60]} of type {element}") from None
