"""The tiles of the attention kernels: small tables by head dimension, for Hopper and for other GPUs.

On Hopper the planner splits the 128 rows of a forward tile over two consumer groups of 4 warps, 64 rows each, which is
one wgmma. Blocks of 128 keys are the largest that leave room for O (64 x D) and the scores (64 x 128), both float32, in
a group's registers, and for two slots of K and V beside Q in 227 KiB of shared memory. D = 256 doubles O and the slots,
so its blocks are half as long. D = 64 has the tiles of D = 128.

Up to D = 128 the kernel is persistent, so that the loads of the next tile overlap with the epilogue of this one. For
D = 256 a second tile of Q would take the place of the second slot of K and V (`bench/results/attention.json`).

In fp8 the slots are half as large, so D = 256 is persistent as well, and the dots half as long: the groups gain from
taking turns on the tensor cores. Without a mask, blocks of 256 keys are faster for D = 128: they rescale O half as
often, and leave no registers for stages. For D = 64 in fp8, tiles of 64 x 128 are faster than any specialised kernel:
several programs share an SM, and the softmax of one overlaps with the dots of the others. Automatic mode leaves them to
stock Triton (`attention.json`). Sums in another order (``precision="relaxed"``) pay where a block has 128 keys, and in
fp8, not for D = 256 in 16 bits.

V of fp8 that is stored as rows is turned by a kernel before attention. A converter in the attention kernel can turn it
instead, which saves reading and writing V once (`turned_inside`). Its tiles have blocks of at most 128 keys, because a
second ring takes shared memory. It has not been timed, so no table asks for it.

Head dimensions above 128 and up to 192 are taken in two boxes, of 128 and 64 columns (`tawa.ops.kernels.two_parts`):
three quarters of the wgmmas of a box of 256. V has one box if it has no more columns than the first. With two boxes for
V as well, O takes 96 registers, and blocks of 64 keys are what fits. Up to 96, two boxes of 64 and 32 columns are
slower than one of 128: the dots of a block take less time than its softmax as it is.

The tiles of a causal mask differ in length. The persistent kernel takes them in pairs of equal length. Plans in which
programs take tiles from a counter have not been timed yet: ``bench.attention`` has them among its candidates.

The backward kernels hold two accumulators (dK, dV), or a tile of dO in addition (dQ): their tiles are the largest that
do not spill. Other devices have as little as 99 KiB of shared memory and no TMA; stock Triton runs smaller tiles there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

LEAST_BOX = 64
TWO_PARTS = ((128, 64),)
"""Columns of the two boxes of head dimensions that are more than the first and at most both."""
HOPPER_CAPABILITY = (9, 0)


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows of queries (BM) and keys (BN) of a block, and launch options. persistent: a program has many tiles.

    options: Tawa's launch options, by name.
    """

    BM: int
    BN: int
    num_warps: int
    num_stages: int
    persistent: bool = False
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tile of each kernel by the head dimension of the box: forward, forward in fp8, dK and dV, dQ.

    forward_fp8_full: those of `forward_fp8` that are others where every row sees all keys. forward_fp8_rows: for V as
    rows, which a converter in the kernel turns; turned_inside: whether they are used.

    two_parts: of head dimensions in two boxes, by the columns of the first box and of the boxes of V; empty if there is
    none.
    """

    forward: Mapping[int, Tile]
    forward_fp8: Mapping[int, Tile]
    dkdv: Mapping[int, Tile]
    dq: Mapping[int, Tile]
    forward_fp8_full: Mapping[int, Tile] = field(default_factory=dict[int, Tile])
    forward_fp8_rows: Mapping[int, Tile] = field(default_factory=dict[int, Tile])
    turned_inside: bool = False
    two_parts: Mapping[tuple[int, int], Tile] = field(default_factory=dict[tuple[int, int], Tile])


IN_ORDER = (("precision", "exact"),)
BY_TURNS = (("ping_pong", True),)
CONVERTED = (*BY_TURNS, ("plan", '{"operands": [{"turned": "converter"}]}'))
"""A converter in the kernel turns V."""
HOPPER = Tiles(
    forward={
        64: Tile(128, 128, 8, 2, True),
        128: Tile(128, 128, 8, 2, True),
        256: Tile(128, 64, 8, 2, False, IN_ORDER),
    },
    forward_fp8={
        64: Tile(64, 128, 4, 3),
        128: Tile(128, 128, 8, 2, True, BY_TURNS),
        256: Tile(128, 64, 8, 2, True, BY_TURNS),
    },
    dkdv={64: Tile(64, 128, 8, 2), 128: Tile(32, 128, 8, 2), 256: Tile(32, 64, 8, 2)},
    dq={64: Tile(128, 128, 8, 2), 128: Tile(128, 64, 8, 2), 256: Tile(64, 32, 4, 2)},
    forward_fp8_full={128: Tile(128, 256, 8, 2)},
    forward_fp8_rows={
        64: Tile(128, 128, 8, 2, True, CONVERTED),
        128: Tile(128, 128, 8, 2, True, CONVERTED),
        256: Tile(128, 64, 8, 2, True, CONVERTED),
    },
    two_parts={
        (128, 128): Tile(128, 128, 8, 2),
        (128, 192): Tile(128, 64, 8, 2),
    },
)
ELSEWHERE = Tiles(
    forward={64: Tile(64, 64, 4, 2), 128: Tile(64, 64, 4, 2), 256: Tile(64, 32, 8, 1)},
    forward_fp8={64: Tile(64, 64, 4, 2), 128: Tile(64, 64, 4, 2), 256: Tile(64, 32, 8, 1)},
    dkdv={64: Tile(32, 64, 4, 2), 128: Tile(32, 64, 8, 1), 256: Tile(32, 32, 8, 1)},
    dq={64: Tile(64, 32, 4, 2), 128: Tile(64, 32, 8, 1), 256: Tile(32, 32, 8, 1)},
)


def tiles_for(device: torch.device) -> Tiles:
    """The tables of a device."""
    if device.type == "cuda" and torch.cuda.get_device_capability(device) == HOPPER_CAPABILITY:
        return HOPPER
    return ELSEWHERE


def forward_tile(tiles: Tiles, box: int, is_fp8: bool, full: bool) -> Tile:
    """The tile of the forward kernel with one box of this head dimension. full: every row sees all keys."""
    if not is_fp8:
        return tiles.forward[box]
    return (tiles.forward_fp8_full.get(box) if full else None) or tiles.forward_fp8[box]


def box_of(head_dim: int) -> int:
    """The head dimension of a block; columns beyond those of the tensor are zero."""
    return max(LEAST_BOX, 1 << (head_dim - 1).bit_length())


@dataclass(frozen=True, slots=True)
class Parts:
    """A head dimension in two boxes. first, second: their columns. of_v: columns of V's second box, 0 for none."""

    tile: Tile
    first: int
    second: int
    of_v: int


def two_parts(tiles: Tiles, head_dim: int, values: int) -> Parts | None:
    """The boxes if the head dimension of Q and K is taken in two, else None. values: the head dimension of V."""
    for first, second in TWO_PARTS:
        if first < head_dim <= first + second:
            of_v = second if values > first else 0
            tile = tiles.two_parts.get((first, first + of_v))
            return Parts(tile, first, second, of_v) if tile is not None else None
    return None
