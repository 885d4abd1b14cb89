"""Attention forward specialised by hand in Gluon: a TMA producer warp and two consumer groups of four warps.

Each group has half of the rows of a tile. QK of block j runs under the PV of block j - 1; with `PP` the groups
alternate on the tensor cores (ping-pong, two mbarriers); causal tiles mask the diagonal blocks only. fp16 or bf16, d of
64, 128 or 256 (with BN = 64), L a multiple of BM and BN, L >= BM. D is the depth of the rings of K and V.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

if TYPE_CHECKING:
    import torch

tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@gluon.jit
def producer(q_desc, k_desc, v_desc, o_desc, M, q_s, k_s, v_s, q_full, k_full, k_empty, v_full, v_empty, ping, scale, L,
             BM: gl.constexpr, BN: gl.constexpr, HD: gl.constexpr, D: gl.constexpr, CAUSAL: gl.constexpr,
             PP: gl.constexpr):  # fmt: skip
    """One warp: both halves of Q, then the blocks of K and V alternately."""
    tile = gl.program_id(0)
    base = gl.program_id(1) * L
    end = L
    if CAUSAL:
        tile = gl.num_programs(0) - 1 - tile
        end = (tile + 1) * BM
    mbarrier.expect(q_full, 2 * q_desc.block_type.nbytes)
    tma_load(q_desc, [base + tile * BM, 0], q_full, q_s.index(0))
    tma_load(q_desc, [base + tile * BM + BM // 2, 0], q_full, q_s.index(1))
    i = 0
    for n in range(0, end, BN):
        slot = i % D
        parity = (i // D) & 1
        mbarrier.wait(k_empty.index(slot), parity ^ 1)
        mbarrier.expect(k_full.index(slot), k_desc.block_type.nbytes)
        tma_load(k_desc, [base + n, 0], k_full.index(slot), k_s.index(slot))
        mbarrier.wait(v_empty.index(slot), parity ^ 1)
        mbarrier.expect(v_full.index(slot), v_desc.block_type.nbytes)
        tma_load(v_desc, [base + n, 0], v_full.index(slot), v_s.index(slot))
        i += 1  # noqa: SIM113 (a kernel has no enumerate)


@gluon.jit
def softmax_step(scores, peak, total, scale, rows, n, columns, MASK: gl.constexpr):
    """One block of the online softmax; `peak` and the exponents are in base 2."""
    if MASK:
        scores = gl.where(rows[:, None] >= (n + columns)[None, :], scores, float("-inf"))
    new_peak = gl.maximum(peak, gl.max(scores, 1) * scale)
    alpha = gl.exp2(peak - new_peak)
    weights = gl.exp2(scores * scale - new_peak[:, None])
    total = total * alpha + gl.sum(weights, 1)
    return weights, new_peak, total, alpha


@gluon.jit
def step(j, n, q, k_s, v_s, k_full, k_empty, v_full, v_empty, ping, zero, acc, weights, peak, total, scale, rows,
         columns, W: gl.constexpr, D: gl.constexpr, PP: gl.constexpr, MASK: gl.constexpr, dtype: gl.constexpr,
         p_layout: gl.constexpr, row_layout: gl.constexpr):  # fmt: skip
    """Issues QK of block j and PV of block j - 1, then the softmax of block j while PV runs."""
    slot = j % D
    before = (j - 1) % D
    mbarrier.wait(k_full.index(slot), (j // D) & 1)
    if PP:
        mbarrier.wait(ping.index(W), ((j & 1) ^ 1) ^ W)
    scores = warpgroup_mma(q, k_s.index(slot).permute((1, 0)), zero, use_acc=False, is_async=True)
    mbarrier.wait(v_full.index(before), ((j - 1) // D) & 1)
    acc_next = warpgroup_mma(weights, v_s.index(before), acc, is_async=True)
    if PP:
        mbarrier.arrive(ping.index(W ^ 1), count=1)
    scores = warpgroup_mma_wait(1, deps=(scores,))
    mbarrier.arrive(k_empty.index(slot), count=1)
    p, peak, total, alpha = softmax_step(scores, peak, total, scale, rows, n, columns, MASK)
    acc = warpgroup_mma_wait(0, deps=(acc_next,))
    mbarrier.arrive(v_empty.index(before), count=1)
    acc = acc * gl.convert_layout(alpha, row_layout)[:, None]
    return acc, gl.convert_layout(p.to(dtype), p_layout), peak, total


@gluon.jit
def consumer(W: gl.constexpr, q_desc, k_desc, v_desc, o_desc, M, q_s, k_s, v_s, q_full, k_full, k_empty, v_full,
             v_empty, ping, scale, L, BM: gl.constexpr, BN: gl.constexpr, HD: gl.constexpr, D: gl.constexpr,
             CAUSAL: gl.constexpr, PP: gl.constexpr):  # fmt: skip
    """Group W of two: rows W * BM / 2 … of the tile."""
    half: gl.constexpr = BM // 2
    s_layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, BN, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, HD, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=o_layout, k_width=2)
    s_rows: gl.constexpr = gl.SliceLayout(1, s_layout)
    o_rows: gl.constexpr = gl.SliceLayout(1, o_layout)
    dtype: gl.constexpr = q_desc.dtype
    tile = gl.program_id(0)
    base = gl.program_id(1) * L
    end = L
    if CAUSAL:
        tile = gl.num_programs(0) - 1 - tile
        end = (tile + 1) * BM
    rows = tile * BM + W * half + gl.arange(0, half, s_rows)
    columns = gl.arange(0, BN, gl.SliceLayout(0, s_layout))
    peak = gl.full([half], float("-inf"), gl.float32, s_rows)
    total = gl.full([half], 0.0, gl.float32, s_rows)
    acc = gl.zeros([half, HD], gl.float32, o_layout)
    zero = gl.zeros([half, BN], gl.float32, s_layout)
    scale = scale * 1.44269504
    mbarrier.wait(q_full, 0)
    q = q_s.index(W)
    mbarrier.wait(k_full.index(0), 0)
    if PP:
        mbarrier.wait(ping.index(W), W ^ 1)
    scores = warpgroup_mma(q, k_s.index(0).permute((1, 0)), zero, use_acc=False, is_async=True)
    scores = warpgroup_mma_wait(0, deps=(scores,))
    if PP:
        mbarrier.arrive(ping.index(W ^ 1), count=1)
    mbarrier.arrive(k_empty.index(0), count=1)
    weights, peak, total, _ = softmax_step(scores, peak, total, scale, rows, 0, columns, CAUSAL)
    weights = gl.convert_layout(weights.to(dtype), p_layout)
    j = 1
    unmasked = end
    if CAUSAL:
        unmasked = end - BM
    for n in range(BN, unmasked, BN):
        acc, weights, peak, total = step(
            j, n, q, k_s, v_s, k_full, k_empty, v_full, v_empty, ping, zero, acc, weights, peak, total, scale, rows,
            columns, W, D, PP, False, dtype, p_layout, o_rows)  # fmt: skip
        j += 1
    if CAUSAL:
        for n in range(gl.maximum(unmasked, BN), end, BN):
            acc, weights, peak, total = step(
                j, n, q, k_s, v_s, k_full, k_empty, v_full, v_empty, ping, zero, acc, weights, peak, total, scale, rows,
                columns, W, D, PP, True, dtype, p_layout, o_rows)  # fmt: skip
            j += 1
    last = (j - 1) % D
    mbarrier.wait(v_full.index(last), ((j - 1) // D) & 1)
    acc = warpgroup_mma(weights, v_s.index(last), acc, is_async=True)
    acc = warpgroup_mma_wait(0, deps=(acc,))
    mbarrier.arrive(v_empty.index(last), count=1)
    acc = acc / gl.convert_layout(total, o_rows)[:, None]
    gl.store(M + base + rows, peak + gl.log2(total))
    q.store(acc.to(dtype))
    fence_async_shared()
    tma_store(o_desc, [base + tile * BM + W * half, 0], q)
    tma.store_wait(0)


@gluon.jit
def attention(q_desc, k_desc, v_desc, o_desc, M, scale, L, BM: gl.constexpr, BN: gl.constexpr, HD: gl.constexpr,
              D: gl.constexpr, CAUSAL: gl.constexpr, PP: gl.constexpr, num_warps: gl.constexpr):  # fmt: skip
    """Makes the rings and their barriers, then forks."""
    gl.assume(L >= BM)
    q_s = gl.allocate_shared_memory(q_desc.dtype, [2, BM // 2, HD], q_desc.layout)
    k_s = gl.allocate_shared_memory(k_desc.dtype, [D, BN, HD], k_desc.layout)
    v_s = gl.allocate_shared_memory(v_desc.dtype, [D, BN, HD], v_desc.layout)
    barriers: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [1], barriers)
    k_full = gl.allocate_shared_memory(gl.int64, [D, 1], barriers)
    k_empty = gl.allocate_shared_memory(gl.int64, [D, 1], barriers)
    v_full = gl.allocate_shared_memory(gl.int64, [D, 1], barriers)
    v_empty = gl.allocate_shared_memory(gl.int64, [D, 1], barriers)
    ping = gl.allocate_shared_memory(gl.int64, [2, 1], barriers)
    mbarrier.init(q_full, count=1)
    for slot in gl.static_range(D):
        mbarrier.init(k_full.index(slot), count=1)
        mbarrier.init(k_empty.index(slot), count=2)
        mbarrier.init(v_full.index(slot), count=1)
        mbarrier.init(v_empty.index(slot), count=2)
    mbarrier.init(ping.index(0), count=1)
    mbarrier.init(ping.index(1), count=1)
    W0: gl.constexpr = 0
    W1: gl.constexpr = 1
    gl.warp_specialize(
        [
            (consumer, (W0, q_desc, k_desc, v_desc, o_desc, M, q_s, k_s, v_s, q_full, k_full, k_empty, v_full, v_empty,
                        ping, scale, L, BM, BN, HD, D, CAUSAL, PP)),
            (consumer, (W1, q_desc, k_desc, v_desc, o_desc, M, q_s, k_s, v_s, q_full, k_full, k_empty, v_full, v_empty,
                        ping, scale, L, BM, BN, HD, D, CAUSAL, PP)),
            (producer, (q_desc, k_desc, v_desc, o_desc, M, q_s, k_s, v_s, q_full, k_full, k_empty, v_full, v_empty,
                        ping, scale, L, BM, BN, HD, D, CAUSAL, PP)),
        ],
        [4, 1],
        [240, 24],
    )  # fmt: skip


def blocks(head_dim: int, BM: int = 128, BN: int = 128) -> dict[str, list[int]]:
    """The box of each descriptor."""
    return {"q_desc": [BM // 2, head_dim], "k_desc": [BN, head_dim], "v_desc": [BN, head_dim],
            "o_desc": [BM // 2, head_dim]}  # fmt: skip


def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, *, causal: bool,
        BM: int = 128, BN: int = 128, D: int = 2, PP: bool = True) -> Any:  # fmt: skip
    """Runs o, lse = attention(q, k, v); all (B, H, L, d) of one type and contiguous, lse (B, H, L) fp32 in base 2."""
    batch, heads, length, head_dim = q.shape
    boxes = blocks(head_dim, BM, BN)
    element = gl.bfloat16 if "bfloat16" in str(q.dtype) else gl.float16
    descriptors = [
        TensorDescriptor.from_tensor(
            tensor.view(batch * heads * length, head_dim), box, gl.NVMMASharedLayout.get_default_for(box, element)
        )
        for tensor, box in zip((q, k, v, o), boxes.values(), strict=True)
    ]
    return attention[(length // BM, batch * heads)](*descriptors, lse, head_dim**-0.5, length, BM, BN, head_dim, D,
                                                    causal, PP, num_warps=4)  # fmt: skip
