"""The arguments that `tawa.ops.attention_varlen` accepts, and the errors for all others.

Only shapes, strides, element types and devices are read: lengths are in GPU memory, and reading them would make the
host wait.
"""

from __future__ import annotations

import torch

from tawa.errors import DeviceError
from tawa.ops.attention_ops.checks import LONGEST, MOST_HEADS, MOST_ROWS, check_heads, check_values
from tawa.ops.calls.checks import HALF, ArgumentError, check_devices, check_types, shape_of

MOST_SEQUENCES = 65535
"""One axis of a grid."""
MOST_PACKED = 2**30
"""Rows of a tensor: the extent of a ragged axis."""


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
