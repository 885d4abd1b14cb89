"""Small kernels with rings; FAULT breaks one rule of the protocol."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, warpgroup_mma, warpgroup_mma_wait

from tawa.rings import PingPong, Ring, StoreRing, TileRing, next_tile
from tawa.rings.names import tma_load

ROWS = gl.constexpr(gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0]))


@gluon.jit
def load_tiles(ring, a, b, K, BK: gl.constexpr, FAULT: gl.constexpr):
    for k in range(0, K, BK):
        if FAULT == "copies before the slot is empty":
            ring = without_acquire(ring, a, b, k)
        else:
            ring = ring.put((a, b), ([0, k], [k, 0]))


@gluon.jit
def without_acquire(ring, a, b, k):
    full = ring.full.index(ring.slot)
    mbarrier.expect(full, a.block_type.nbytes + b.block_type.nbytes)
    tma_load(a, [0, k], full, ring.tiles[0].index(ring.slot))
    tma_load(b, [k, 0], full, ring.tiles[1].index(ring.slot))
    return ring.moved()


@gluon.jit
def multiply(ring, out, c, K, GROUP: gl.constexpr, P: gl.constexpr, BK: gl.constexpr, FAULT: gl.constexpr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    acc = gl.zeros([64, 64], gl.float32, layout)
    for k in range(0, K, BK):
        x, y, ring = ring.get()
        acc = warpgroup_mma(x.slice(GROUP * 64, 64), y, acc, is_async=True)
        if FAULT == "released before the dot has read it":
            ring.consumed()
        acc = warpgroup_mma_wait(P, deps=(acc,))
        if FAULT == "released one iteration early":
            ring.consumed()
        elif FAULT == "one group does not release":
            if GROUP == 0:
                ring.consumed()
        elif FAULT == "none" or FAULT == "copies before the slot is empty" or FAULT == "too many readers":
            if P == 0:
                ring.consumed()
            else:
                ring.consumed(1, pred=k > 0)
    acc = warpgroup_mma_wait(0, deps=(acc,))
    if P == 1 and FAULT == "none":
        ring.consumed(0, pred=K > 0)
    out = out.put(c, [GROUP * 64, 0], acc.to(c.dtype))
    if FAULT != "shared memory is given back before the store has read it":
        out.drain()


@gluon.jit
def products(
    a, b, c, K, BK: gl.constexpr, D: gl.constexpr, P: gl.constexpr, FAULT: gl.constexpr, num_warps: gl.constexpr
):
    """C (128, 64) = A (128, K) @ B (K, 64): one producer, two groups of consumers that share a ring."""
    ring = Ring.like((a, b), D, readers=3 if FAULT == "too many readers" else 2)
    first, second = StoreRing.like(c, 1), StoreRing.like(c, 1)
    gl.warp_specialize(
        [
            (multiply, (ring, first, c, K, 0, P, BK, FAULT)),
            (multiply, (ring, second, c, K, 1, P, BK, FAULT)),
            (load_tiles, (ring, a, b, K, BK, FAULT)),
        ],
        [4, 1],
        [160, 24],
    )


@gluon.jit
def write_squares(ring, x, count):
    layout: gl.constexpr = ROWS
    row, column = gl.arange(0, 32, gl.SliceLayout(1, layout)), gl.arange(0, 32, gl.SliceLayout(0, layout))
    for step in range(count):
        value = gl.load(x + step * 1024 + row[:, None] * 32 + column[None, :])
        ring = ring.put_values((value * value,))


@gluon.jit
def read_squares(ring, o, count, FAULT: gl.constexpr):
    layout: gl.constexpr = ROWS
    row, column = gl.arange(0, 32, gl.SliceLayout(1, layout)), gl.arange(0, 32, gl.SliceLayout(0, layout))
    for step in range(count):
        tile, ring = ring.get()
        if FAULT == "released before it is read":
            ring.consumed()
        gl.store(o + step * 1024 + row[:, None] * 32 + column[None, :], tile.load(layout))
        if FAULT == "none":
            ring.consumed()


@gluon.jit
def squares(x, o, count, D: gl.constexpr, FAULT: gl.constexpr, num_warps: gl.constexpr):
    """o = x * x in tiles of (32, 32), float32: one group of warps writes a ring, another reads it."""
    memory = gl.allocate_shared_memory(gl.float32, [D, 32, 32], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    ring = Ring.over((memory,), D)
    gl.warp_specialize([(read_squares, (ring, o, count, FAULT)), (write_squares, (ring, x, count))], [4], [64])


@gluon.jit
def add_alternately(token, cell, o, count, GROUP: gl.constexpr, FAULT: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    lane = gl.arange(0, 128, layout)
    for step in range(count):
        if FAULT != "the token is not waited for" or GROUP == 0:
            token.take(GROUP)
        value = cell.load(layout) * 2 + GROUP
        cell.store(value)
        gl.store(o + (2 * step + GROUP) * 128 + lane, value)
        if FAULT == "the token is not passed on" and GROUP == 1:
            token = PingPong(token.given, token.parity ^ 1, token.GROUPS)
        else:
            token = token.pass_on(GROUP)


@gluon.jit
def alternating(o, count, FAULT: gl.constexpr, num_warps: gl.constexpr):
    """Two groups write one cell of shared memory alternately: x = 2 x + group. o: (2 count, 128), after each write."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    cell = gl.allocate_shared_memory(gl.int32, [128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    cell.store(gl.full([128], 1, gl.int32, layout))
    token = PingPong.among(2)
    gl.warp_specialize(
        [(add_alternately, (token, cell, o, count, 0, FAULT)), (add_alternately, (token, cell, o, count, 1, FAULT))],
        [4],
        [64],
    )


@gluon.jit
def schedule(tiles, counter, count):
    tile = gl.to_tensor(-1)
    while tile < count:  # the readers stop at the first number that is too large
        tile = next_tile(counter)
        tiles = tiles.put(tile)


@gluon.jit
def mark_tiles(tiles, o, count, READER: gl.constexpr):
    tile = gl.to_tensor(-1)
    while tile < count:
        tile, tiles = tiles.get()
        if tile < count:
            gl.store(o + READER * count + tile, tile + 1)


@gluon.jit
def marked(counter, o, count, D: gl.constexpr, num_warps: gl.constexpr):
    """o (2, count), where each of two readers writes the numbers that it gets, plus 1; they come from a counter."""
    tiles = TileRing.create(D, readers=2)
    gl.warp_specialize(
        [
            (mark_tiles, (tiles, o, count, 0)), (mark_tiles, (tiles, o, count, 1)),
            (schedule, (tiles, counter, count)),
        ],
        [4, 1],
        [64, 24],
    )  # fmt: skip


@gluon.jit
def count_up(tiles, count):
    for step in range(count + 1):
        tiles = tiles.put(step)


@gluon.jit
def read_all(tiles, o, count):
    step = gl.to_tensor(0)
    while step < count:  # a `for` would not carry the ring's memory, which does not change
        number, tiles = tiles.get()
        gl.store(o + number, number)
        step += 1
    number, tiles = tiles.get()  # of the ring that the loop hands on
    for step in range(number):
        gl.store(o + number, step + 1)


@gluon.jit
def numbers(o, count, D: gl.constexpr, num_warps: gl.constexpr):
    """o (count + 1,): each number in its place. The last one is read behind the loop, and bounds another."""
    tiles = TileRing.create(D, readers=1)
    gl.warp_specialize([(read_all, (tiles, o, count)), (count_up, (tiles, count))], [4], [64])
