"""Attention backward for d = 256 by hand in Gluon: one kernel of five dots, in which two groups do different work.

A program owns 64 keys: dK and dV of 64 keys in float32 are what the registers of two groups of four warps can hold,
half of the columns each. Both groups work on each block of 64 queries:

    scores    S = Q K^T      P = exp2(S - lse), to shared memory      dQ of the block before, dV += P^T dO, dK += dS^T Q
    slopes    dP = dO V^T    dS = P (dP - delta), to shared memory    the same, for the other columns

P and dS are stored once, as queries by keys, and read turned as left operands of dV and dK. dQ = dS K is one block
behind: its dots run while P is computed. The rings of P and dS have two slots and no barriers for "empty": what a group
has received from the other implies that the other's dots of two blocks before are done.

dQ is added to float32 in memory, in the order of an accumulator's registers, and `after` puts it in place. The groups
add it from registers, four numbers at a time; or (TMA) they stage it, and a warp of its own adds it, for which shared
memory has room if dO has one slot (OS). PARTS and OTHER are the dots into which the groups divide their columns of dQ:
with two, fewer registers are needed while other dots are in flight, but dS is read twice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.language.core import _aggregate as aggregate

tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@builtin
def tma_add(desc, coord, src, _semantic=None):
    """desc[coord] += src by TMA. Gluon of Triton 3.6 has the operation, and no name for it."""
    coord = _semantic._convert_to_ir_values(coord, require_i64=False)
    _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, desc.handle, coord, src.handle)


@aggregate
class Shared:
    """Tiles and rows in shared memory, and their barriers; `staged` are parts of dQ, one of each group."""

    q: gl.shared_memory_descriptor
    k: gl.shared_memory_descriptor
    v: gl.shared_memory_descriptor
    do: gl.shared_memory_descriptor
    lse: gl.shared_memory_descriptor
    delta: gl.shared_memory_descriptor
    p: gl.shared_memory_descriptor
    ds: gl.shared_memory_descriptor
    k_full: gl.shared_memory_descriptor
    v_full: gl.shared_memory_descriptor
    q_full: gl.shared_memory_descriptor
    q_empty: gl.shared_memory_descriptor
    do_full: gl.shared_memory_descriptor
    do_empty: gl.shared_memory_descriptor
    p_full: gl.shared_memory_descriptor
    ds_full: gl.shared_memory_descriptor
    free: gl.shared_memory_descriptor
    staged: gl.tuple
    staged_full: gl.tuple
    staged_empty: gl.tuple

    @gluon.constexpr_function
    def __init__(self, tiles, barriers, staged):
        self.q, self.k, self.v, self.do, self.lse, self.delta, self.p, self.ds = tiles
        (self.k_full, self.v_full, self.q_full, self.q_empty, self.do_full, self.do_empty, self.p_full, self.ds_full,
         self.free) = barriers  # fmt: skip
        self.staged, self.staged_full, self.staged_empty = staged


@gluon.jit
def block_of(i, first, count, TURN: gl.constexpr):
    """The i-th block of queries; with TURN each program begins with another one."""
    j = i
    if TURN:
        j = i + gl.program_id(0)
        j = gl.where(j >= count, j - count, j)
    return first + j


@gluon.jit
def producer(shared, q_d, k_d, v_d, do_d, lse_d, delta_d, first, count, L, B: gl.constexpr, OS: gl.constexpr,
             TURN: gl.constexpr):  # fmt: skip
    """One warp: K, V, then the blocks of Q and dO with their rows."""
    QB: gl.constexpr = q_d.block_type.nbytes + lse_d.block_type.nbytes
    OB: gl.constexpr = do_d.block_type.nbytes + delta_d.block_type.nbytes
    base = gl.program_id(1) * L
    row = base + gl.program_id(0) * B
    mbarrier.expect(shared.k_full, k_d.block_type.nbytes)
    tma_load(k_d, [row, 0], shared.k_full, shared.k)
    for i in range(count):
        m = base + block_of(i, first, count, TURN) * B
        s = i % 2
        o = i % OS
        mbarrier.wait(shared.q_empty.index(s), ((i // 2) & 1) ^ 1)
        mbarrier.expect(shared.q_full.index(s), QB)
        tma_load(q_d, [m, 0], shared.q_full.index(s), shared.q.index(s))
        tma_load(lse_d, [m], shared.q_full.index(s), shared.lse.index(s))
        if i == 0:
            mbarrier.expect(shared.v_full, v_d.block_type.nbytes)
            tma_load(v_d, [row, 0], shared.v_full, shared.v)
        mbarrier.wait(shared.do_empty.index(o), ((i // OS) & 1) ^ 1)
        mbarrier.expect(shared.do_full.index(o), OB)
        tma_load(do_d, [m, 0], shared.do_full.index(o), shared.do.index(o))
        tma_load(delta_d, [m], shared.do_full.index(o), shared.delta.index(o))


@gluon.jit
def adder(shared, dq_d, first, count, L, B: gl.constexpr, HD: gl.constexpr, PARTS: gl.constexpr, TMA: gl.constexpr,
          TURN: gl.constexpr):  # fmt: skip
    """Adds the staged parts of dQ to memory."""
    if TMA:
        ROWS: gl.constexpr = B * HD // 2 // PARTS // 256
        tile = gl.program_id(1) * (L // B)
        for i in range(count):
            for part in gl.static_range(PARTS):
                for g in gl.static_range(2):
                    mbarrier.wait(shared.staged_full[g], (i * PARTS + part) & 1)
                    at = ((tile + block_of(i, first, count, TURN)) * 2 + g) * PARTS + part
                    tma_add(dq_d, [at * ROWS, 0], shared.staged[g])
                for g in gl.static_range(2):
                    tma.store_wait(1 - g)
                    mbarrier.arrive(shared.staged_empty[g], count=1)
        tma.store_wait(0)


@gluon.jit
def dot_dq(W: gl.constexpr, part: gl.constexpr, i, shared, B: gl.constexpr, HD: gl.constexpr, PARTS: gl.constexpr):
    """A part of this group's columns of dQ(i), in flight."""
    N: gl.constexpr = HD // 2 // PARTS
    zero = gl.zeros([B, N], gl.float32, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16]))
    columns = shared.k.slice(W * (HD // 2) + part * N, N, dim=1)
    return warpgroup_mma(shared.ds.index(i % 2), columns, zero, use_acc=False, is_async=True)


@gluon.jit
def dot_dk(W: gl.constexpr, i, dk, shared, HD: gl.constexpr):
    """This group's columns of dK += dS(i)^T Q(i), in flight."""
    columns = shared.q.index(i % 2).slice(W * (HD // 2), HD // 2, dim=1)
    return warpgroup_mma(shared.ds.index(i % 2).permute((1, 0)), columns, dk, is_async=True)


@gluon.jit
def dot_dv(W: gl.constexpr, i, dv, shared, HD: gl.constexpr, OS: gl.constexpr):
    """This group's columns of dV += P(i)^T dO(i), in flight."""
    columns = shared.do.index(i % OS).slice(W * (HD // 2), HD // 2, dim=1)
    return warpgroup_mma(shared.p.index(i % 2).permute((1, 0)), columns, dv, is_async=True)


@gluon.jit
def add_dq(W: gl.constexpr, part: gl.constexpr, i, dQ, first, count, shared, dq_p, L, B: gl.constexpr,
           HD: gl.constexpr, PARTS: gl.constexpr, TMA: gl.constexpr, TURN: gl.constexpr):  # fmt: skip
    """Adds a part of dQ(i) to memory or hands it to `adder`, in the order (8 columns, thread, 4 registers)."""
    N: gl.constexpr = HD // 2 // PARTS
    ROWS: gl.constexpr = B * N // 256
    x = dQ.reshape([4, 2, 8, N // 8, 4, 2]).permute([3, 0, 2, 4, 1, 5]).reshape([ROWS, 256])
    if TMA:
        mbarrier.wait(shared.staged_empty[W], ((i * PARTS + part) & 1) ^ 1)
        shared.staged[W].store(x)
        fence_async_shared()
        mbarrier.arrive(shared.staged_full[W], count=1)
    else:
        lay: gl.constexpr = x.type.layout
        tile = ((gl.program_id(1) * (L // B) + block_of(i, first, count, TURN)) * 2 + W) * PARTS + part
        rows = gl.arange(0, ROWS, gl.SliceLayout(1, lay))[:, None]
        columns = gl.arange(0, 256, gl.SliceLayout(0, lay))[None, :]
        gl.atomic_add(dq_p + tile.to(gl.int64) * (ROWS * 256) + (rows * 256 + columns), x, sem="relaxed")


@gluon.jit
def probabilities(i, S, shared, scale, B: gl.constexpr, MASK: gl.constexpr):
    """P of a block of products; with MASK the block is on the diagonal."""
    lay: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, B, 16])
    lse = shared.lse.index(i % 2).load(gl.SliceLayout(1, lay))
    if MASK:
        rows = gl.arange(0, B, gl.SliceLayout(1, lay))
        S = gl.where(gl.arange(0, B, gl.SliceLayout(0, lay))[None, :] <= rows[:, None], S, float("-inf"))
    return gl.exp2(S * scale - lse[:, None]).to(shared.q.dtype)


@gluon.jit
def share(tile, ring, full, i):
    """Stores a tile for both groups."""
    ring.index(i % 2).store(tile)
    fence_async_shared()
    mbarrier.arrive(full.index(i % 2), count=1)


@gluon.jit
def dot_s(i, shared, B: gl.constexpr):
    """S(i), in flight, once Q(i) is there."""
    zero = gl.zeros([B, B], gl.float32, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, B, 16]))
    mbarrier.wait(shared.q_full.index(i % 2), (i // 2) & 1)
    return warpgroup_mma(shared.q.index(i % 2), shared.k.permute((1, 0)), zero, use_acc=False, is_async=True)


@gluon.jit
def dot_dp(i, shared, B: gl.constexpr, OS: gl.constexpr):
    """dP(i), in flight, once dO(i) is there."""
    zero = gl.zeros([B, B], gl.float32, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, B, 16]))
    mbarrier.wait(shared.do_full.index(i % OS), (i // OS) & 1)
    return warpgroup_mma(shared.do.index(i % OS), shared.v.permute((1, 0)), zero, use_acc=False, is_async=True)


@gluon.jit
def finish(W: gl.constexpr, dk, dv, shared, dk_d, dv_d, L, scale, B: gl.constexpr, HD: gl.constexpr):
    """Stores dK and dV in the place of K and V, once both groups have read these."""
    H: gl.constexpr = HD // 2
    row = gl.program_id(1) * L + gl.program_id(0) * B
    mbarrier.arrive(shared.free, count=1)
    mbarrier.wait(shared.free, 0)
    shared.v.slice(W * H, H, dim=1).store(dv.to(dv_d.dtype))
    shared.k.slice(W * H, H, dim=1).store((dk * scale).to(dk_d.dtype))
    fence_async_shared()
    tma_store(dv_d, [row, W * H], shared.v.slice(W * H, H, dim=1))
    tma_store(dk_d, [row, W * H], shared.k.slice(W * H, H, dim=1))
    tma.store_wait(0)


@gluon.jit
def scores(shared, dk_d, dv_d, dq_p, first, count, L, scale, B: gl.constexpr, HD: gl.constexpr, OS: gl.constexpr,
           PARTS: gl.constexpr, CAUSAL: gl.constexpr, TMA: gl.constexpr, TURN: gl.constexpr,
           LATE: gl.constexpr):  # fmt: skip
    """The group that computes P."""
    lay: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HD // 2, 16])
    W: gl.constexpr = 0
    qk_scale = scale * 1.4426950408889634
    dk = gl.zeros([B, HD // 2], gl.float32, lay)
    dv = gl.zeros([B, HD // 2], gl.float32, lay)
    mbarrier.wait(shared.k_full, 0)
    S = dot_s(0, shared, B)
    S = warpgroup_mma_wait(0, deps=(S,))
    share(probabilities(0, S, shared, qk_scale, B, CAUSAL), shared.p, shared.p_full, 0)
    mbarrier.wait(shared.do_full.index(0), 0)
    dv = dot_dv(W, 0, dv, shared, HD, OS)
    mbarrier.wait(shared.ds_full.index(0), 0)
    dk = dot_dk(W, 0, dk, shared, HD)
    if OS == 1:
        dv = warpgroup_mma_wait(1, deps=(dv,))
        mbarrier.arrive(shared.do_empty.index(0), count=1)
    b = 0
    for i in range(1, count):
        S = dot_s(i, shared, B)
        if PARTS == 2:
            dQ = dot_dq(W, 0, b, shared, B, HD, PARTS)
        if OS == 1:
            S, dk = warpgroup_mma_wait(PARTS - 1, deps=(S, dk))
        else:
            S, dk, dv = warpgroup_mma_wait(PARTS - 1, deps=(S, dk, dv))
            mbarrier.arrive(shared.do_empty.index(b % OS), count=1)
        mbarrier.arrive(shared.q_empty.index(b % 2), count=1)
        share(probabilities(i, S, shared, qk_scale, B, False), shared.p, shared.p_full, i)
        last = dot_dq(W, PARTS - 1, b, shared, B, HD, PARTS)
        mbarrier.wait(shared.do_full.index(i % OS), (i // OS) & 1)
        dv = dot_dv(W, i, dv, shared, HD, OS)
        if LATE:
            mbarrier.wait(shared.ds_full.index(i % 2), (i // 2) & 1)
            dk = dot_dk(W, i, dk, shared, HD)
        if PARTS == 2:
            dQ = warpgroup_mma_wait(2 + LATE, deps=(dQ,))
            add_dq(W, 0, b, dQ, first, count, shared, dq_p, L, B, HD, PARTS, TMA, TURN)
        last = warpgroup_mma_wait(1 + LATE, deps=(last,))
        add_dq(W, PARTS - 1, b, last, first, count, shared, dq_p, L, B, HD, PARTS, TMA, TURN)
        if not LATE:
            mbarrier.wait(shared.ds_full.index(i % 2), (i // 2) & 1)
            dk = dot_dk(W, i, dk, shared, HD)
        if OS == 1:
            dv = warpgroup_mma_wait(1, deps=(dv,))
            mbarrier.arrive(shared.do_empty.index(0), count=1)
        b = i
    for part in gl.static_range(PARTS):
        dQ = dot_dq(W, part, b, shared, B, HD, PARTS)
        dQ = warpgroup_mma_wait(0, deps=(dQ,))
        add_dq(W, part, b, dQ, first, count, shared, dq_p, L, B, HD, PARTS, TMA, TURN)
    dk, dv = warpgroup_mma_wait(0, deps=(dk, dv))
    finish(W, dk, dv, shared, dk_d, dv_d, L, scale, B, HD)


@gluon.jit
def slopes(shared, dk_d, dv_d, dq_p, first, count, L, scale, B: gl.constexpr, HD: gl.constexpr, OS: gl.constexpr,
           PARTS: gl.constexpr, CAUSAL: gl.constexpr, TMA: gl.constexpr, TURN: gl.constexpr,
           LATE: gl.constexpr):  # fmt: skip
    """The group that computes dS."""
    lay: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HD // 2, 16])
    tile: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, B, 16])
    W: gl.constexpr = 1
    dk = gl.zeros([B, HD // 2], gl.float32, lay)
    dv = gl.zeros([B, HD // 2], gl.float32, lay)
    mbarrier.wait(shared.k_full, 0)
    mbarrier.wait(shared.v_full, 0)
    dP = dot_dp(0, shared, B, OS)
    dP = warpgroup_mma_wait(0, deps=(dP,))
    delta = shared.delta.index(0).load(gl.SliceLayout(1, tile))
    mbarrier.wait(shared.p_full.index(0), 0)
    P = shared.p.index(0).load(tile)
    dv = dot_dv(W, 0, dv, shared, HD, OS)
    share((P.to(gl.float32) * (dP - delta[:, None])).to(shared.q.dtype), shared.ds, shared.ds_full, 0)
    mbarrier.wait(shared.q_full.index(0), 0)
    dk = dot_dk(W, 0, dk, shared, HD)
    if OS == 1:
        dv = warpgroup_mma_wait(1, deps=(dv,))
        mbarrier.arrive(shared.do_empty.index(0), count=1)
    b = 0
    for i in range(1, count):
        dQ = dot_dq(W, 0, b, shared, B, HD, PARTS)
        if OS == 1:
            dQ, dk = warpgroup_mma_wait(0, deps=(dQ, dk))
            mbarrier.arrive(shared.q_empty.index(b % 2), count=1)
            if PARTS == 2:
                last = dot_dq(W, 1, b, shared, B, HD, PARTS)
            add_dq(W, 0, b, dQ, first, count, shared, dq_p, L, B, HD, PARTS, TMA, TURN)
            dP = dot_dp(i, shared, B, OS)
            if PARTS == 2:
                last = warpgroup_mma_wait(1, deps=(last,))
                add_dq(W, 1, b, last, first, count, shared, dq_p, L, B, HD, PARTS, TMA, TURN)
            dP = warpgroup_mma_wait(0, deps=(dP,))
        elif PARTS == 2:
            dP = dot_dp(i, shared, B, OS)
            dQ, dk, dv = warpgroup_mma_wait(1, deps=(dQ, dk, dv))
            mbarrier.arrive(shared.do_empty.index(b % OS), count=1)
            mbarrier.arrive(shared.q_empty.index(b % 2), count=1)
            add_dq(W, 0, b, dQ, first, count, shared, dq_p, L, B, HD, PARTS, TMA, TURN)
            last = dot_dq(W, 1, b, shared, B, HD, PARTS)
            dP = warpgroup_mma_wait(1, deps=(dP,))
        else:
            dQ, dk, dv = warpgroup_mma_wait(0, deps=(dQ, dk, dv))
            mbarrier.arrive(shared.do_empty.index(b % OS), count=1)
            mbarrier.arrive(shared.q_empty.index(b % 2), count=1)
            add_dq(W, 0, b, dQ, first, count, shared, dq_p, L, B, HD, PARTS, TMA, TURN)
            dP = dot_dp(i, shared, B, OS)
            dP = warpgroup_mma_wait(0, deps=(dP,))
        delta = shared.delta.index(i % OS).load(gl.SliceLayout(1, tile))
        mbarrier.wait(shared.p_full.index(i % 2), (i // 2) & 1)
        P = shared.p.index(i % 2).load(tile)
        dv = dot_dv(W, i, dv, shared, HD, OS)
        share((P.to(gl.float32) * (dP - delta[:, None])).to(shared.q.dtype), shared.ds, shared.ds_full, i)
        mbarrier.wait(shared.q_full.index(i % 2), (i // 2) & 1)
        dk = dot_dk(W, i, dk, shared, HD)
        if OS == 1:
            dv = warpgroup_mma_wait(1, deps=(dv,))
            mbarrier.arrive(shared.do_empty.index(0), count=1)
        elif PARTS == 2:
            last = warpgroup_mma_wait(2, deps=(last,))
            add_dq(W, 1, b, last, first, count, shared, dq_p, L, B, HD, PARTS, TMA, TURN)
        b = i
    for part in gl.static_range(PARTS):
        dQ = dot_dq(W, part, b, shared, B, HD, PARTS)
        dQ = warpgroup_mma_wait(0, deps=(dQ,))
        add_dq(W, part, b, dQ, first, count, shared, dq_p, L, B, HD, PARTS, TMA, TURN)
    dk, dv = warpgroup_mma_wait(0, deps=(dk, dv))
    finish(W, dk, dv, shared, dk_d, dv_d, L, scale, B, HD)


@gluon.jit
def ring(D: gl.constexpr, count: gl.constexpr):
    """Barriers of D slots."""
    made = gl.allocate_shared_memory(gl.int64, [D, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(D):
        mbarrier.init(made.index(slot), count=count)
    return made


@gluon.jit
def one(count: gl.constexpr):
    """A barrier."""
    made = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(made, count=count)
    return made


@gluon.jit
def backward(q_d, k_d, v_d, do_d, lse_d, delta_d, dq_d, dk_d, dv_d, dq_p, L, scale, B: gl.constexpr, HD: gl.constexpr,
             OS: gl.constexpr, PARTS: gl.constexpr, OTHER: gl.constexpr, CAUSAL: gl.constexpr, TMA: gl.constexpr,
             TURN: gl.constexpr, LATE: gl.constexpr, num_warps: gl.constexpr):  # fmt: skip
    """Makes the rings and their barriers, then forks. Grid: blocks of keys, heads of all batches."""
    first = gl.program_id(0) if CAUSAL else 0
    count = L // B - first
    gl.static_assert(not (CAUSAL and TURN) and (PARTS == OTHER or not TMA))
    gl.assume(L >= B)
    gl.assume(count > 0)
    dt: gl.constexpr = q_d.dtype
    exchanged: gl.constexpr = gl.NVMMASharedLayout.get_default_for([B, B], dt)
    tiles = (
        gl.allocate_shared_memory(dt, [2, B, HD], q_d.layout),
        gl.allocate_shared_memory(dt, [B, HD], k_d.layout),
        gl.allocate_shared_memory(dt, [B, HD], v_d.layout),
        gl.allocate_shared_memory(dt, [OS, B, HD], do_d.layout),
        gl.allocate_shared_memory(gl.float32, [2, B], lse_d.layout),
        gl.allocate_shared_memory(gl.float32, [OS, B], delta_d.layout),
        gl.allocate_shared_memory(dt, [2, B, B], exchanged),
        gl.allocate_shared_memory(dt, [2, B, B], exchanged),
    )
    staged = ((), (), ())
    if TMA:
        shape: gl.constexpr = [B * HD // 2 // PARTS // 256, 256]
        buffers = (
            gl.allocate_shared_memory(gl.float32, shape, dq_d.layout),
            gl.allocate_shared_memory(gl.float32, shape, dq_d.layout),
        )
        staged = (buffers, (one(1), one(1)), (one(1), one(1)))
    barriers = (one(1), one(1), ring(2, 1), ring(2, 2), ring(OS, 1), ring(OS, 2), ring(2, 1), ring(2, 1), one(2))
    shared = Shared(tiles, barriers, staged)
    gl.warp_specialize(
        [
            (scores, (shared, dk_d, dv_d, dq_p, first, count, L, scale, B, HD, OS, PARTS, CAUSAL, TMA, TURN, LATE)),
            (slopes, (shared, dk_d, dv_d, dq_p, first, count, L, scale, B, HD, OS, OTHER, CAUSAL, TMA, TURN, LATE)),
            (producer, (shared, q_d, k_d, v_d, do_d, lse_d, delta_d, first, count, L, B, OS, TURN)),
            (adder, (shared, dq_d, first, count, L, B, HD, PARTS, TMA, TURN)),
        ],
        [4, 1, 1],
        [240, 24, 24],
    )  # fmt: skip


@triton.jit
def before(o_ptr, do_ptr, d_ptr, dq_ptr, HD: tl.constexpr, B: tl.constexpr):
    """delta = rowsum(O * dO), and zeros for the sums of dQ."""
    rows = tl.program_id(0) * B + tl.arange(0, B)
    at = rows[:, None] * HD + tl.arange(0, HD)[None, :]
    o, do = tl.load(o_ptr + at).to(tl.float32), tl.load(do_ptr + at).to(tl.float32)
    tl.store(d_ptr + rows, tl.sum(o * do, 1))
    tl.store(dq_ptr + at, tl.zeros([B, HD], tl.float32))


@triton.jit
def after(sums_ptr, dq_ptr, scale, B: tl.constexpr, HD: tl.constexpr):
    """dQ from its sums: halves of B rows, each as `add_dq` put it."""
    H: tl.constexpr = HD // 2
    t = tl.program_id(0)
    x = tl.load(sums_ptr + t.to(tl.int64) * (B * H) + tl.arange(0, B * H))
    x = x.reshape(H // 8, 4, 8, 4, 2, 2).permute(1, 4, 2, 0, 3, 5).reshape(B, H)
    at = (t // 2 * B + tl.arange(0, B))[:, None] * HD + t % 2 * H + tl.arange(0, H)[None, :]
    tl.store(dq_ptr + at, (x * scale).to(dq_ptr.dtype.element_ty))


@dataclass(frozen=True, slots=True)
class Variant:
    """How dQ is added: by TMA or from registers, in so many parts by each group; the slots for dO.

    turn: as in `block_of`. late: the group of P adds its columns of dQ once dS has come, not while it waits for dS.
    """

    parts: tuple[int, int] = (1, 1)
    slots: int = 2
    tma: bool = False
    turn: bool = False
    late: bool = False


VARIANTS = {
    "1 part": Variant(),
    "2 parts": Variant((2, 2)),
    "1 and 2 parts": Variant((1, 2)),
    "1 and 2 parts, late": Variant((1, 2), late=True),
    "1 and 2 parts, turned": Variant((1, 2), turn=True),
    "TMA": Variant((2, 2), slots=1, tma=True),
}
BLOCK = 64


def flat(rank: int) -> Any:
    """The layout of rows and blocks of float32."""
    return gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=rank)


def constants(head_dim: int, causal: bool, variant: Variant) -> dict[str, Any]:
    """Of the kernel."""
    return {"B": BLOCK, "HD": head_dim, "OS": variant.slots, "PARTS": variant.parts[0], "OTHER": variant.parts[1],
            "CAUSAL": causal, "TMA": variant.tma, "TURN": variant.turn and not causal, "LATE": variant.late,
            "num_warps": 4}  # fmt: skip


def boxes(head_dim: int, variant: Variant) -> dict[str, tuple[str, list[int]]]:
    """Element type and shape of the block of each descriptor."""
    tile, half, row = ("bf16", [BLOCK, head_dim]), ("bf16", [BLOCK, head_dim // 2]), ("fp32", [BLOCK])
    sums = ("fp32", [BLOCK * head_dim // 2 // variant.parts[0] // 256, 256])
    return {"q_d": tile, "k_d": tile, "v_d": tile, "do_d": tile, "lse_d": row, "delta_d": row, "dq_d": sums,
            "dk_d": half, "dv_d": half}  # fmt: skip


def prepare(
    q: Any, k: Any, v: Any, o: Any, do: Any, lse: Any,
    causal: bool, variant: Variant,
) -> tuple[Callable[[], tuple[Any, ...]], Callable[[], Any]]:  # fmt: skip
    """The whole backward pass, which returns dQ, dK and dV, and a function that compiles its kernels.

    q, k, v, o, do: tensors (B, H, L, d) in bfloat16, contiguous; L a multiple of 64. lse: (B, H, L) in float32, to base
    2.
    """
    import torch

    batch, heads, length, head_dim = q.shape
    rows = batch * heads * length
    sums = torch.empty(rows * head_dim, device=q.device)
    delta = torch.empty(rows, device=q.device)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    viewed = {"q_d": q, "k_d": k, "v_d": v, "do_d": do, "lse_d": lse, "delta_d": delta, "dq_d": sums, "dk_d": dk,
              "dv_d": dv}  # fmt: skip
    descriptors: list[Any] = []
    for name, (element, box) in boxes(head_dim, variant).items():
        bits = element == "bf16"
        shape = [rows, head_dim] if bits else [-1] if len(box) == 1 else [-1, 256]
        layout = gl.NVMMASharedLayout.get_default_for(box, gl.bfloat16) if bits else flat(len(box))
        descriptors.append(TensorDescriptor.from_tensor(viewed[name].view(shape), box, layout))
    scale = head_dim**-0.5
    calls: tuple[tuple[Any, tuple[int, ...], tuple[Any, ...], dict[str, Any]], ...] = (
        (before, (rows // 32,), (o, do, delta, sums, head_dim, 32), {}),
        (backward, (length // BLOCK, batch * heads), (*descriptors, sums, length, scale),
         constants(head_dim, causal, variant)),
        (after, (2 * rows // BLOCK,), (sums, dq, scale, BLOCK, head_dim), {}),
    )  # fmt: skip

    def run() -> tuple[Any, ...]:
        for kernel, grid, args, options in calls:
            kernel[grid](*args, **options)
        return dq, dk, dv

    def compiled() -> list[Any]:
        return [kernel.warmup(*args, grid=grid, **options) for kernel, grid, args, options in calls]

    return run, compiled
