"""Types, parsed on demand from their text; results are cached, so asking twice costs a dictionary look-up.

    tensor<128x64xf16, #blocked>                          TensorType
    !ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>   MemDescType
    !tt.tensordesc<tensor<128x64xf16, #shared>>           TensorDescType (later than Triton 3.7: no inner `tensor`)
    !tt.ptr<f16>                                          PointerType
    i32, f16, f8E4M3FN, index …                           ScalarType

Everything else is an OpaqueType. Encodings keep their alias (`#mma`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from tawa.ir.text import split_top_level

if TYPE_CHECKING:
    from tawa.ir.core import Value

_SHAPED = re.compile(r"((?:\d+x)*)(.+)", re.DOTALL)
MLIR_FLOATS = {"fp16": "f16", "fp32": "f32", "fp64": "f64", "fp8e4nv": "f8E4M3FN", "fp8e5": "f8E5M2"}
"""Names of float types in MLIR, by their names in Triton."""
TRITON_NAMES = {
    **{name: triton for triton, name in MLIR_FLOATS.items()},
    **{f"{sign}i{bits}": f"{kind}{bits}" for sign, kind in (("s", "i"), ("u", "u")) for bits in (8, 16, 32, 64)},
}
"""Triton's names of element types, by MLIR's; the others are the same. Only the types of descriptors have signs."""
_SIGNED = re.compile(r"[su]i\d+")
_WIDTH = re.compile(r"(?:bf|tf|f|[su]?i)(\d+)")


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A number: `name` as MLIR spells it."""

    name: str

    @property
    def bits(self) -> int:
        """Width in memory; 64 for `index`."""
        found = _WIDTH.match(self.name)
        return int(found.group(1)) if found else 64

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tile in registers."""

    shape: tuple[int, ...]
    element: str
    encoding: str = ""

    @property
    def bytes(self) -> int:
        """Size of the whole tile."""
        return _tile_bytes(self.shape, self.element)

    def __str__(self) -> str:
        encoding = f", {self.encoding}" if self.encoding else ""
        return f"tensor<{_dims(self.shape)}{self.element}{encoding}>"


@dataclass(frozen=True, slots=True)
class MemDescType:
    """A view of shared or tensor memory. `allocation` is the shape of the underlying buffer where it differs."""

    shape: tuple[int, ...]
    element: str
    encoding: str
    space: str = "#smem"
    mutable: bool = False
    allocation: str = ""

    @property
    def bytes(self) -> int:
        """Size of the whole view."""
        return _tile_bytes(self.shape, self.element)

    @property
    def in_tensor_memory(self) -> bool:
        """Whether it is tensor memory (Blackwell) rather than shared memory."""
        return self.space.endswith("tensor_memory")

    def with_slots(self, depth: int) -> MemDescType:
        """The type of a ring of `depth` such buffers."""
        return replace(self, shape=(depth, *self.shape), mutable=True, allocation="")

    def __str__(self) -> str:
        parts = [f"{_dims(self.shape)}{self.element}", self.encoding, self.space]
        if self.mutable:
            parts.append("mutable")
        if self.allocation:
            parts.append(self.allocation)
        return f"!ttg.memdesc<{', '.join(parts)}>"


@dataclass(frozen=True, slots=True)
class TensorDescType:
    """A TMA descriptor of a tensor in global memory, read or written in blocks of `block`.

    The element of `block` is that of the tiles in registers and in shared memory, which have no sign. sign: "s" or "u"
    for integers; "" for floats. nested: in the spelling of Triton 3.6 and 3.7, with `tensor` inside.
    """

    block: TensorType
    nested: bool = True
    sign: str = ""

    @property
    def described(self) -> str:
        """The element with its sign: ``ui8``."""
        return f"{self.sign}{self.block.element}"

    @property
    def bytes(self) -> int:
        """Size of one block."""
        return self.block.bytes

    def __str__(self) -> str:
        block = str(replace(self.block, element=self.described))
        return f"!tt.tensordesc<{block if self.nested else block[len('tensor<') : -1]}>"


@dataclass(frozen=True, slots=True)
class PointerType:
    """A pointer into global memory."""

    pointee: str

    def __str__(self) -> str:
        return f"!tt.ptr<{self.pointee}>"


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """A type that Tawa does not interpret."""

    text: str

    def __str__(self) -> str:
        return self.text


Type = ScalarType | TensorType | MemDescType | TensorDescType | PointerType | OpaqueType


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """Reads one type. Text that fits no known form gives an OpaqueType, never an error."""
    if text.startswith("tensor<"):
        return _tensor(text[7:-1]) or OpaqueType(text)
    if text.startswith("!ttg.memdesc<"):
        return _memdesc(text[13:-1]) or OpaqueType(text)
    if text.startswith("!tt.tensordesc<"):
        inner = text[15:-1]
        nested = inner.startswith("tensor<")
        block = _tensor(inner[7:-1] if nested else inner)
        if block is None:
            return OpaqueType(text)
        sign, element = block.element[:1] if _SIGNED.fullmatch(block.element) else "", block.element
        return TensorDescType(replace(block, element=element[len(sign) :]), nested, sign)
    if text.startswith("!tt.ptr<"):
        return PointerType(split_top_level(text[8:-1])[0])
    if text and text[0] not in "!(" and "<" not in text:
        return ScalarType(text)
    return OpaqueType(text)


def memdesc_type(text: str) -> MemDescType:
    """Reads the type of a value in shared memory."""
    type = parse_type(text)
    assert isinstance(type, MemDescType), text
    return type


def is_scalar(text: str) -> bool:
    """Whether the type is a number or a pointer: one value per thread block, not a tile."""
    return isinstance(parse_type(text), ScalarType | PointerType)


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape of a tile, or of a descriptor's block; empty for everything else."""
    type = parse_type(value.type)
    if isinstance(type, TensorType):
        return type.shape
    return type.block.shape if isinstance(type, TensorDescType) else ()


def _tensor(text: str) -> TensorType | None:
    parts = split_top_level(text)
    shaped = _shape(parts[0]) if parts else None
    if shaped is None or len(parts) > 2:
        return None
    return TensorType(*shaped, parts[1] if len(parts) == 2 else "")


def _memdesc(text: str) -> MemDescType | None:
    parts = split_top_level(text)
    shaped = _shape(parts[0]) if len(parts) >= 3 else None
    if shaped is None:
        return None
    rest = parts[3:]
    mutable = bool(rest) and rest[0] == "mutable"
    allocation = ", ".join(rest[1:] if mutable else rest)
    return MemDescType(*shaped, parts[1], parts[2], mutable, allocation)


def _shape(text: str) -> tuple[tuple[int, ...], str] | None:
    found = _SHAPED.fullmatch(text)
    if found is None:
        return None
    dims, element = found.groups()
    return tuple(int(size) for size in dims.split("x")[:-1]), element


def _dims(shape: tuple[int, ...]) -> str:
    return "".join(f"{size}x" for size in shape)


def _tile_bytes(shape: tuple[int, ...], element: str) -> int:
    elements = 1
    for size in shape:
        elements *= size
    kind = parse_type(element)
    bits = kind.bits if isinstance(kind, ScalarType) else 64
    return elements * max(bits, 8) // 8
