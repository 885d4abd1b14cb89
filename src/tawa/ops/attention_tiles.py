"""The tiles of the attention kernels: small tables by head dimension, for Hopper and for other GPUs.

On Hopper the planner splits the 128 rows of a forward tile over two consumer groups of 4 warps, 64 rows each, which is
one wgmma. Blocks of 128 keys are the largest that leave room for O (64 x D) and the scores (64 x 128), both float32, in
a group's registers, and for two slots of K and V beside Q in 227 KiB of shared memory. D = 256 doubles O and the slots,
so its blocks are half as long. D = 64 has the tiles of D = 128.

Up to D = 128 the kernel is persistent, so that the loads of the next tile overlap with the epilogue of this one. For
D = 256 a second tile of Q would take the place of the second slot of K and V (`bench/results/attention.json`).

In fp8 and up to D = 128, tiles of 64 x 64 are faster than any specialised kernel: several programs share an SM, and the
softmax of one overlaps with the dots of the others. Automatic mode leaves them to stock Triton (`attention.json`).

If V has up to 128 columns, a head dimension of Q and K above 128 and up to 192 is taken in two boxes, of 128 and 64
columns (`tawa.ops.kernels.two_parts`): five eighths of the wgmmas of a box of 256, and blocks of 128 keys fit. With
more columns V and O would have two boxes as well. The two dots by P then get different stages, and ptxas waits for
every wgmma of the kernel (its note C7513). So these head dimensions stay in one box, and so does 96.

The backward kernels hold two accumulators (dK, dV), or a tile of dO in addition (dQ): their tiles are the largest that
do not spill. Other devices have as little as 99 KiB of shared memory and no TMA; stock Triton runs smaller tiles there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

LEAST_BOX = 64
TWO_PARTS = 128, 64
"""Columns of the two boxes of a head dimension that is more than the first and at most both."""
HOPPER_CAPABILITY = (9, 0)


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows of queries (BM) and keys (BN) of a block, and launch options. persistent: a program has many tiles."""

    BM: int
    BN: int
    num_warps: int
    num_stages: int
    persistent: bool = False


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tile of each kernel by the head dimension of the box: forward, forward in fp8, dK and dV, dQ.

    two_parts: of head dimensions in two boxes, by the columns of V; empty if there is none.
    """

    forward: Mapping[int, Tile]
    forward_fp8: Mapping[int, Tile]
    dkdv: Mapping[int, Tile]
    dq: Mapping[int, Tile]
    two_parts: Mapping[int, Tile] = field(default_factory=dict[int, Tile])


HOPPER = Tiles(
    forward={64: Tile(128, 128, 8, 2, True), 128: Tile(128, 128, 8, 2, True), 256: Tile(128, 64, 8, 2)},
    forward_fp8={64: Tile(64, 64, 4, 3), 128: Tile(64, 64, 4, 3), 256: Tile(128, 64, 8, 2)},
    dkdv={64: Tile(64, 128, 8, 2), 128: Tile(32, 128, 8, 2), 256: Tile(32, 64, 8, 2)},
    dq={64: Tile(128, 128, 8, 2), 128: Tile(128, 64, 8, 2), 256: Tile(64, 32, 4, 2)},
    two_parts={128: Tile(128, 128, 8, 2)},
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


def box_of(head_dim: int) -> int:
    """The head dimension of a block; columns beyond those of the tensor are zero."""
    return max(LEAST_BOX, 1 << (head_dim - 1).bit_length())


def two_part_tile(tiles: Tiles, head_dim: int, values: int) -> Tile | None:
    """The tile if the head dimension of Q and K is taken in two boxes, else None. values: the head dimension of V."""
    first, second = TWO_PARTS
    if not first < head_dim <= first + second:
        return None
    return tiles.two_parts.get(first if values <= first else first + second)
