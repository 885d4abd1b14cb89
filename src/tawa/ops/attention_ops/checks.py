"""The arguments that `tawa.ops.attention` and `attention_varlen` accept, and the errors for all others.

Only shapes, strides, element types and devices are read, so that the same checks hold for tensors that torch.compile
traces. The lengths of packed sequences are in GPU memory: reading them would make the host wait.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tawa.errors import DeviceError
from tawa.ops.calls.checks import FP8, HALF, ArgumentError, check_devices, check_types, name_of, shape_of

LARGEST_HEAD_DIM = 256
MOST_HEADS = 65535
"""B * H: one axis of a grid."""
MOST_ROWS = 2**31 - 1
"""B * H * SQ: the kernels count rows in 32 bits."""
LONGEST = 2**29
"""SQ, SK, the window and the diagonal: sums of them and of a block stay within 32 bits."""
MOST_SEQUENCES = 65535
"""One axis of a grid."""
MOST_PACKED = 2**30
"""Rows of a tensor: the extent of a ragged axis."""


def check_tensors(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Raises ArgumentError or DeviceError unless Q (B, H, SQ, D) and K, V (B, HK, SK, D) belong together."""
    named = {"q": q, "k": k, "v": v}
    for name, tensor in named.items():
        if tensor.ndim != 4:
            raise ArgumentError(f"{name} has shape {shape_of(tensor)}; cure: (batch, heads, length, head dimension)")
    check_devices(named)
    check_types(named, (*HALF, *FP8))
    if k.shape[:3] != v.shape[:3]:
        raise ArgumentError(
            f"k has shape {shape_of(k)}, v {shape_of(v)}; cure: the same shape for both, but for the head dimension"
        )
    if q.shape[0] != k.shape[0]:
        raise ArgumentError(f"q has {q.shape[0]} batches, k {k.shape[0]}; cure: as many in both")
    check_heads(q, k)
    check_values(q, v)
    _check_sizes(q, k.shape[2])


def check_heads(q: torch.Tensor, k: torch.Tensor) -> None:
    """Raises ArgumentError unless the head dimensions have a kernel, and heads share keys evenly.

    Heads are axis 1, and the head dimension is the last.
    """
    if q.shape[-1] != k.shape[-1]:
        raise ArgumentError(f"q has head dimension {q.shape[-1]}, k {k.shape[-1]}; cure: the same in both")
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ArgumentError(
            f"{q.shape[1]} query heads do not share {k.shape[1]} key heads evenly; cure: a multiple of the key heads"
        )
    head_dim = q.shape[-1]
    unit = 16 // q.element_size()
    if not 0 < head_dim <= LARGEST_HEAD_DIM or head_dim % unit:
        raise ArgumentError(
            f"head dimension {head_dim} in {name_of(q.dtype)}: multiples of {unit} up to {LARGEST_HEAD_DIM} have "
            "kernels (a row of a TMA box is a multiple of 16 bytes); cure: pad q, k and v with zeros, give `scale`, "
            "and cut the result"
        )


def check_values(q: torch.Tensor, v: torch.Tensor) -> None:
    """Raises ArgumentError unless the head dimension of V, the last axis, has a kernel beside that of Q."""
    unit, columns = 16 // v.element_size(), v.shape[-1]
    if not 0 < columns <= q.shape[-1] or columns % unit:
        raise ArgumentError(
            f"v has head dimension {columns}, q {q.shape[-1]}: that of v is at most that of q, and a multiple of "
            f"{unit}; cure: pad q and k with zeros and give `scale`, or pad v and cut the result"
        )


def _check_sizes(q: torch.Tensor, keys: int) -> None:
    batches, heads, length, _ = q.shape
    if batches * heads > MOST_HEADS or batches * heads * length > MOST_ROWS:
        raise ArgumentError(
            f"{batches} batches of {heads} heads of {length} queries: at most {MOST_HEADS} heads and {MOST_ROWS} rows "
            "in all; cure: split the batch"
        )
    if max(length, keys) > LONGEST:
        raise ArgumentError(f"{length} queries and {keys} keys: at most {LONGEST} of each; cure: split the sequence")


def check_packed(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor
) -> None:
    """Raises ArgumentError or DeviceError unless Q (rows, H, D), K, V (rows, HK, D) and the offsets belong together."""
    named = {"q": q, "k": k, "v": v}
    for name, tensor in named.items():
        if tensor.ndim != 3:
            raise ArgumentError(
                f"{name} has shape {shape_of(tensor)}; cure: (rows of all sequences, heads, head dimension)"
            )
    check_devices(named)
    check_types(named, HALF)
    if k.shape[1] != v.shape[1]:
        raise ArgumentError(f"k has {k.shape[1]} heads, v {v.shape[1]}; cure: as many in both")
    check_heads(q, k)
    check_values(q, v)
    _check_offsets({"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}, q.device)
    sequences = cu_seqlens_q.shape[0] - 1
    if sequences != cu_seqlens_k.shape[0] - 1:
        raise ArgumentError(
            f"cu_seqlens_q has {cu_seqlens_q.shape[0]} offsets, cu_seqlens_k {cu_seqlens_k.shape[0]}; cure: as many in "
            "both"
        )
    if q.shape[1] > MOST_HEADS or sequences > MOST_SEQUENCES:
        raise ArgumentError(
            f"{sequences} sequences of {q.shape[1]} heads: at most {MOST_SEQUENCES} sequences and {MOST_HEADS} heads; "
            "cure: split the sequences over several calls"
        )


def _check_offsets(named: dict[str, torch.Tensor], device: torch.device) -> None:
    for name, tensor in named.items():
        if tensor.ndim != 1 or tensor.shape[0] == 0 or tensor.dtype != torch.int32:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise ArgumentError(
                f"{name} has shape {shape_of(tensor)} and type {kind}; cure: int32 offsets, (sequences + 1,), "
                "torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))"
            )
        if tensor.device != device:
            raise DeviceError(f"{name} is on {tensor.device}, q on {device}; cure: {name}.to(q.device)")


def check_lengths(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, max_seqlen_q: int, max_seqlen_k: int) -> None:
    """Raises ArgumentError unless the numbers of rows and the largest lengths are valid.

    They differ from call to call on tensors that are otherwise alike.
    """
    if k.shape[0] != v.shape[0]:
        raise ArgumentError(f"k has {k.shape[0]} rows, v {v.shape[0]}; cure: as many in both")
    rows = max(q.shape[0], k.shape[0])
    if rows > MOST_PACKED or q.shape[0] * q.shape[1] > MOST_ROWS:
        raise ArgumentError(
            f"{q.shape[0]} rows of {q.shape[1]} query heads, {k.shape[0]} rows of keys: at most {MOST_PACKED} rows, "
            f"and {MOST_ROWS} queries of all heads; cure: split the sequences over several calls"
        )
    for name, length in (("max_seqlen_q", max_seqlen_q), ("max_seqlen_k", max_seqlen_k)):
        if isinstance(length, torch.Tensor):
            raise ArgumentError(f"{name} is a tensor; cure: an int, which the host knows without waiting for the GPU")
        if not 0 <= length <= LONGEST:
            raise ArgumentError(
                f"{name}={length}: the largest length, 0 to {LONGEST}, is needed; cure: split a sequence"
            )


def check_output(q: torch.Tensor, out_dtype: torch.dtype | None) -> None:
    """Raises ArgumentError unless O can have this element type."""
    known = HALF if q.dtype in FP8 else (q.dtype,)
    if out_dtype is None or out_dtype in known:
        return
    listed = " or ".join(name_of(dtype) for dtype in known)
    raise ArgumentError(f"out_dtype={name_of(out_dtype)} for {name_of(q.dtype)}; cure: {listed}, or None")


def check_factors(q: torch.Tensor, k: torch.Tensor, named: Mapping[str, torch.Tensor | None]) -> None:
    """Raises ArgumentError or DeviceError unless the factors, by name, belong to Q and K in fp8."""
    for name, factors in named.items():
        if factors is None:
            continue
        if q.dtype not in FP8:
            raise ArgumentError(f"{name}: factors are for tensors in fp8, q is {name_of(q.dtype)}; cure: {name}=None")
        if factors.dtype != torch.float32:
            raise ArgumentError(f"{name} has type {name_of(factors.dtype)}; cure: {name}.float()")
        if factors.device != q.device:
            raise DeviceError(f"{name} is on {factors.device}, q on {q.device}; cure: {name}.to(q.device)")
        wanted = tuple(k.shape[:2])
        sizes = (1, 1, *factors.shape)[-2:]
        fits = all(size in (1, most) for size, most in zip(sizes, wanted, strict=True))
        if factors.ndim > 2 or not fits:
            raise ArgumentError(
                f"{name} has shape {shape_of(factors)}; cure: one factor, one for each of the {wanted[1]} key heads, "
                f"or {wanted} of them, by batch and key head"
            )


def why_no_gradient(q: torch.Tensor, of_slopes: bool) -> str:
    """What a call lacks a backward kernel for; empty if it has all. of_slopes: a gradient of the slopes is wanted."""
    if q.dtype not in HALF:
        return f"element type {name_of(q.dtype)}"
    return "the slopes of alibi" if of_slopes else ""


def no_gradient(reason: str) -> ArgumentError:
    """The error of a call that needs a gradient for which there is no kernel."""
    return ArgumentError(f"there are no backward kernels for {reason}; cure: torch.no_grad(), or detach the tensors")
