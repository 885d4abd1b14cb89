"""Number formats: bits in memory, values in registers, and the rounding between them.

In registers, f64 is float64 and every narrower float is float32 with a value that the narrower type represents exactly;
integers keep their width, and i1 is bool. In memory, an element is its bits as uint8, uint16, uint32 or uint64.

Rounding is to nearest even and overflows to infinity if the format has one. fp8 saturates as PTX's
``cvt.rn.satfinite`` does (PTX ISA, "cvt"): values out of range and infinities become the largest finite number; NaN
stays NaN. wgmma truncates float32 to TF32 (PTX ISA, "wgmma": the low 13 bits are ignored).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from tawa.ir import ScalarType, parse_type

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Fp8:
    """An fp8 format; `largest` is the largest finite number."""

    mantissa: int
    bias: int
    largest: float
    infinity: bool


FP8 = {
    "f8E4M3FN": Fp8(3, 7, 448.0, False),
    "f8E5M2": Fp8(2, 15, 57344.0, True),
}
FLOATS = frozenset({"f16", "bf16", "f32", "f64", "tf32", *FP8})
_BITS: dict[int, Any] = {1: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_INTEGERS: dict[int, Any] = {1: np.bool_, 8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def is_tile(value: Any) -> TypeGuard[Array]:
    """Whether a value is a tile rather than a scalar."""
    return isinstance(value, np.ndarray)


def is_float(element: str) -> bool:
    """Whether values of the element type are floats."""
    return element in FLOATS


def width(element: str) -> int:
    """The width of a number type in bits; raises ValueError for any other type."""
    kind = parse_type(element)
    if not isinstance(kind, ScalarType) or (element not in FLOATS and element != "index" and element[:1] != "i"):
        raise ValueError(f"not a number type: {element}")
    return kind.bits


def memory_dtype(element: str) -> Any:
    """The unsigned type that holds the element's bits; raises ValueError for an unknown element."""
    bits = 32 if element == "tf32" else width(element)
    if bits not in _BITS:
        raise ValueError(f"no memory format for {element}")
    return _BITS[bits]


def register_dtype(element: str) -> Any:
    """The NumPy type of the element's values; raises ValueError for an unknown element."""
    if element in FLOATS:
        return np.float64 if element == "f64" else np.float32
    bits = width(element)
    if bits not in _INTEGERS:
        raise ValueError(f"no register format for {element}")
    return _INTEGERS[bits]


def wrap(value: int, element: str) -> int:
    """An integer scalar wrapped to the range of its type: 0 or 1 for i1, signed for all other types."""
    bits = width(element)
    value &= (1 << bits) - 1
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


def round_to(values: Any, element: str) -> Any:
    """Rounds float values to what `element` can represent."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if element == "f64":
            return np.asarray(values, np.float64)[()]
        if element in FP8:
            return _round_fp8(np.asarray(values, np.float64), FP8[element])[()]
        if element == "f16":
            return np.asarray(values).astype(np.float16).astype(np.float32)[()]
        single = np.asarray(values, np.float32)
        if element == "bf16":
            return decode(_bf16_bits(single), "bf16")[()]
        return truncate_to_tf32(single) if element == "tf32" else single[()]


def round_towards_zero(values: Any, element: str) -> Any:
    """Rounds float values towards zero to `element`; values out of range become its largest finite number."""
    exact, nearest = np.asarray(values, np.float64), np.asarray(round_to(values, element))
    bits = encode(nearest, element)
    # Floats are sign and magnitude: the code minus one is the next number towards zero.
    beyond = np.abs(nearest.astype(np.float64)) > np.abs(exact)
    return decode(np.asarray(np.where(beyond, bits - 1, bits).astype(bits.dtype)), element)[()]


def truncate_to_tf32(values: Any) -> Any:
    """Truncates float32 to TF32: clears the low 13 bits of the mantissa."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32).reshape(np.shape(values))


def encode(values: Any, element: str) -> Array:
    """Register values to bits. The values must be representable (see `round_to`)."""
    array = np.asarray(values)
    if element == "bf16":
        return _bf16_bits(array.astype(np.float32))
    if element == "f16":
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(array.astype(np.float16)).view(np.uint16)
    if element in FP8:
        return _codes(element)[encode(array, "f16")]  # every fp8 number is an fp16 number
    if element in FLOATS:
        return np.asarray(array.astype(register_dtype(element))).view(memory_dtype(element))
    return np.asarray(array.astype(register_dtype(element))).view(memory_dtype(element))


def decode(bits: Array, element: str) -> Array:
    """Bits to register values."""
    if element == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if element == "f16":
        return bits.view(np.float16).astype(np.float32)
    if element in FP8:
        return _table(element)[bits]
    if element == "i1":
        return bits != 0
    return bits.view(register_dtype(element))


def _bf16_bits(values: Array) -> Array:
    bits = np.asarray(values, np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    with np.errstate(over="ignore"):
        rounded = (bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FFF), rounded).astype(np.uint16)


def _round_fp8(values: Array, form: Fp8) -> Array:
    finite = np.where(np.isfinite(values), values, 0.0)
    _, exponent = np.frexp(finite)
    quantum = np.ldexp(1.0, np.maximum(exponent - 1, 1 - form.bias) - form.mantissa)
    rounded = np.clip(np.rint(finite / quantum) * quantum, -form.largest, form.largest)
    rounded = np.where(np.isinf(values), np.copysign(form.largest, values), rounded)
    return np.where(np.isnan(values), np.nan, np.copysign(rounded, values)).astype(np.float32)


@cache
def _table(element: str) -> Array:
    """The value of each of the 256 codes."""
    form = FP8[element]
    code = np.arange(256)
    mantissa, exponent = code & ((1 << form.mantissa) - 1), (code & 0x7F) >> form.mantissa
    fraction = np.where(exponent == 0, mantissa, mantissa + (1 << form.mantissa)).astype(np.float64)
    value = np.ldexp(fraction, np.maximum(exponent, 1) - form.bias - form.mantissa)
    value = np.where(value > form.largest, np.nan, value)
    if form.infinity:
        value = np.where(code & 0x7F == 0x7C, np.inf, value)
    return np.where(code & 0x80, -value, value).astype(np.float32)


@cache
def _codes(element: str) -> Array:
    """The fp8 code of each fp16 number, indexed by the bits of the fp16 number."""
    return _encode_fp8(np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float64), element)


def _encode_fp8(values: Array, element: str) -> Array:
    form = FP8[element]
    positive = _table(element)[:128]
    finite = positive[: int(np.searchsorted(positive[:127], form.largest)) + 1]
    code = np.searchsorted(finite, np.abs(np.where(np.isfinite(values), values, 0.0)))
    code = np.minimum(code, finite.size - 1)  # clamps inputs that fp8 cannot represent; callers do not use their codes
    code = np.where(np.isinf(values), 0x7C if form.infinity else 0x7F, code)
    code = np.where(np.isnan(values), 0x7F, code)
    return np.where(np.signbit(values), code | 0x80, code).astype(np.uint8)
