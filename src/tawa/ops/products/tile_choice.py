"""The tiles of products with scales, of batches and of weights in few bits, as data, and how one is chosen.

A table begins with the tile for large products. The model of time predicts each (`tawa.plan.cost.tile_time`); an
earlier tile is taken unless a later one is clearly faster. ``python -m bench.products.batched --candidates`` measures
them all.

A tile of BM x BN is split over groups of 4 warps with 64 rows each, the size of one wgmma. Large tiles read fewer bytes
for each multiply-add; small ones keep more SMs busy. The accumulator of a group, 64 x BN in float32, takes BN / 2
registers of each of its 128 threads. The largest that fits is 64 x 256; it is 64 x 128 for dots that are scaled before
they are added, because their results need registers of their own.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from tawa.ops.calls.tables import blocks, plan
from tawa.plan.cost.programs import Program
from tawa.plan.cost.tile_time import Device, TileSum, tile_us
from tawa.plan.defaults import DEFAULT_MMA_DEPTH
from tawa.plan.fields import LoopPlan, PartitionPlan, RingPlan
from tawa.plan.plan import Plan
from tawa.plan.search.candidate import clearly_fastest


@dataclass(frozen=True, slots=True)
class Tile:
    """A block of C, the elements of the summed dimension that are loaded at a time, and launch options.

    per_sm: programs that share an SM. options: Tawa's launch options, by name.
    """

    BM: int
    BN: int
    BK: int
    num_warps: int
    num_stages: int
    per_sm: int = 1
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def chained(self) -> bool:
        """Whether the dot of an iteration runs beside the arithmetic of the one before it."""
        plan = json.loads(dict(self.options).get("plan", "{}"))
        return any(it.get("chain", 1) > 1 for it in plan.get("loops", ()))

    def launch(self, by_tma: bool = True) -> dict[str, Any]:
        """The options of a launch. by_tma: whether C is stored by TMA; if not, the Plan does not mention stores."""
        options = dict(self.options)
        if not by_tma and "plan" in options:
            fields = {name: it for name, it in json.loads(options["plan"]).items() if name != "stores"}
            options["plan"] = json.dumps(fields)
        return {"num_warps": self.num_warps, "num_stages": self.num_stages, **options}

    def made(self, **decisions: Any) -> Program:
        """The program of this tile: the options and these decisions, and usual values for the rest."""
        options = dict(self.options)
        asked = Plan(**decisions).over(Plan.from_json(options.get("plan", "{}")))
        groups = asked.groups or options.get("num_consumer_groups", 1)
        consumers = (PartitionPlan(f"consumer{it}", "consumer", self.num_warps // groups) for it in range(groups))
        usual = Plan(
            form="as_written",
            groups=groups,
            partitions=tuple(consumers),
            ctas_per_sm=self.per_sm,
            loops=(LoopPlan(0, mma_depth=DEFAULT_MMA_DEPTH, stages=0),),
            rings=(RingPlan("operands", depth=self.num_stages),),
        )
        return Program(asked.over(usual))

    def program(self, K: float, size: int, scaled: bool = False) -> TileSum:
        """The loop of one program, for the model of time: it multiplies K columns, with elements of `size` bytes."""
        elements = self.BM * self.BN
        return TileSum(self.BM, (self.BN,), self.BK, size, ceil(K / self.BK), elements * max(size, 2), scaled)


@functools.lru_cache(maxsize=4096)
def fastest(
    tiles: tuple[Tile, ...], M: int, N: int, K: int, size: int, device: Device, batches: int = 1, scaled: bool = False
) -> Tile:
    """The tile for batches of (M, K) x (K, N) with elements of `size` bytes. scaled: whether each step is scaled."""
    moved = batches * (M * K + K * N + M * N) * size

    def time(tile: Tile) -> float:
        made = tile.made(loops=(LoopPlan(0, mma_depth=int(tile.chained), stages=0),)) if scaled else tile.made()
        programs = batches * blocks(M, tile.BM) * blocks(N, tile.BN)
        return tile_us(tile.program(K, size, scaled), programs, made, device, moved)

    return clearly_fastest(tiles, time)


GROUPS = {"form": "persistent", "groups": 2}
FROM_COUNTER = {**GROUPS, "tiles": "dynamic"}
"""Persistent programs of two groups of consumers, which take the next tile from a counter."""

# --- products in 8-bit floating point with scales ---

IN_ONE_RING = {"operands": [{"ring": "ring0"}]}
"""A step has one slot, with the rows of both groups: one wait and one release for each."""
CHAINED = {"loops": [{"chain": 4}]}
"""The dot of a step is issued before that of the step before it is scaled."""
SCALED_BLOCKS = (
    Tile(128, 128, 128, 8, 5, options=(plan(**FROM_COUNTER, **IN_ONE_RING, **CHAINED),)),
    Tile(64, 128, 128, 4, 4, options=(plan(**CHAINED),)),
    Tile(64, 64, 128, 4, 4, 2, options=(plan(**CHAINED),)),
)
"""Where the dot of each 128 elements is added in float32: with scales by blocks, and without fast sums."""
SCALED_COLUMNS = (
    Tile(128, 128, 128, 8, 5, options=(plan(**FROM_COUNTER, **IN_ONE_RING),)),
    Tile(64, 128, 128, 4, 4),
    Tile(64, 64, 128, 4, 4, 2),
)
"""With scales of columns, which take the registers of a chain."""
SCALED_ELSEWHERE = (Tile(64, 64, 128, 4, 2),)

# --- products of batches ---

IN_SLICES = {"stores": [{"slices": 4}]}
"""C is stored in slices: staged as a whole, it would take a slot of A and B."""
BATCHED = (
    Tile(128, 256, 64, 8, 4, options=(plan(**FROM_COUNTER, **IN_SLICES),)),
    Tile(128, 128, 64, 8, 4, options=(plan(**FROM_COUNTER),)),
    Tile(64, 128, 64, 4, 4),
    Tile(64, 64, 64, 4, 4, 2),
)
BATCHED_ELSEWHERE = (Tile(64, 64, 64, 4, 2),)
BATCHED_TF32 = (
    Tile(128, 128, 32, 8, 4, options=(plan(**FROM_COUNTER, **IN_SLICES),)),
    Tile(64, 64, 32, 4, 4, 2),
)
"""float32, multiplied in tf32."""
BATCHED_TF32_ELSEWHERE = (Tile(64, 64, 32, 4, 2),)

# --- weights in few bits ---

WEIGHTS = (
    Tile(16, 64, 0, 4, 3, per_sm=3),
    Tile(32, 128, 0, 8, 3, per_sm=2),
    Tile(64, 128, 0, 8, 3),
    Tile(128, 128, 0, 8, 3),
    Tile(128, 128, 0, 8, 3, options=(("num_consumer_groups", 2),)),
)
"""Ordered by BM, the tokens of a tile (`weights_tile`). BN: rows of the weights."""
WEIGHTS_ELSEWHERE = (Tile(16, 64, 0, 4, 2), Tile(64, 64, 0, 4, 2))
MOST_SPLITS = 8


def weights_tile(tiles: Sequence[Tile], tokens: int) -> Tile:
    """The first tile that holds this number of tokens; the last one if none does."""
    return next((tile for tile in tiles if tokens <= tile.BM), tiles[-1])


def splits_for(tile: Tile, tokens: int, rows: int, steps: int, multiprocessors: int) -> int:
    """Over how many programs the blocks of K are split: a power of two, each with two blocks or more.

    Programs whose rows are split over groups of consumers do not share a tile.
    """
    if "num_consumer_groups" in dict(tile.options):
        return 1
    tiles = -(-tokens // tile.BM) * -(-rows // tile.BN)
    most = min(MOST_SPLITS, steps // 2, multiprocessors * tile.per_sm // tiles)
    return 1 << (most.bit_length() - 1) if most > 0 else 1
