"""libdevice functions by name: on floats (``__nv_tanhf`` is tanh of f32), rounded once from float64; on bits, bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tawa.dialects.declare.declaration import by_name
from tawa.dialects.inline.code import ExternElementwiseOp
from tawa.ir import Operation
from tawa.ir.attributes import read_string
from tawa.sim.errors import UnsupportedOp
from tawa.sim.machine.values import Context, Handler
from tawa.sim.numbers import round_to, width, wrap
from tawa.sim.ops import arithmetic
from tawa.sim.ops.elementwise import element_of, is_tile


def _gamma(a: Any) -> Any:
    return np.vectorize(math.gamma, otypes=[np.float64])(a)


def _exp10(a: Any) -> Any:
    return np.power(10.0, a)


def _erfc(a: Any) -> Any:
    return np.vectorize(math.erfc, otypes=[np.float64])(a)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot", "rint", "fabs")},
    **{name: getattr(np, name) for name in ("floor", "ceil", "trunc", "fmin", "fmax", "fmod", "copysign")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh")},
    "pow": np.power,
    "exp10": _exp10,
    "rsqrt": arithmetic.rsqrt,
    "erf": arithmetic.erf,
    "erfc": _erfc,
    "tgamma": _gamma,
    "fma": arithmetic.multiply_add,
    "fdivide": np.divide,
    "nearbyint": np.rint,
}


def _reversed(number: int, bits: int) -> int:
    return int(f"{number:0{bits}b}"[::-1], 2)


_ON_BITS: dict[str, Callable[[int, int], int]] = {
    "popc": lambda number, _: number.bit_count(),
    "clz": lambda number, bits: bits - number.bit_length(),
    "ffs": lambda number, _: (number & -number).bit_length(),
    "brev": _reversed,
}
"""Functions of an unsigned number and its width."""


def _on_bits(function: Callable[[int, int], int], value: Any, source: str, element: str) -> Any:
    bits = width(source)

    def one(number: Any) -> int:
        return wrap(function(int(number) & ((1 << bits) - 1), bits), element)

    if not is_tile(value):
        return one(value)
    return np.array([one(number) for number in value.flat], dtype=f"int{width(element)}").reshape(value.shape)


_PERMUTE = "__nv_byte_perm"


def _byte_perm(first: Any, second: Any, digits: Any) -> Any:
    """Four of the eight bytes of two words, the lowest first: each digit of four bits, from the lowest up, is one."""
    words = [np.asarray(it).astype(np.int64) & 0xFFFFFFFF for it in (first, second, digits)]
    both, result = words[0] | words[1] << 32, np.zeros_like(words[0])
    for number in range(4):
        at = words[2] >> 4 * number & 7
        result |= (both >> 8 * at & 0xFF) << 8 * number
    bits = result.astype(np.uint32).view(np.int32)
    return bits if is_tile(first) else int(bits)


def _extern_elementwise(_: Context, op: Operation, args: list[Any], /) -> list[Any]:
    symbol, element = read_string(op.properties["symbol"]), element_of(op.result.type)
    if symbol == _PERMUTE:
        return [_byte_perm(*args)]
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    on_bits = _ON_BITS.get(name.removesuffix("ll"))
    if on_bits is not None and symbol.startswith("__nv_") and len(args) == 1:
        return [_on_bits(on_bits, args[0], element_of(op.operands[0].type), element)]
    if element == "f32":
        name = name.removesuffix("f")
    function = _FUNCTIONS.get(name)
    if function is None or not symbol.startswith("__nv_") or element not in ("f32", "f64"):
        raise UnsupportedOp(f"the external function {symbol} on {element}")
    with np.errstate(all="ignore"):
        return [round_to(function(*(np.asarray(arg, np.float64) for arg in args)), element)]


EXTERN: dict[str, Handler] = by_name({ExternElementwiseOp: _extern_elementwise})
"""Handlers, by operation name."""
