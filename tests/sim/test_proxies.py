"""Two proxies in Gluon: without a fence, generic and asynchronous accesses of a slot are unordered."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

pytest.importorskip("triton.experimental.gluon")

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from tawa.ir import Module
from tawa.sim import Descriptor, simulate
from tawa.sim.errors import MissingFence
from tawa.sim.machine.cta import Order
from tawa.verify.barriers import check_barriers
from tawa.verify.run.memory import FENCED_READS
from tawa.verify.verdict import Proved, Refuted
from tests.matrix.gluon import gluon_module
from tests.support.verdicts import passes

tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared


@gluon.jit
def first_use(slot, x, full, READ: gl.constexpr, FENCE: gl.constexpr):
    """Threads write the slot, or read what TMA has written."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    if READ:
        mbarrier.expect(full, x.block_type.nbytes)
        tma_load(x, [0, 0], full, slot)
        mbarrier.wait(full, 0)
        used = slot.load(layout)
    else:
        used = gl.full([64, 64], 1.0, gl.float16, layout)
        slot.store(used)
    if FENCE:
        fence_async_shared()
    return used


@gluon.jit
def finish(slot, o, full, used, READ: gl.constexpr):
    """Stores the sum of what was used first and of what TMA has written then."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    mbarrier.wait(full, 1 if READ else 0)
    rows, columns = gl.arange(0, 64, gl.SliceLayout(1, layout)), gl.arange(0, 64, gl.SliceLayout(0, layout))
    gl.store(o + rows[:, None] * 64 + columns[None, :], used + slot.load(layout))


@gluon.jit
def user(slot, x, o, full, empty, READ: gl.constexpr, FENCE: gl.constexpr):
    used = first_use(slot, x, full, READ, FENCE)
    mbarrier.arrive(empty, count=1)
    finish(slot, o, full, used, READ)


@gluon.jit
def copier(slot, x, full, empty):
    mbarrier.wait(empty, 0)
    mbarrier.expect(full, x.block_type.nbytes)
    tma_load(x, [64, 0], full, slot)


@gluon.jit
def reused(x, o, READ: gl.constexpr, FENCE: gl.constexpr, HANDED: gl.constexpr, num_warps: gl.constexpr):
    """A slot that threads use, and TMA fills then. HANDED: from another partition, behind an mbarrier."""
    slot = gl.allocate_shared_memory(x.dtype, x.block_type.shape, x.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.init(empty, count=1)
    if HANDED:
        gl.warp_specialize(
            [(user, (slot, x, o, full, empty, READ, FENCE)), (copier, (slot, x, full, empty))], [1], [24]
        )
    else:
        used = first_use(slot, x, full, READ, FENCE)
        mbarrier.expect(full, x.block_type.nbytes)
        tma_load(x, [64, 0], full, slot)
        finish(slot, o, full, used, READ)


@gluon.jit
def multiplied(x, o, FENCE: gl.constexpr, num_warps: gl.constexpr):
    """The square of a tile, from an allocation with contents."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    result: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    rows, columns = gl.arange(0, 64, gl.SliceLayout(1, layout)), gl.arange(0, 64, gl.SliceLayout(0, layout))
    tile = gl.load(x + rows[:, None] * 64 + columns[None, :])
    operand = gl.allocate_shared_memory(gl.float16, [64, 64], gl.NVMMASharedLayout(128, 16, 2), tile)
    if FENCE:
        fence_async_shared()
    sums = warpgroup_mma(operand, operand, gl.zeros((64, 64), gl.float32, result), is_async=True)
    sums = gl.convert_layout(warpgroup_mma_wait(0, deps=(sums,)), layout)
    gl.store(o + rows[:, None] * 64 + columns[None, :], sums.to(gl.float16))


def made(read: bool, handed: bool, fence: bool) -> Module:
    constants = {"READ": read, "FENCE": fence, "HANDED": handed, "num_warps": 4}
    return gluon_module(reused, {"x": [64, 64]}, constants, {"x": "fp16"}, {"o": "*fp16"})


def product(fence: bool) -> Module:
    return gluon_module(multiplied, {}, {"FENCE": fence, "num_warps": 4}, {}, {"x": "*fp16", "o": "*fp16"})


def run(module: Module, x: Any, order: Order) -> np.ndarray:
    o = np.full((64, 64), np.nan, np.float16)
    simulate(module, {"x": x, "o": o}, (1,), order)
    return o


ORDERS: tuple[Order, ...] = get_args(Order)
ACCESSES = {False: "written", True: "read"}


@pytest.mark.parametrize("handed", [False, True])
@pytest.mark.parametrize("read", ACCESSES)
def test_tma_overwrites_what_threads_used_only_behind_a_fence(read: bool, handed: bool) -> None:
    x = np.arange(128 * 64, dtype=np.float16).reshape(128, 64) % 512
    module = made(read, handed, fence=True)
    assert passes(check_barriers(module))
    for order in ORDERS:
        assert (run(module, Descriptor(x), order) == x[64:] + (x[:64] if read else 1)).all(), order

    module = made(read, handed, fence=False)
    found = check_barriers(module)
    if read and not handed:
        assert found == Proved((FENCED_READS,))
    else:
        assert isinstance(found, Refuted) and found.witness.kind == "missing fence", found
    for order in ORDERS:
        with pytest.raises(MissingFence, match=f"was {ACCESSES[read]} through the generic proxy and is written by the"):
            run(module, Descriptor(x), order)


def test_the_contents_of_an_allocation_in_gluon_reach_a_wgmma_only_behind_a_fence() -> None:
    """Triton's own pipeline inserts this fence; Gluon's does not."""
    x = np.random.default_rng(0).integers(-2, 3, (64, 64)).astype(np.float16)
    module = product(fence=True)
    assert passes(check_barriers(module))
    for order in ORDERS:
        assert (run(module, x, order) == x @ x).all(), order

    module = product(fence=False)
    found = check_barriers(module)
    assert isinstance(found, Refuted) and found.witness.kind == "missing fence", found
    for order in ORDERS:
        with pytest.raises(MissingFence, match="was written through the generic proxy and is read by the async proxy"):
            run(module, x, order)
