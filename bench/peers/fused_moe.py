"""A mixture of experts as serving engines compute it in stock Triton: one kernel for both products, rows by index.

Choices are sorted by expert and padded to blocks of BM, so that each program multiplies rows of one expert; it reads
them through their indices and writes them where their choices are. Around it run SiLU times the other half, and the sum
over the choices of a token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

CONFIGS = (
    (16, 64, 128, 4, 4), (16, 128, 64, 4, 5), (32, 128, 64, 4, 4), (64, 128, 64, 4, 4), (128, 128, 64, 8, 3),
    (128, 256, 64, 8, 3),
)  # fmt: skip
"""BM, BN, BK, warps and stages."""


@triton.jit
def product(
    a, b, c, weights, choices, experts, N, K, total, CHOICES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, GROUP: tl.constexpr, WEIGHTED: tl.constexpr, blocks,
):  # fmt: skip
    """Rows of one expert: c[choice] = a[choice // CHOICES] @ b[expert].T, by weight or not."""
    columns = tl.cdiv(N, BN)
    group = tl.program_id(0) // (GROUP * columns)
    first = group * GROUP
    size = min(blocks - first, GROUP)
    block = first + tl.program_id(0) % (GROUP * columns) % size
    n = tl.program_id(0) % (GROUP * columns) // size * BN + tl.arange(0, BN)
    choice = tl.load(choices + block * BM + tl.arange(0, BM)).to(tl.int64)
    expert = tl.load(experts + block).to(tl.int64)
    known = choice < total
    k = tl.arange(0, BK)
    at_a = a + (choice[:, None] // CHOICES) * K + k[None, :]
    at_b = b + expert * N * K + (n % N)[None, :] * K + k[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        x = tl.load(at_a, mask=known[:, None] & (k[None, :] < left), other=0.0)
        y = tl.load(at_b, mask=k[:, None] < left, other=0.0)
        acc += tl.dot(x, y)
        at_a += BK
        at_b += BK
    if WEIGHTED:
        acc *= tl.load(weights + choice, mask=known, other=0.0)[:, None]
    tl.store(c + choice[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), mask=known[:, None] & (n < N)[None, :])


@triton.jit
def silu_and_multiply(h, out, inner, SIZE: tl.constexpr):
    """out (rows, inner) = silu(h[:, :inner]) * h[:, inner:]."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    gate = tl.load(h + row * 2 * inner + column, mask=column < inner).to(tl.float32)
    up = tl.load(h + row * 2 * inner + inner + column, mask=column < inner).to(tl.float32)
    tl.store(
        out + row * inner + column, (gate / (1 + tl.exp(-gate)) * up).to(out.dtype.element_ty), mask=column < inner
    )


def padded_by_expert(experts: Any, count: int, BM: int) -> tuple[Any, Any]:
    """Choices by expert, padded to blocks of BM with a number behind the last; and the expert of each block."""
    import torch

    flat = experts.flatten().long()
    order, sizes = torch.sort(flat, stable=True).indices, torch.bincount(flat, minlength=count)
    padded = (sizes + BM - 1) // BM * BM
    choices = torch.full((int(padded.sum()),), len(flat), dtype=torch.int32, device=experts.device)
    shift = (padded.cumsum(0) - padded) - (sizes.cumsum(0) - sizes)
    choices[torch.arange(len(flat), device=flat.device) + shift[flat[order]]] = order.int()
    return choices, torch.arange(count, device=flat.device).repeat_interleave(padded // BM).int()


def fused_moe(
    x: Any, gate_up: Any, down: Any, weights: Any, experts: Any, config: tuple[int, ...]
) -> Callable[[], Any]:
    """The launches for these tensors. Choices are sorted here, not in each call, which favours this kernel."""
    import torch

    (T, H), (E, wide, _), chosen = x.shape, gate_up.shape, experts.shape[1]
    BM, BN, BK, warps, stages = config
    choices, owners = padded_by_expert(experts, E, BM)
    blocks, total, inner = len(owners), T * chosen, wide // 2
    h, between, y = (x.new_empty(total, size) for size in (wide, inner, H))
    options: dict[str, Any] = {"BM": BM, "BN": BN, "BK": BK, "GROUP": 8, "num_warps": warps, "num_stages": stages}

    def run() -> Any:
        numbers = blocks * triton.cdiv(wide, BN), blocks * triton.cdiv(H, BN)
        product[(numbers[0],)](
            x, gate_up, h, weights, choices, owners, wide, H, total, CHOICES=chosen, WEIGHTED=False, blocks=blocks,
            **options,
        )  # fmt: skip
        silu_and_multiply[(total, triton.cdiv(inner, 1024))](h, between, inner, SIZE=1024)
        product[(numbers[1],)](
            between, down, y, weights, choices, owners, H, inner, total, CHOICES=1, WEIGHTED=True, blocks=blocks,
            **options,
        )  # fmt: skip
        return torch.sum(y.view(T, chosen, H), 1)

    return run
