"""Launching the attention kernels on PyTorch tensors: configurations, descriptors, forward, backward.

Configurations are a small table by head dimension. Every launch goes through `tawa.jit` without options: specialised
where that is legal and expected to pay, else stock Triton.

Tensors are seen through 4-D TMA descriptors with their own strides: a transposed view, such as that of (B, S, H, D)
projections, is used where it lies. TMA wants contiguous rows, and strides and addresses that are multiples of 16 bytes;
what has others is copied first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

import tawa
from tawa.kernels.attention import backward, forward

LN_2 = 0.6931471805599453
TMA_BYTES = 16
LEAST_BOX = 64


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows of queries and of keys that one block has, and how a program runs."""

    BM: int
    BN: int
    num_warps: int
    num_stages: int


FORWARD = {64: Tile(128, 128, 8, 2), 128: Tile(128, 128, 8, 2), 256: Tile(128, 64, 8, 2)}
DKDV = {64: Tile(64, 128, 8, 2), 128: Tile(32, 128, 8, 2), 256: Tile(32, 64, 8, 2)}
DQ = {64: Tile(128, 128, 8, 2), 128: Tile(128, 64, 8, 2), 256: Tile(64, 32, 4, 2)}
"""Tiles by the head dimension of the box."""
ROWS_OF_SUMS = 128

attention_two_loops: Any = tawa.jit(forward.attention_two_loops)
attention_dkdv: Any = tawa.jit(backward.attention_dkdv)
attention_dq: Any = tawa.jit(backward.attention_dq)
row_sums: Any = tawa.jit(backward.row_sums)


@dataclass(frozen=True, slots=True)
class Mask:
    """Which keys a row sees: up to ``row + diagonal`` if causal, and the last `window` of those if it is not 0."""

    causal: bool
    diagonal: int
    window: int = 0


def box_of(head_dim: int) -> int:
    """The head dimension of a block: columns behind the tensor's are zero."""
    return max(LEAST_BOX, 1 << (head_dim - 1).bit_length())


def output_type(dtype: torch.dtype) -> torch.dtype:
    """The element type of O: that of Q, and float16 for fp8."""
    return dtype if dtype.itemsize > 1 else torch.float16


# --- tensors for TMA ---


def fits_tma(tensor: torch.Tensor) -> bool:
    """Whether a descriptor may be made on a tensor as it lies."""
    size = tensor.element_size()
    strides = [stride for length, stride in zip(tensor.shape[:-1], tensor.stride(), strict=False) if length > 1]
    return (
        (tensor.stride(-1) == 1 or tensor.shape[-1] == 1)
        and tensor.data_ptr() % TMA_BYTES == 0
        and all(stride > 0 and stride * size % TMA_BYTES == 0 for stride in strides)
    )


def for_tma(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy whose rows begin at multiples of 16 bytes."""
    if fits_tma(tensor):
        return tensor
    unit = TMA_BYTES // tensor.element_size()
    length = tensor.shape[-1]
    copy = tensor.new_empty((*tensor.shape[:-1], -(-length // unit) * unit))[..., :length]
    return copy.copy_(tensor)


def descriptor(tensor: torch.Tensor, rows: int, columns: int) -> TensorDescriptor:
    """A 4-D descriptor with boxes of some rows of one head. Strides of dimensions of size 1 are never used."""
    shape, strides = list(tensor.shape), list(tensor.stride())
    for axis in range(3):
        if shape[axis] == 1:
            strides[axis] = TMA_BYTES
    strides[3] = 1
    return TensorDescriptor(tensor, shape, strides, [1, 1, rows, columns])


# --- launches ---


def run_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    alibi: torch.Tensor | None,
    mask: Mask,
    scale: float,
    softcap: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """O (B, H, SQ, D), and the base-2 logarithms of the sums (B, H, SQ) in float32. softcap: 0 for none."""
    batches, heads, queries, head_dim = q.shape
    keys = k.shape[2]
    o = torch.empty(q.shape, dtype=output_type(q.dtype), device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    if o.numel() == 0 or keys == 0:
        return o.zero_(), lse.fill_(float("-inf"))
    box = box_of(head_dim)
    tile = FORWARD[box]
    transposed = q.element_size() == 1  # wgmma takes eight-bit operands with the summed dimension innermost only
    v_desc = descriptor(for_tma(v.mT), box, tile.BN) if transposed else descriptor(for_tma(v), tile.BN, box)
    with torch.cuda.device(q.device):
        attention_two_loops[(-(-queries // tile.BM), batches * heads)](
            descriptor(for_tma(q), tile.BM, box),
            descriptor(for_tma(k), tile.BN, box),
            v_desc,
            descriptor(o, tile.BM, box),
            lse,
            None if alibi is None else alibi.contiguous(),
            heads,
            queries,
            keys,
            mask.diagonal,
            scale,
            softcap or 1.0,
            GROUP=heads // k.shape[1],
            BM=tile.BM,
            BN=tile.BN,
            D=box,
            V_T=transposed,
            CAUSAL=mask.causal,
            WINDOW=mask.window,
            ALIBI=alibi is not None,
            SOFTCAP=softcap > 0,
            EVEN=keys % tile.BN == 0,
            num_warps=tile.num_warps,
            num_stages=tile.num_stages,
        )
    return o, lse


def run_backward(
    do: torch.Tensor,
    dlse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    mask: Mask,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dQ, dK and dV. do, dlse: gradients of what `run_forward` returned."""
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    if q.numel() == 0 or k.numel() == 0:
        return dq.zero_(), dk.zero_(), dv.zero_()
    batches, heads, queries, head_dim = q.shape
    q, k, v, do = (for_tma(x) for x in (q, k, v, do))
    box = box_of(head_dim)
    delta = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    numbers = (heads, queries, k.shape[2], mask.diagonal, scale)
    group = heads // k.shape[1]
    with torch.cuda.device(q.device):
        row_sums[(-(-queries // ROWS_OF_SUMS), batches * heads)](
            descriptor(o, ROWS_OF_SUMS, box), descriptor(do, ROWS_OF_SUMS, box), delta, heads, queries,
            BM=ROWS_OF_SUMS, D=box, num_warps=8,
        )  # fmt: skip
        if dlse is not None:
            delta -= dlse / LN_2  # the natural logarithm's derivative by a score is its weight, as is delta's factor
        tile = DKDV[box]
        attention_dkdv[(-(-k.shape[2] // tile.BN), batches * k.shape[1])](
            descriptor(q, tile.BM, box), descriptor(k, tile.BN, box), descriptor(v, tile.BN, box),
            descriptor(do, tile.BM, box), descriptor(dk, tile.BN, box), descriptor(dv, tile.BN, box), lse, delta,
            *numbers, GROUP=group, BM=tile.BM, BN=tile.BN, D=box, CAUSAL=mask.causal, num_warps=tile.num_warps,
            num_stages=tile.num_stages,
        )  # fmt: skip
        tile = DQ[box]
        attention_dq[(-(-queries // tile.BM), batches * heads)](
            descriptor(q, tile.BM, box), descriptor(k, tile.BN, box), descriptor(v, tile.BN, box),
            descriptor(do, tile.BM, box), descriptor(dq, tile.BM, box), lse, delta,
            *numbers, GROUP=group, BM=tile.BM, BN=tile.BN, D=box, CAUSAL=mask.causal, num_warps=tile.num_warps,
            num_stages=tile.num_stages,
        )  # fmt: skip
    return dq, dk, dv
