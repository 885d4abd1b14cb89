"""Which tile a matrix product gets: the one with the least predicted time.

A tile is predicted from what each SM has to do for it: products, reads of shared memory by wgmma, writes by TMA, and
bytes through the port to the L2; and from the bytes that DRAM has to deliver. The numbers of the model were fitted to
products of 16 to 1024 rows, weights not in the L2.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from tawa.machine.machines import SM_90, WGMMA
from tawa.machine.nvidia import SHARED_BYTES_PER_CYCLE
from tawa.ops.calls.tables import blocks
from tawa.plan.cost.tile_time import Device

RING_BYTES = 192 * 1024
"""Shared memory for the slots of all operands."""
PORT_BYTES_PER_CYCLE = 64
"""From L2 to one SM."""
DRAM_SHARE = 0.9
"""Of the peak."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One way to compute a product.

    swapped: the rows of tiles are columns of C; few rows of C then fill the columns of a wgmma, which may be 16,
    instead of its 64 rows. more: the columns of the second accumulator; 0 for none. split: programs that share the sums
    of a tile; with `last`, only of the tiles of the last wave. ordered: they are added in a fixed order, else by
    atomics; no table has such tiles, because equal calls shall give equal bits.
    """

    swapped: bool
    BM: int
    BN: int
    more: int
    BK: int
    num_warps: int
    num_stages: int
    split: int = 1
    last: bool = False
    ordered: bool = True

    def whole(self, count: int, processors: int) -> int:
        """How many of `count` tiles one program each computes."""
        return count if self.split == 1 else count // processors * processors if self.last else 0

    @property
    def columns(self) -> int:
        """Of both accumulators."""
        return self.BN + self.more


ROWS = (64, 128, 256)
COLUMNS = (
    (16, 0), (32, 0), (32, 16), (64, 0), (64, 16), (64, 32), (128, 0), (128, 32), (128, 64), (256, 0),
)  # fmt: skip
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
LARGEST = 128 * 256
"""Elements of the accumulators of one tile, 8 warps."""
LARGEST_SPLIT = 128 * 64
"""Elements of a tile whose sums are shared: reading and writing the parts of larger ones takes too long, but for the
last wave."""
LAST_SPLITS = (2, 3, 4)
MOST_WAVES = 6
"""With more waves, the last one matters less than a persistent form, which a tile with shares does not have."""
LEAST_STAGES = {64: 3, 128: 5}
"""By the elements of a step, in two bytes each: few long slots are slower than many short ones."""
LEAST_STEPS = 4
"""Of each share."""
LAUNCH, EPILOGUE, GHZ, OVERLAP, EFFICIENCY = 2.50, 1.11, 1.98, 2.50, 0.83
"""Microseconds of a launch, and of the end of a tile of `LARGEST` elements; the clock; how well DRAM and SMs overlap (a
p-norm); the share of the peak that wgmma reaches."""
TWO_DOTS = 1.19
"""How much longer reads of shared memory take with two accumulators."""
MEASURED = {
    (64, 16, 0): 0.61, (64, 32, 0): 0.77, (64, 32, 16): 0.8, (64, 64, 0): 0.75, (64, 64, 16): 0.95, (64, 64, 32): 1.0,
    (64, 128, 0): 0.97, (64, 128, 32): 0.9, (64, 128, 64): 0.88, (64, 256, 0): 1.14, (128, 64, 0): 0.9,
    (128, 64, 32): 0.91, (128, 128, 0): 1.02, (128, 128, 32): 1.03, (128, 128, 64): 0.97, (128, 256, 0): 1.03,
    (256, 64, 32): 0.9, (256, 128, 0): 1.06,
}  # fmt: skip
"""By rows and columns of a tile: what the loop was measured to take, over what the units of an SM explain."""
ALONE = 1.1
"""How much longer several waves of tiles with one group of consumers take."""
STEP = 10.0
"""Nanoseconds of waits and releases in a step."""
IN_FLIGHT = 1200.0
"""Nanoseconds from a load to its data on a busy chip: a short ring cannot hide them."""
ARRIVAL, PART_RATE = 1.8, 2.55e6
"""Microseconds of counting the programs of a tile; bytes of partial sums written and read in a microsecond."""


def tiles(bits: int, gated: bool) -> Iterator[Tile]:
    """All tiles, for operands of this width. gated: the second accumulator has the gate's columns."""
    for BM in ROWS:
        for BN, more in ((BN, BN) for BN, none in COLUMNS if not none) if gated else COLUMNS:
            if BM * (BN + more) > LARGEST or (gated and BN > 128):
                continue
            warps = 8 if BM >= 128 else 4
            for depth in (64, 128):
                BK = depth * 16 // bits
                slot = (BM + BN + more) * BK * bits // 8
                stages = min(RING_BYTES // slot, 12)
                if stages < LEAST_STAGES[depth]:
                    continue
                for swapped in (False,) if gated or more else (BN <= 64, BN > 64):
                    yield Tile(swapped, BM, BN, more, BK, warps, stages)
                    if not more and BM * BN <= LARGEST_SPLIT:
                        for split in SPLITS[1:]:
                            yield Tile(swapped, BM, BN, more, BK, warps, stages, split)
                    if not more and BM * BN > LARGEST_SPLIT and depth == 64:
                        for split in LAST_SPLITS:
                            yield Tile(swapped, BM, BN, more, BK, warps, stages, split, last=True)


def predicted(tile: Tile, M: int, N: int, K: int, size: int, device: Device) -> float:
    """Microseconds of a product (M, K) x (K, N) with operands of `size` bytes."""
    rows, columns = (N, M) if tile.swapped else (M, N)
    count = blocks(rows, tile.BM) * blocks(columns, tile.columns)
    steps = blocks(K, tile.BK)
    whole = tile.whole(count, device.processors)
    shares = (count - whole) * tile.split
    waves = blocks(whole, device.processors) + blocks(shares, device.processors) / tile.split
    ends = blocks(whole, device.processors) + blocks(shares, device.processors)
    parts = [tile.BN, tile.more] if tile.more else [tile.BN]
    products = tile.BM * tile.columns * tile.BK * size / 2 / SM_90.costs.fp16_fma_per_cycle / EFFICIENCY
    row_bytes = tile.BK * size
    reads = sum(tile.BM // WGMMA.rows * (WGMMA.rows + it) * row_bytes for it in parts)
    slot = (tile.BM + tile.columns) * row_bytes
    shared = (reads + slot) * (TWO_DOTS if tile.more else 1) / SHARED_BYTES_PER_CYCLE
    cycles = max(products, shared, slot / PORT_BYTES_PER_CYCLE)
    cycles *= MEASURED.get((tile.BM, tile.BN, tile.more), 1.0)
    step = max(cycles / GHZ, IN_FLIGHT / tile.num_stages) + STEP
    busy = waves * steps * step / 1000
    if tile.BM == 64 and waves > 2:  # one group of warps cannot start a tile beside the end of another
        busy *= ALONE
    memory = (M * K + N * K + M * N) * size / (device.dram * DRAM_SHARE)
    fixed = LAUNCH + EPILOGUE * ends * (0.3 + 0.7 * tile.BM * tile.columns / LARGEST) ** 0.36
    if tile.split > 1:
        part = tile.BM * tile.BN * 4
        fixed += ARRIVAL + 2 * part * shares / PART_RATE + part * tile.split / (PART_RATE / 60)
    return fixed + (busy**OVERLAP + memory**OVERLAP) ** (1 / OVERLAP)


def group_of(tile: Tile, M: int, N: int, K: int) -> int:
    """How many rows of tiles are started together, so that they find the columns that they share in the L2.

    1 if C has few columns of tiles: those of one row are started together then. Measured for C with 8192 rows and
    columns.
    """
    columns = blocks(M if tile.swapped else N, tile.columns)
    return 1 if columns <= 8 else 16 if K >= 2048 else 4 if K >= 512 else 8


def options_of(
    tile: Tile, M: int, N: int, K: int, size: int, device: Device, kept: bool
) -> tuple[tuple[str, str], ...]:  # fmt: skip
    """Options of the launch beside the tile: the part of the Plan that the ends of large tiles ask for.

    Two groups of warps get out of step, so that one is at the end of its tile while the other one multiplies; C is
    stored in slices, which leave memory for operands of the next tile. That pays where sums are not long, or are stored
    beside C (`kept`), and a program computes several tiles: measured for K up to `LONG_SUM`. N counts columns of C.
    """
    count = blocks(M, tile.BM) * blocks(N, tile.columns)
    if tile.BM * tile.columns < LARGEST or tile.split > 1 or count <= device.processors:
        return ()
    if kept:
        return (("plan", TWO_GROUPS),) if tile.more and size == 2 and count >= 4 * device.processors else ()
    if K * size > LONG_SUM or tile.swapped or tile.BN < 256:
        return ()
    short = K <= 384 and size == 2 and count >= 4 * device.processors
    return (("plan", IN_FOUR if short else IN_TWO),)


LONG_SUM = 8192
"""Bytes of a row of an operand."""
TWO_GROUPS = '{"form": "persistent", "groups": 2, "split": "rows"}'
IN_TWO = '{"form": "persistent", "groups": 2, "split": "rows", "stores": [{"slices": 2}]}'
IN_FOUR = '{"form": "persistent", "groups": 2, "split": "rows", "stores": [{"slices": 4}]}'


@functools.lru_cache(maxsize=4096)
def choose(M: int, N: int, K: int, size: int, device: Device, gated: bool = False, exact: bool = False) -> Tile:
    """The tile of a product. exact: without sharing the sums of a tile. N counts columns of C."""
    best: tuple[float, Tile] | None = None
    for tile in tiles(size * 8, gated):
        rows, columns = (N, M) if tile.swapped else (M, N)
        if tile.split > 1 and (exact or blocks(K, tile.BK) < LEAST_STEPS * tile.split):
            continue
        if tile.BN > 16 and columns * 2 <= tile.BN:
            continue
        if rows * 2 <= tile.BM and (tile.BM > 64 or (columns > rows and not gated)):
            continue
        count = blocks(rows, tile.BM) * blocks(columns, tile.columns)
        whole = tile.whole(count, device.processors)
        if tile.last and not 0 < whole < min(count, MOST_WAVES * device.processors):
            continue
        if tile.split > 1 and (count - whole) * tile.split > 2 * device.processors:
            continue
        time = predicted(tile, M, 2 * N if gated else N, K, size, device)
        if best is None or time < best[0]:
            best = time, tile
    assert best is not None
    return best[1]
