"""Kernels with rings in Gluon, written by hand in different ways. All are right; the faults are planted elsewhere.

C (BM, BN) = A (BM, K) @ B (K, BN), or sums of rows; D slots. They differ in how they name a slot and its parity.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from tawa.rings.names import as_scalar, tma_load

tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global
ACC = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))
ROW = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
TILE = gl.constexpr(gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]))
FLAT = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))


@gluon.jit
def slots(descriptor, D: gl.constexpr):
    """D slots for tiles of a descriptor."""
    return gl.allocate_shared_memory(descriptor.dtype, [D] + descriptor.block_type.shape, descriptor.layout)  # noqa: RUF005


@gluon.jit
def barriers(D: gl.constexpr, count: gl.constexpr):
    """D mbarriers."""
    made = gl.allocate_shared_memory(gl.int64, [D, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(D):
        mbarrier.init(made.index(slot), count=count)
    return made


@gluon.jit
def fill(a, b, k, bar, x, y):
    """Both copies of one step."""
    mbarrier.expect(bar, a.block_type.nbytes + b.block_type.nbytes)
    tma_load(a, [0, k], bar, x)
    tma_load(b, [k, 0], bar, y)


@gluon.jit
def stored(c, row, acc):
    """The epilogue, with a buffer of its own."""
    stage = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    stage.store(acc.to(c.dtype))
    fence_async_shared()
    tma_store(c, [row, 0], stage)
    tma.store_wait(0)
    stage._keep_alive()


# -- a slot and its parity, carried by the loop; two consumers; wgmmas of one step stay in flight ---------------------


@gluon.jit
def pairs_put(a, b, xs, ys, full, empty, K, BK: gl.constexpr, D: gl.constexpr):
    """The producer."""
    slot = 0
    parity = 1
    for k in range(0, K, BK):
        mbarrier.wait(empty.index(slot), parity)
        fill(a, b, k, full.index(slot), xs.index(slot), ys.index(slot))
        slot += 1
        if slot == D:
            slot = 0
            parity ^= 1


@gluon.jit
def pairs_get(c, xs, ys, full, empty, K, GROUP: gl.constexpr, BK: gl.constexpr, D: gl.constexpr):
    """A consumer of half of the rows."""
    acc = gl.zeros([64, 64], gl.float32, ACC)
    slot = 0
    parity = 0
    last = 0
    for k in range(0, K, BK):
        mbarrier.wait(full.index(slot), parity)
        acc = warpgroup_mma(xs.index(slot).slice(GROUP * 64, 64), ys.index(slot), acc, is_async=True)
        acc = warpgroup_mma_wait(1, deps=(acc,))
        mbarrier.arrive(empty.index(last), count=1, pred=k > 0)
        last = slot
        slot += 1
        if slot == D:
            slot = 0
            parity ^= 1
    acc = warpgroup_mma_wait(0, deps=(acc,))
    mbarrier.arrive(empty.index(last), count=1, pred=K > 0)
    stored(c, GROUP * 64, acc)


@gluon.jit
def pairs(a, b, c, K, BK: gl.constexpr, D: gl.constexpr, num_warps: gl.constexpr):
    """Slot and parity are carried."""
    xs, ys, full, empty = slots(a, D), slots(b, D), barriers(D, 1), barriers(D, 2)
    gl.warp_specialize(
        [
            (pairs_get, (c, xs, ys, full, empty, K, 0, BK, D)), (pairs_get, (c, xs, ys, full, empty, K, 1, BK, D)),
            (pairs_put, (a, b, xs, ys, full, empty, K, BK, D)),
        ],
        [4, 1],
        [160, 24],
    )  # fmt: skip


# -- slot and parity from a counter that goes on from tile to tile -----------------------------------------------------


@gluon.jit
def counted_put(a, b, xs, ys, full, empty, TILES, K, BK: gl.constexpr, D: gl.constexpr):
    """The producer."""
    i = 0
    for _ in range(gl.program_id(0), TILES, gl.num_programs(0)):
        for k in range(0, K, BK):
            mbarrier.wait(empty.index(i % D), ((i // D) & 1) ^ 1)
            fill(a, b, k, full.index(i % D), xs.index(i % D), ys.index(i % D))
            i += 1


@gluon.jit
def counted_get(c, xs, ys, full, empty, stage, TILES, K, BK: gl.constexpr, D: gl.constexpr):
    """The consumer."""
    i = 0
    for tile in range(gl.program_id(0), TILES, gl.num_programs(0)):
        acc = gl.zeros([64, 64], gl.float32, ACC)
        for _ in range(0, K, BK):
            mbarrier.wait(full.index(i % D), (i // D) & 1)
            acc = warpgroup_mma(xs.index(i % D), ys.index(i % D), acc, is_async=True)
            acc = warpgroup_mma_wait(0, deps=(acc,))
            mbarrier.arrive(empty.index(i % D), count=1)
            i += 1
        tma.store_wait(0)
        stage.store(acc.to(c.dtype))
        fence_async_shared()
        tma_store(c, [tile * 64, 0], stage)
    tma.store_wait(0)


@gluon.jit
def counted(a, b, c, TILES, K, BK: gl.constexpr, D: gl.constexpr, num_warps: gl.constexpr):
    """Slot and parity come from a counter."""
    xs, ys, full, empty = slots(a, D), slots(b, D), barriers(D, 1), barriers(D, 1)
    stage = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    gl.warp_specialize(
        [
            (counted_get, (c, xs, ys, full, empty, stage, TILES, K, BK, D)),
            (counted_put, (a, b, xs, ys, full, empty, TILES, K, BK, D)),
        ],
        [1],
        [24],
    )
    stage._keep_alive()


# -- one bit of a number for the phase of each slot --------------------------------------------------------------------


@gluon.jit
def bits_put(a, b, xs, ys, full, empty, K, BK: gl.constexpr, D: gl.constexpr):
    """The producer."""
    slot = 0
    phases = (1 << D) - 1
    for k in range(0, K, BK):
        mbarrier.wait(empty.index(slot), (phases >> slot) & 1)
        phases ^= 1 << slot
        fill(a, b, k, full.index(slot), xs.index(slot), ys.index(slot))
        slot = (slot + 1) % D


@gluon.jit
def bits_get(c, xs, ys, full, empty, K, BK: gl.constexpr, D: gl.constexpr):
    """The consumer."""
    acc = gl.zeros([64, 64], gl.float32, ACC)
    slot = 0
    phases = 0
    for _ in range(0, K, BK):
        mbarrier.wait(full.index(slot), (phases >> slot) & 1)
        phases ^= 1 << slot
        acc = warpgroup_mma(xs.index(slot), ys.index(slot), acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(empty.index(slot), count=1)
        slot = (slot + 1) % D
    stored(c, 0, acc)


@gluon.jit
def bits(a, b, c, K, BK: gl.constexpr, D: gl.constexpr, num_warps: gl.constexpr):
    """Parities are bits of a number."""
    xs, ys, full, empty = slots(a, D), slots(b, D), barriers(D, 1), barriers(D, 1)
    gl.warp_specialize(
        [
            (bits_get, (c, xs, ys, full, empty, K, BK, D)),
            (bits_put, (a, b, xs, ys, full, empty, K, BK, D)),
        ],
        [1],
        [24],
    )


# -- a copy of the body for each slot, which has a number of its own ---------------------------------------------------


@gluon.jit
def rounds_put(a, b, xs, ys, full, empty, ROUNDS, BK: gl.constexpr, D: gl.constexpr):
    """The producer."""
    parity = 1
    for i in range(ROUNDS):
        for slot in gl.static_range(D):
            mbarrier.wait(empty.index(slot), parity)
            fill(a, b, (i * D + slot) * BK, full.index(slot), xs.index(slot), ys.index(slot))
        parity ^= 1


@gluon.jit
def rounds_get(c, xs, ys, full, empty, ROUNDS, D: gl.constexpr):
    """The consumer."""
    acc = gl.zeros([64, 64], gl.float32, ACC)
    parity = 0
    for _ in range(ROUNDS):
        for slot in gl.static_range(D):
            mbarrier.wait(full.index(slot), parity)
            acc = warpgroup_mma(xs.index(slot), ys.index(slot), acc, is_async=True)
            acc = warpgroup_mma_wait(0, deps=(acc,))
            mbarrier.arrive(empty.index(slot), count=1)
        parity ^= 1
    stored(c, 0, acc)


@gluon.jit
def rounds(a, b, c, ROUNDS, BK: gl.constexpr, D: gl.constexpr, num_warps: gl.constexpr):
    """Rounds through all slots."""
    xs, ys, full, empty = slots(a, D), slots(b, D), barriers(D, 1), barriers(D, 1)
    gl.warp_specialize(
        [
            (rounds_get, (c, xs, ys, full, empty, ROUNDS, D)),
            (rounds_put, (a, b, xs, ys, full, empty, ROUNDS, BK, D)),
        ],
        [1],
        [24],
    )


# -- tiles that threads store; a dot reads them ------------------------------------------------------------------------


@gluon.jit
def scaled_put(x, xs, full, empty, TRIPS, scale, D: gl.constexpr):
    """Threads that fill slots."""
    row, column = gl.arange(0, 64, gl.SliceLayout(1, TILE)), gl.arange(0, 64, gl.SliceLayout(0, TILE))
    for i in range(TRIPS):
        tile = gl.load(x + i * 4096 + row[:, None] * 64 + column[None, :])
        mbarrier.wait(empty.index(i % D), ((i // D) & 1) ^ 1)
        xs.index(i % D).store((tile * scale).to(gl.float16))
        fence_async_shared()
        mbarrier.arrive(full.index(i % D), count=1)


@gluon.jit
def scaled_get(c, xs, y, full, empty, TRIPS, D: gl.constexpr):
    """The consumer."""
    acc = gl.zeros([64, 64], gl.float32, ACC)
    for i in range(TRIPS):
        mbarrier.wait(full.index(i % D), (i // D) & 1)
        acc = warpgroup_mma(xs.index(i % D), y, acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(empty.index(i % D), count=1)
    stored(c, 0, acc)


@gluon.jit
def scaled(x, b, c, TRIPS, scale, D: gl.constexpr, num_warps: gl.constexpr):
    """C = sum of (scale X[i]) @ B: B stays in shared memory."""
    xs, full, empty, once = slots(b, D), barriers(D, 1), barriers(D, 1), barriers(1, 1)
    y = gl.allocate_shared_memory(b.dtype, b.block_type.shape, b.layout)
    mbarrier.expect(once.index(0), b.block_type.nbytes)
    tma_load(b, [0, 0], once.index(0), y)
    mbarrier.wait(once.index(0), 0)
    mbarrier.invalidate(once.index(0))
    gl.warp_specialize(
        [(scaled_get, (c, xs, y, full, empty, TRIPS, D)), (scaled_put, (x, xs, full, empty, TRIPS, scale, D))],
        [4],
        [96],
    )


# -- cp.async, whose arrivals are those of the threads -----------------------------------------------------------------


@gluon.jit
def pointers_put(x, xs, full, empty, TRIPS, N, D: gl.constexpr):
    """The producer: four warps."""
    column = gl.arange(0, 1024, gl.BlockedLayout([4], [32], [4], [0]))
    for i in range(TRIPS):
        mbarrier.wait(empty.index(i % D), ((i // D) & 1) ^ 1)
        async_copy.async_copy_global_to_shared(xs.index(i % D), x + i * 1024 + column, mask=column < N)
        async_copy.mbarrier_arrive(full.index(i % D), increment_count=False)


@gluon.jit
def pointers_get(o, xs, full, empty, TRIPS, D: gl.constexpr):
    """The consumer."""
    total = gl.zeros([1024], gl.float32, gl.BlockedLayout([4], [32], [4], [0]))
    for i in range(TRIPS):
        mbarrier.wait(full.index(i % D), (i // D) & 1)
        total += xs.index(i % D).load(gl.BlockedLayout([4], [32], [4], [0]))
        mbarrier.arrive(empty.index(i % D), count=1)
    gl.store(o + gl.arange(0, 1024, gl.BlockedLayout([4], [32], [4], [0])), total)


@gluon.jit
def pointers(x, o, TRIPS, N, D: gl.constexpr, num_warps: gl.constexpr):
    """o = sum of the rows of x."""
    xs = gl.allocate_shared_memory(gl.float32, [D, 1024], FLAT)
    full, empty = barriers(D, 128), barriers(D, 1)
    gl.warp_specialize(
        [(pointers_get, (o, xs, full, empty, TRIPS, D)), (pointers_put, (x, xs, full, empty, TRIPS, N, D))],
        [4],
        [64],
    )


# -- numbers of tiles from a counter in memory, handed on through shared memory ----------------------------------------


@gluon.jit
def tickets_put(numbers, full, empty, counter, TILES, D: gl.constexpr):
    """Takes numbers until one is too large."""
    i = 0
    tile = gl.to_tensor(0)
    while tile < TILES:
        tile = gl.atomic_add(counter, 1)
        mbarrier.wait(empty.index(i % D), ((i // D) & 1) ^ 1)
        numbers.index(i % D).store(gl.full([1], tile, gl.int32, gl.BlockedLayout([1], [32], [1], [0])))
        mbarrier.arrive(full.index(i % D), count=1)
        i += 1


@gluon.jit
def tickets_get(numbers, full, empty, o, TILES, READER: gl.constexpr, D: gl.constexpr, SUM: gl.constexpr):
    """A reader."""
    i = 0
    tile = gl.to_tensor(0)
    while tile < TILES:
        mbarrier.wait(full.index(i % D), (i // D) & 1)
        number = numbers.index(i % D).load(gl.BlockedLayout([1], [32], [4], [0]))
        tile = gl.sum(number, 0) if SUM else as_scalar(number)
        mbarrier.arrive(empty.index(i % D), count=1)
        gl.store(o + READER * TILES + tile, tile, mask=tile < TILES)
        i += 1


@gluon.jit
def tickets(counter, o, TILES, D: gl.constexpr, SUM: gl.constexpr, num_warps: gl.constexpr):
    """Two readers write the number of each tile that this program gets."""
    numbers = gl.allocate_shared_memory(gl.int32, [D, 1], FLAT)
    full, empty = barriers(D, 1), barriers(D, 2)
    gl.warp_specialize(
        [
            (tickets_get, (numbers, full, empty, o, TILES, 0, D, SUM)),
            (tickets_get, (numbers, full, empty, o, TILES, 1, D, SUM)),
            (tickets_put, (numbers, full, empty, counter, TILES, D)),
        ],
        [4, 1],
        [64, 24],
    )
