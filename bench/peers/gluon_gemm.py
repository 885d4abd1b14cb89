"""GEMM specialised by hand in Gluon, Triton's explicit language: a TMA producer warp, 8 cooperative consumer warps.

Persistent; C = A @ B with A row-major and B row-major (K x N) or K-major (N x K, `b_t`); fp16 or fp8 e4m3 in, fp16 out.
D is the depth of the ring, P the iterations whose wgmmas stay in flight, EN the width of the staging buffer of the
epilogue (BN or BN / 2).
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
def tile_of(tile, num_m, num_n, GROUP_M: gl.constexpr):
    """The tile (row, column) in groups of GROUP_M rows."""
    in_group = GROUP_M * num_n
    first_m = (tile // in_group) * GROUP_M
    group = min(num_m - first_m, GROUP_M)
    return first_m + (tile % in_group) % group, (tile % in_group) // group


@gluon.jit
def producer(
    a_desc,
    b_desc,
    c_desc,
    a_slots,
    b_slots,
    full,
    empty,
    M,
    N,
    K,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
    D: gl.constexpr,
    GROUP_M: gl.constexpr,
    P: gl.constexpr,
    EN: gl.constexpr,
    KI: gl.constexpr,
    B_T: gl.constexpr,
):
    """One warp: waits for an empty slot, starts both copies into it; runs ahead across tiles."""
    num_m = gl.cdiv(M, BM)
    num_n = gl.cdiv(N, BN)
    i = 0
    for tile in range(gl.program_id(0), num_m * num_n, gl.num_programs(0)):
        pm, pn = tile_of(tile, num_m, num_n, GROUP_M)
        for k in range(0, K, BK):
            slot = i % D
            mbarrier.wait(empty.index(slot), ((i // D) & 1) ^ 1)
            bar = full.index(slot)
            mbarrier.expect(bar, a_desc.block_type.nbytes + b_desc.block_type.nbytes)
            tma_load(a_desc, [pm * BM, k], bar, a_slots.index(slot))
            if B_T:
                tma_load(b_desc, [pn * BN, k], bar, b_slots.index(slot))
            else:
                tma_load(b_desc, [k, pn * BN], bar, b_slots.index(slot))
            i += 1


@gluon.jit
def consumer(
    a_desc,
    b_desc,
    c_desc,
    a_slots,
    b_slots,
    full,
    empty,
    M,
    N,
    K,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
    D: gl.constexpr,
    GROUP_M: gl.constexpr,
    P: gl.constexpr,
    EN: gl.constexpr,
    KI: gl.constexpr,
    B_T: gl.constexpr,
):
    """All consumer warps: wgmma with P iterations in flight, release of slot i - P, then the epilogue by TMA."""
    num_m = gl.cdiv(M, BM)
    num_n = gl.cdiv(N, BN)
    acc_layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[gl.num_warps(), 1], instr_shape=[16, BN, KI]
    )
    c_stage = gl.allocate_shared_memory(c_desc.dtype, [BM, EN], c_desc.layout)
    i = 0
    for tile in range(gl.program_id(0), num_m * num_n, gl.num_programs(0)):
        pm, pn = tile_of(tile, num_m, num_n, GROUP_M)
        acc = gl.zeros((BM, BN), dtype=gl.float32, layout=acc_layout)
        for k in range(0, K, BK):
            slot = i % D
            mbarrier.wait(full.index(slot), (i // D) & 1)
            b_slot = b_slots.index(slot)
            if B_T:
                b_slot = b_slot.permute((1, 0))
            acc = warpgroup_mma(a_slots.index(slot), b_slot, acc, is_async=True, use_acc=(k != 0))
            acc = warpgroup_mma_wait(num_outstanding=P, deps=(acc,))
            mbarrier.arrive(empty.index((i + D - P) % D), count=1, pred=(k >= P * BK))
            i += 1
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        for late in gl.static_range(P):
            mbarrier.arrive(empty.index((i + D - P + late) % D), count=1, pred=((P - late - 1) * BK < K))
        c = acc.to(c_desc.dtype)
        tma.store_wait(0)
        if EN == BN:
            c_stage.store(c)
            fence_async_shared()
            tma_store(c_desc, [pm * BM, pn * BN], c_stage)
        else:
            left, right = c.reshape([BM, 2, BN // 2]).permute(0, 2, 1).split()
            half: gl.constexpr = gl.NVMMADistributedLayout(
                version=[3, 0], warps_per_cta=[gl.num_warps(), 1], instr_shape=[16, BN // 2, 16]
            )
            c_stage.store(gl.convert_layout(left, half))
            fence_async_shared()
            tma_store(c_desc, [pm * BM, pn * BN], c_stage)
            tma.store_wait(0)
            c_stage.store(gl.convert_layout(right, half))
            fence_async_shared()
            tma_store(c_desc, [pm * BM, pn * BN + EN], c_stage)
    tma.store_wait(0)


@gluon.jit
def gemm(
    a_desc,
    b_desc,
    c_desc,
    M,
    N,
    K,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
    D: gl.constexpr,
    GROUP_M: gl.constexpr,
    P: gl.constexpr,
    EN: gl.constexpr,
    KI: gl.constexpr,
    B_T: gl.constexpr,
    REGISTERS: gl.constexpr,
    num_warps: gl.constexpr,
):
    """Makes the ring and its barriers, then forks."""
    a_slots = gl.allocate_shared_memory(a_desc.dtype, [D] + a_desc.block_type.shape, a_desc.layout)  # noqa: RUF005
    b_slots = gl.allocate_shared_memory(b_desc.dtype, [D] + b_desc.block_type.shape, b_desc.layout)  # noqa: RUF005
    full = gl.allocate_shared_memory(gl.int64, [D, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [D, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(D):
        mbarrier.init(full.index(slot), count=1)
        mbarrier.init(empty.index(slot), count=1)
    gl.warp_specialize(
        [
            (
                consumer,
                (
                    a_desc,
                    b_desc,
                    c_desc,
                    a_slots,
                    b_slots,
                    full,
                    empty,
                    M,
                    N,
                    K,
                    BM,
                    BN,
                    BK,
                    D,
                    GROUP_M,
                    P,
                    EN,
                    KI,
                    B_T,
                ),
            ),
            (
                producer,
                (
                    a_desc,
                    b_desc,
                    c_desc,
                    a_slots,
                    b_slots,
                    full,
                    empty,
                    M,
                    N,
                    K,
                    BM,
                    BN,
                    BK,
                    D,
                    GROUP_M,
                    P,
                    EN,
                    KI,
                    B_T,
                ),
            ),
        ],
        [1],
        [REGISTERS],
    )


def run(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, *, b_t: bool, programs: int, BM: int = 128, BN: int = 256,
        BK: int = 64, D: int = 4, P: int = 1, EN: int = 128, GROUP_M: int = 8, num_warps: int = 8) -> Any:  # fmt: skip
    """Runs c = a @ b (or a @ b.T with `b_t`) on `programs` persistent CTAs."""
    (rows, inner), columns = a.shape, b.shape[0 if b_t else 1]
    fp8 = a.element_size() == 1
    element = gl.float8e4nv if fp8 else gl.float16
    b_block = [BN, BK] if b_t else [BK, BN]
    descriptors = [
        TensorDescriptor.from_tensor(tensor, block, gl.NVMMASharedLayout.get_default_for(block, kind))
        for tensor, block, kind in ((a, [BM, BK], element), (b, b_block, element), (c, [BM, EN], gl.float16))
    ]
    return gemm[(programs,)](*descriptors, rows, columns, inner, BM, BN, BK, D, GROUP_M, P, EN, 32 if fp8 else 16, b_t,
                             24, num_warps=num_warps)  # fmt: skip
