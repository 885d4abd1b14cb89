"""How weights in few bits are packed: the packing of `weight_only_mm`, and those of GPTQ and AWQ.

`tawa.ops.kernels.products.weight_only` describes the packing: a row of W (N, K) has 32 words for each block of K. All
functions here are plain PyTorch, for any device; they are called once for a layer.
"""

from __future__ import annotations

import torch

from tawa.ops.calls.checks import ArgumentError, name_of, shape_of
from tawa.ops.calls.tables import blocks

WORDS, PLANE = 32, 64
BITS = {"int4": 4, "int8": 8, "fp8_e4m3": 8, "fp8_e5m2": 8}
"""Formats that the kernel reads best, and the bits of a weight."""
FOREIGN = ("gptq", "gptq_v2", "awq")
"""Packings of 4 bits from elsewhere."""
FP8_FORMATS = {torch.float8_e4m3fn: "fp8_e4m3", torch.float8_e5m2: "fp8_e5m2"}
AWQ_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)
"""The place of each of eight columns in a word of AWQ, counted in 4 bits."""


def block_of(format: str) -> int:
    """Elements of K in a block of 32 words."""
    return WORDS * 32 // BITS[format]


def packed_shape(N: int, K: int, format: str) -> tuple[int, int]:
    """The shape of packed weights (N, K)."""
    return N, blocks(K, block_of(format)) * WORDS


def pack_weights(weights: torch.Tensor, format: str) -> torch.Tensor:
    """Packs weights (N, K) for `weight_only_mm`.

    Args:
        weights: "int4": numbers from 0 to 15 of any integer type; "int8": numbers from -128 to 127 of int8, or from 0
            to 255 of uint8; "fp8_e4m3", "fp8_e5m2": float8_e4m3fn, float8_e5m2.
        format: one of these.

    Returns:
        int32 words (N, 32 * blocks of K).

    Raises:
        ArgumentError: the weights do not suit the format.
    """
    if format not in BITS:
        raise ArgumentError(f"format={format!r}; cure: one of {', '.join(BITS)}")
    if weights.dim() != 2:
        raise ArgumentError(f"weights have shape {shape_of(weights)}; cure: (N, K)")
    return _packed(_codes(weights, format), format)


def _codes(weights: torch.Tensor, format: str) -> torch.Tensor:
    """The weights as numbers without sign, (N, K) int32."""
    dtype = weights.dtype
    match format:
        case "int4" if not dtype.is_floating_point and dtype != torch.bool:
            return weights.to(torch.int32) & 15
        case "int8" if dtype == torch.int8:
            return weights.to(torch.int32) + 128
        case "int8" if dtype == torch.uint8:
            return weights.to(torch.int32)
        case _ if FP8_FORMATS.get(dtype) == format:
            return weights.view(torch.uint8).to(torch.int32)
        case _:
            raise ArgumentError(f"weights have type {name_of(dtype)} for format {format!r}; cure: see pack_weights")


def _packed(codes: torch.Tensor, format: str) -> torch.Tensor:
    """Words of codes (N, K). Elements behind K are 0."""
    bits, block = BITS[format], block_of(format)
    (N, K), planes = codes.shape, block // PLANE
    padded = torch.nn.functional.pad(codes, (0, blocks(K, block) * block - K))
    places = padded.reshape(N, -1, planes, WORDS, 2)
    words = torch.zeros((N, places.shape[1], WORDS), dtype=torch.int32, device=codes.device)
    for plane in range(planes):
        for half in range(2):
            words |= places[:, :, plane, :, half] << (16 * half + bits * plane)  # the sign bit is a bit like others
    return words.reshape(N, -1)


def unpack_weights(words: torch.Tensor, K: int, format: str) -> torch.Tensor:
    """The codes of packed weights, (N, K) int32 without sign: what `pack_weights` was given, with 128 added to int8."""
    bits, planes = BITS[format], block_of(format) // PLANE
    parts = words.reshape(words.shape[0], -1, WORDS)
    codes = [
        torch.stack([(parts >> (16 * half + bits * plane)) & ((1 << bits) - 1) for half in range(2)], dim=3)
        for plane in range(planes)
    ]
    return torch.stack(codes, dim=2).reshape(words.shape[0], -1)[:, :K]


def foreign_codes(qweight: torch.Tensor, format: str) -> torch.Tensor:
    """The codes of weights that GPTQ or AWQ packed, (N, K) int32."""
    if format == "awq":
        return torch.stack([(qweight >> (4 * place)) & 15 for place in AWQ_PLACES], dim=2).flatten(1).t()
    return torch.stack([(qweight >> (4 * place)) & 15 for place in range(8)], dim=1).flatten(0, 1).t()


def foreign_zeros(zeros: torch.Tensor, format: str) -> torch.Tensor:
    """The zeros (groups, N) of words (groups, N / 8), as numbers."""
    places = AWQ_PLACES if format == "awq" else range(8)
    found = torch.stack([(zeros >> (4 * place)) & 15 for place in places], dim=2).flatten(1)
    return found + 1 if format == "gptq" else found


def repack(
    qweight: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None = None, *, format: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Weights as GPTQ and AWQ pack them, in the packing that `weight_only_mm` reads best, which is its format "int4".

    Args:
        qweight: int32; "gptq", "gptq_v2": (K / 8, N); "awq": (K, N / 8).
        scales: (groups, N).
        zeros: (groups, N / 8) int32, or None for 8. "gptq" holds them less 1.
        format: one of these. An index of groups (g_idx of GPTQ) is not known here: with ``desc_act``, sort the rows of
            the weights, and the columns of x, by group first.

    Returns:
        qweight, scales and zeros for ``weight_only_mm(..., format="int4")``.

    Raises:
        ArgumentError: the format is another one, or a tensor does not suit it.
    """
    if format not in FOREIGN:
        raise ArgumentError(f"format={format!r}; cure: one of {', '.join(FOREIGN)}")
    for name, words in (("qweight", qweight), ("zeros", zeros)):
        if words is not None and (words.dtype != torch.int32 or words.dim() != 2):
            raise ArgumentError(
                f"{name} has shape {shape_of(words)}, type {name_of(words.dtype)}; cure: two dimensions of int32"
            )
    numbers = None if zeros is None else foreign_zeros(zeros, format).to(scales.dtype).contiguous()
    return _packed(foreign_codes(qweight, format), "int4"), scales.contiguous(), numbers
