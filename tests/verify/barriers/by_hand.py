"""A ring in Gluon whose phases are made by hand, in the ways that people write them, with early exits.

PHASES: ``count`` divides a running count; ``toggle`` flips a parity at the last slot; ``select`` wraps around by two
selects; ``xor`` adds a comparison to the parity. EXIT: where a program or a partition returns before its loop.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared


@gluon.jit
def following(slot, phase, D: gl.constexpr, PHASES: gl.constexpr):
    """The slot after this one, and the parity of its phase."""
    if PHASES == "toggle":
        slot += 1
        if slot == D:
            slot = 0
            phase ^= 1
    elif PHASES == "select":
        last = slot + 1 == D
        phase = gl.where(last, phase ^ 1, phase)
        slot = gl.where(last, 0, slot + 1)
    else:
        phase = phase ^ (slot == D - 1).to(gl.int32)
        slot = (slot + 1) % D
    return slot, phase


@gluon.jit
def producer(x, slots, full, empty, counts, n, D: gl.constexpr, PHASES: gl.constexpr, EXIT: gl.constexpr):
    if EXIT == "partition":  # noqa: SIM102  a constant condition decides whether there is a branch
        if n == 0:
            return
    slot, phase = 0, 0
    trips = gl.load(counts + gl.program_id(0)) if EXIT == "memory" else n
    for i in range(trips):
        if PHASES == "count":
            slot = i % D
            phase = i // D & 1
        mbarrier.wait(empty.index(slot), phase ^ 1)
        mbarrier.expect(full.index(slot), x.block_type.nbytes)
        tma_load(x, [gl.program_id(0) * 64, i * 64], full.index(slot), slots.index(slot))
        if PHASES != "count":
            slot, phase = following(slot, phase, D, PHASES)


@gluon.jit
def consumer(slots, full, empty, counts, o, n, D: gl.constexpr, PHASES: gl.constexpr, EXIT: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    if EXIT == "partition":  # noqa: SIM102
        if n == 0:
            return
    if EXIT == "consumer":  # noqa: SIM102
        if n == 5:
            return
    slot, phase = 0, 0
    total = gl.zeros([64, 64], gl.float32, layout)
    trips = gl.load(counts + gl.program_id(0)) if EXIT == "memory" else n
    for i in range(trips):
        if PHASES == "count":
            slot = i % D
            phase = i // D & 1
        mbarrier.wait(full.index(slot), phase)
        total += slots.index(slot).load(layout).to(gl.float32)
        fence_async_shared()
        mbarrier.arrive(empty.index(slot), count=1)
        if PHASES != "count":
            slot, phase = following(slot, phase, D, PHASES)
    rows = gl.program_id(0) * 64 + gl.arange(0, 64, gl.SliceLayout(1, layout))
    columns = gl.arange(0, 64, gl.SliceLayout(0, layout))
    gl.store(o + rows[:, None] * 64 + columns[None, :], total)


@gluon.jit
def summed(x, counts, o, n, last, D: gl.constexpr, PHASES: gl.constexpr, EXIT: gl.constexpr, num_warps: gl.constexpr):
    """o = the sum over n tiles of x."""
    if EXIT == "program":  # noqa: SIM102
        if gl.program_id(0) >= last:
            return
    slots = gl.allocate_shared_memory(x.dtype, [D, 64, 64], x.layout)
    full = gl.allocate_shared_memory(gl.int64, [D, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [D, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(D):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    gl.warp_specialize(
        [
            (consumer, (slots, full, empty, counts, o, n, D, PHASES, EXIT)),
            (producer, (x, slots, full, empty, counts, n, D, PHASES, EXIT)),
        ],
        [1],
        [24],
    )
