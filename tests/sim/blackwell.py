"""Warp-specialised Gluon kernels for compute capability 10.0, with faults to be built in, and their compile.

`products`: C = A·Bᵀ, tile by tile. Partitions: the epilogue (default), the mmas, the loads. Rings: D slots of A and B
in shared memory, which commits release; two accumulators in tensor memory.

`attention`: one block of 128 rows. Partitions: the softmax (default), which also rescales O; the mmas; the loads. P
takes the first half of the bytes of S. Q·K of the next block overwrites P behind the P·V that reads it, and its commit
also tells that this P·V is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
    tensor_memory_descriptor,
    tma,
)

from tawa.bridge.gluon.compile import with_layout
from tawa.bridge.triton.read_module import read_final
from tawa.ir import Module
from tests.support.back_end import without_ptx

copy_in = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
copy_out = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global

if hasattr(tensor_memory_descriptor, "reinterpret"):

    @gluon.jit
    def as_fp16(memory, shape: gl.constexpr, layout: gl.constexpr):
        return memory.reinterpret(gl.float16, shape, layout)

else:

    @gluon.jit
    def as_fp16(memory, shape: gl.constexpr, layout: gl.constexpr):
        return memory._reinterpret(gl.float16, shape, layout)


def blackwell_module(
    kernel: Any, boxes: Mapping[str, tuple[list[int], str]], constants: Mapping[str, Any], scalars: Mapping[str, str]
) -> Module:
    """Compiles a Gluon kernel of four warps. boxes: the box and the element type of its descriptors."""
    types = {name: "constexpr" if name in constants else scalars.get(name, "i32") for name in kernel.arg_names}
    types |= {name: with_layout(f"tensordesc<{dtype}{box}>".replace(" ", "")) for name, (box, dtype) in boxes.items()}
    source = GluonASTSource(kernel, types, {(kernel.arg_names.index(name),): it for name, it in constants.items()})
    with without_ptx():
        return read_final(triton.compile(source, target=GPUTarget("cuda", 100, 32), options={"num_warps": 4}))


@gluon.jit
def following(slot, parity, D: gl.constexpr):
    last = slot == D - 1
    return gl.where(last, 0, slot + 1), parity ^ last.to(gl.int32)


@gluon.jit
def new_barriers(D: gl.constexpr):
    made = gl.allocate_shared_memory(gl.int64, [D, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(D):
        mbarrier.init(made.index(slot), count=1)
    return made


@gluon.jit
def fill(desc, row, column, tiles, full, empty, slot, parity):
    mbarrier.wait(empty.index(slot), parity ^ 1)
    mbarrier.expect(full.index(slot), desc.block_type.nbytes)
    copy_in(desc, [row, column], full.index(slot), tiles.index(slot))


# -- products ----------------------------------------------------------------------------------------------------------


@gluon.jit
def load_operands(a, b, As, Bs, full, empty, tiles, K, BM: gl.constexpr, BK: gl.constexpr, D: gl.constexpr):
    slot, parity = gl.to_tensor(0), gl.to_tensor(0)
    for tile in range(tiles):
        for k in range(0, K, BK):
            mbarrier.wait(empty.index(slot), parity ^ 1)
            mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes)
            copy_in(a, [tile * BM, k], full.index(slot), As.index(slot))
            copy_in(b, [0, k], full.index(slot), Bs.index(slot))
            slot, parity = following(slot, parity, D)


@gluon.jit
def multiply(
    As, Bs, full, empty, acc, acc_full, acc_empty, tiles, K, BK: gl.constexpr, D: gl.constexpr, FAULT: gl.constexpr
):
    slot, parity = gl.to_tensor(0), gl.to_tensor(0)
    at, phase = gl.to_tensor(0), gl.to_tensor(0)
    for _ in range(tiles):
        mbarrier.wait(acc_empty.index(at), phase ^ 1)
        if FAULT == "the commit stands before the mmas":
            tcgen05_commit(acc_full.index(at))
        for k in range(0, K, BK):
            mbarrier.wait(full.index(slot), parity)
            use_acc = k >= 0 if FAULT == "the first step adds to the accumulator" else k > 0
            commits: gl.constexpr = FAULT != "a thread releases the operands"
            tcgen05_mma(
                As.index(slot), Bs.index(slot).permute((1, 0)), acc.index(at), use_acc=use_acc,
                mbarriers=[empty.index(slot)], mbarrier_preds=[commits],
            )  # fmt: skip
            if not commits:
                mbarrier.arrive(empty.index(slot), count=1)
            slot, parity = following(slot, parity, D)
        if FAULT == "the commit arrives at the other slot":
            tcgen05_commit(acc_full.index(at ^ 1))
        elif FAULT != "no commit" and FAULT != "the commit stands before the mmas":
            tcgen05_commit(acc_full.index(at))
        at, phase = following(at, phase, 2)


@gluon.jit
def store_results(c, acc, acc_full, acc_empty, tiles, BM: gl.constexpr, BN: gl.constexpr, FAULT: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, BN // 2], [32, 1], [4, 1], [0, 1])
    staging = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    at, phase = gl.to_tensor(0), gl.to_tensor(0)
    for tile in range(tiles):
        if FAULT != "the epilogue does not wait":
            mbarrier.wait(acc_full.index(at), phase)
        if FAULT == "the accumulator is released before its load":
            mbarrier.arrive(acc_empty.index(at), count=1)
        for half in gl.static_range(2):
            part = acc.index(at).slice(half * (BN // 2), BN // 2).load(layout)
            if half == 1 and FAULT != "the accumulator is released before its load":
                mbarrier.arrive(acc_empty.index(at), count=1)
            staging.store(part.to(c.dtype))
            fence_async_shared()
            copy_out(c, [tile * BM, half * (BN // 2)], staging)
            tma.store_wait(0)
        at, phase = following(at, phase, 2)


@gluon.jit
def products(
    a, b, c, tiles, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, D: gl.constexpr, FAULT: gl.constexpr
):
    As = gl.allocate_shared_memory(a.dtype, [D, BM, BK], a.layout)
    Bs = gl.allocate_shared_memory(b.dtype, [D, BN, BK], b.layout)
    acc = allocate_tensor_memory(gl.float32, [2, BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    full, empty, acc_full, acc_empty = new_barriers(D), new_barriers(D), new_barriers(2), new_barriers(2)
    gl.warp_specialize(
        [
            (store_results, (c, acc, acc_full, acc_empty, tiles, BM, BN, FAULT)),
            (multiply, (As, Bs, full, empty, acc, acc_full, acc_empty, tiles, K, BK, D, FAULT)),
            (load_operands, (a, b, As, Bs, full, empty, tiles, K, BM, BK, D)),
        ],
        [1, 1],
        [24, 24],
    )


def products_module(fault: str = "", BM: int = 128, BN: int = 64, BK: int = 32, D: int = 2) -> Module:
    """The kernel `products`; its arguments are a, b, c, tiles and K."""
    constants = {"BM": BM, "BN": BN, "BK": BK, "D": D, "FAULT": fault}
    boxes = {"a": ([BM, BK], "fp16"), "b": ([BN, BK], "fp16"), "c": ([BM, BN // 2], "fp16")}
    return blackwell_module(products, boxes, constants, {})


# -- attention ---------------------------------------------------------------------------------------------------------


@gluon.jit
def load_all(q, k, v, Q, q_full, KV, full, empty, S, BN: gl.constexpr, D: gl.constexpr):
    mbarrier.expect(q_full.index(0), q.block_type.nbytes)
    copy_in(q, [0, 0], q_full.index(0), Q)
    slot, parity = gl.to_tensor(0), gl.to_tensor(0)
    for n in range(0, S, BN):
        fill(k, n, 0, KV, full, empty, slot, parity)
        slot, parity = following(slot, parity, D)
        if n > 0:
            fill(v, n - BN, 0, KV, full, empty, slot, parity)
            slot, parity = following(slot, parity, D)
    fill(v, S - BN, 0, KV, full, empty, slot, parity)


@gluon.jit
def attend(
    Q, q_full, KV, full, empty, s, s_full, p, p_full, o, o_full, S,
    BN: gl.constexpr, D: gl.constexpr, FAULT: gl.constexpr,
):  # fmt: skip
    slot, parity, phase = gl.to_tensor(0), gl.to_tensor(0), gl.to_tensor(0)
    mbarrier.wait(q_full.index(0), 0)
    mbarrier.wait(full.index(slot), parity)
    keys = KV.index(slot).permute((1, 0))
    tcgen05_mma(Q, keys, s.index(0), use_acc=False, mbarriers=[s_full.index(0), empty.index(slot)])
    slot, parity = following(slot, parity, D)
    for n in range(BN, S, BN):
        key_slot, key_parity = slot, parity
        slot, parity = following(slot, parity, D)
        mbarrier.wait(full.index(key_slot), key_parity)
        mbarrier.wait(full.index(slot), parity)
        keys = KV.index(key_slot).permute((1, 0))
        if FAULT != "P is not waited for":
            mbarrier.wait(p_full.index(0), phase)
        tcgen05_mma(p, KV.index(slot), o, use_acc=n > BN, mbarriers=[empty.index(slot)])
        tcgen05_mma(Q, keys, s.index(0), use_acc=False, mbarriers=[empty.index(key_slot), s_full.index(0)])
        slot, parity = following(slot, parity, D)
        phase ^= 1
    mbarrier.wait(full.index(slot), parity)
    mbarrier.wait(p_full.index(0), phase)
    tcgen05_mma(p, KV.index(slot), o, use_acc=S > BN, mbarriers=[o_full.index(0)])


@gluon.jit
def softmax(
    out, staging, s, s_full, p, p_full, o, o_full, scale, S,
    BM: gl.constexpr, BN: gl.constexpr, H: gl.constexpr, FAULT: gl.constexpr,
):  # fmt: skip
    layout: gl.constexpr = gl.BlockedLayout([1, BN], [32, 1], [4, 1], [0, 1])
    wide: gl.constexpr = gl.BlockedLayout([1, H], [32, 1], [4, 1], [0, 1])
    phase = gl.to_tensor(0)
    high = gl.full([BM], float("-inf"), gl.float32, gl.SliceLayout(1, layout))
    total = gl.full([BM], 0.0, gl.float32, gl.SliceLayout(1, layout))
    for n in range(0, S, BN):
        mbarrier.wait(s_full.index(0), phase)
        scores = s.index(0).load(layout)
        new = gl.maximum(high, gl.max(scores, 1) * scale)
        factor = gl.exp2(high - new)
        weights = gl.exp2(scores * scale - gl.expand_dims(new, 1))
        if FAULT == "P is announced before it is stored":
            mbarrier.arrive(p_full.index(0), count=1)
        p.store(weights.to(gl.float16))
        if n > 0:
            o.store(o.load(wide) * gl.expand_dims(gl.convert_layout(factor, gl.SliceLayout(1, wide)), 1))
        if FAULT != "P is announced before it is stored":
            mbarrier.arrive(p_full.index(0), count=1)
        total = total * factor + gl.sum(weights, 1)
        high = new
        phase ^= 1
    if FAULT != "O is not waited for":
        mbarrier.wait(o_full.index(0), 0)
    result = o.load(wide) / gl.expand_dims(gl.convert_layout(total, gl.SliceLayout(1, wide)), 1)
    staging.store(result.to(out.dtype))
    fence_async_shared()
    copy_out(out, [0, 0], staging)
    tma.store_wait(0)


@gluon.jit
def attention(
    q, k, v, out, scale, S,
    BM: gl.constexpr, BN: gl.constexpr, H: gl.constexpr, D: gl.constexpr, FAULT: gl.constexpr,
):  # fmt: skip
    Q = gl.allocate_shared_memory(q.dtype, [BM, H], q.layout)
    KV = gl.allocate_shared_memory(k.dtype, [D, BN, H], k.layout)
    staging = gl.allocate_shared_memory(out.dtype, [BM, H], out.layout)
    s = allocate_tensor_memory(gl.float32, [1, BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    o = allocate_tensor_memory(gl.float32, [BM, H], TensorMemoryLayout([BM, H], col_stride=1))
    p = as_fp16(s, [1, BM, 2 * BN], TensorMemoryLayout([BM, 2 * BN], col_stride=1)).index(0).slice(0, BN)
    q_full, full, empty = new_barriers(1), new_barriers(D), new_barriers(D)
    s_full, p_full, o_full = new_barriers(1), new_barriers(1), new_barriers(1)
    gl.warp_specialize(
        [
            (softmax, (out, staging, s, s_full, p, p_full, o, o_full, scale, S, BM, BN, H, FAULT)),
            (attend, (Q, q_full, KV, full, empty, s, s_full, p, p_full, o, o_full, S, BN, D, FAULT)),
            (load_all, (q, k, v, Q, q_full, KV, full, empty, S, BN, D)),
        ],
        [1, 1],
        [24, 24],
    )


def attention_module(fault: str = "", BM: int = 128, BN: int = 64, H: int = 64, D: int = 3) -> Module:
    """The kernel `attention`; its arguments are q, k, v, out, scale (with log2 e) and S."""
    constants = {"BM": BM, "BN": BN, "H": H, "D": D, "FAULT": fault}
    boxes = {"q": ([BM, H], "fp16"), "k": ([BN, H], "fp16"), "v": ([BN, H], "fp16"), "out": ([BM, H], "fp16")}
    return blackwell_module(attention, boxes, constants, {"scale": "fp32"})
