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

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

LEAST_BOX = 64
TWO_PARTS = ((64, 32), (128, 64))
"""Columns of the two boxes of head dimensions that are more than the first and at most both."""
HOPPER_CAPABILITY = (9, 0)


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows of queries (BM) and keys (BN) of a block, and launch options. persistent: a program has many tiles.

    options: Tawa's launch options, by name. least: the tile is for this many keys and more (`for_length`).
    """

    BM: int
    BN: int
    num_warps: int
    num_stages: int
    persistent: bool = False
    options: tuple[tuple[str, Any], ...] = ()
    least: int = 0


Choice = tuple[Tile, ...]
"""Tiles by ascending `least`, which is 0 for the first."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of each kernel by the head dimension of the box.

    full, causal: forward without and with a causal mask. varlen: packed sequences. dkdv, dq: backward. fp8_rows: for V
    as rows, which a converter in the kernel turns; turned_inside: whether they are used.

    two_parts_*: of head dimensions in two boxes, by the columns of the first box and of the boxes of V; empty if there
    is none.
    """

    full: Mapping[int, Choice]
    causal: Mapping[int, Choice]
    fp8_full: Mapping[int, Choice]
    fp8_causal: Mapping[int, Choice]
    varlen: Mapping[int, Tile]
    dkdv: Mapping[int, Tile]
    dq: Mapping[int, Tile]
    fp8_rows: Mapping[int, Choice] = field(default_factory=dict[int, Choice])
    turned_inside: bool = False
    two_parts_full: Mapping[tuple[int, int], Choice] = field(default_factory=dict[tuple[int, int], Choice])
    two_parts_causal: Mapping[tuple[int, int], Choice] = field(default_factory=dict[tuple[int, int], Choice])
    two_parts_varlen: Mapping[tuple[int, int], Tile] = field(default_factory=dict[tuple[int, int], Tile])


IN_ORDER = ("precision", "exact")
BY_TURNS = ("ping_pong", True)


def plan(**fields: Any) -> tuple[str, str]:
    """The launch option of a Plan in part."""
    return "plan", json.dumps(fields)


FROM_COUNTER = {"form": "persistent", "tiles": "dynamic"}
"""A persistent form whose programs take the next tile from a counter."""
LONGEST_FIRST = {**FROM_COUNTER, "tile_order": "longest_first"}
IN_SLICES = {"stores": [{"slices": 4}]}
THREE_PROGRAMS = {"groups": 3, "split": "programs", "loops": [{"kept": []}]}
"""Three programs in a CTA share K and V; their queries stay in shared memory, because registers are scarce."""
CONVERTED = {"operands": [{"turned": "converter"}]}
"""A converter in the kernel turns V."""
HOPPER = Tiles(
    full={
        64: (Tile(64, 128, 4, 2, False, (IN_ORDER, plan(**FROM_COUNTER, **THREE_PROGRAMS))),),
        128: (Tile(128, 128, 8, 2, False, (plan(**FROM_COUNTER),)),),
        256: (Tile(128, 64, 8, 2, False, (IN_ORDER, plan(form="persistent", **IN_SLICES))),),
    },
    causal={
        64: (
            Tile(128, 128, 8, 2, True, (plan(tiles="dynamic"),)),
            Tile(64, 128, 4, 2, False, (IN_ORDER, plan(**FROM_COUNTER, **THREE_PROGRAMS)), 4096),
        ),
        128: (
            Tile(128, 128, 8, 2, True, (plan(tiles="dynamic"),)),
            Tile(128, 128, 8, 2, True, (), 2048),
            Tile(128, 128, 8, 2, False, (plan(**FROM_COUNTER),), 8192),
        ),
        256: (Tile(128, 64, 8, 2, False, (IN_ORDER,)),),
    },
    fp8_full={
        64: (Tile(64, 128, 4, 3),),
        128: (Tile(128, 256, 8, 2),),
        256: (Tile(128, 64, 8, 2, True),),
    },
    fp8_causal={
        64: (Tile(64, 128, 4, 3),),
        128: (Tile(128, 128, 8, 2, False, (BY_TURNS, plan(**LONGEST_FIRST))),),
        256: (Tile(128, 64, 8, 2, True, (BY_TURNS,)),),
    },
    varlen={
        64: Tile(128, 128, 8, 2, True),
        128: Tile(128, 128, 8, 2, True),
        256: Tile(128, 64, 8, 2, False, (IN_ORDER,)),
    },
    dkdv={64: Tile(64, 128, 8, 2), 128: Tile(32, 128, 8, 2), 256: Tile(32, 64, 8, 2)},
    dq={64: Tile(128, 128, 8, 2), 128: Tile(128, 64, 8, 2), 256: Tile(64, 32, 4, 2)},
    fp8_rows={
        64: (Tile(128, 128, 8, 2, True, (BY_TURNS, plan(**CONVERTED))),),
        128: (Tile(128, 128, 8, 2, True, (BY_TURNS, plan(**CONVERTED))),),
        256: (Tile(128, 64, 8, 2, True, (BY_TURNS, plan(**CONVERTED))),),
    },
    two_parts_full={
        (64, 128): (Tile(128, 128, 8, 2, False, (plan(**FROM_COUNTER),)),),
        (128, 128): (Tile(128, 128, 8, 2),),
        (128, 192): (Tile(128, 64, 8, 2),),
    },
    two_parts_causal={
        (64, 128): (Tile(128, 128, 8, 2, False, (plan(**LONGEST_FIRST),)),),
        (128, 128): (Tile(128, 128, 8, 2),),
        (128, 192): (Tile(128, 64, 8, 2),),
    },
    two_parts_varlen={(128, 128): Tile(128, 128, 8, 2), (128, 192): Tile(128, 64, 8, 2)},
)
_SMALL = {64: (Tile(64, 64, 4, 2),), 128: (Tile(64, 64, 4, 2),), 256: (Tile(64, 32, 8, 1),)}
ELSEWHERE = Tiles(
    full=_SMALL,
    causal=_SMALL,
    fp8_full=_SMALL,
    fp8_causal=_SMALL,
    varlen={box: tile for box, (tile,) in _SMALL.items()},
    dkdv={64: Tile(32, 64, 4, 2), 128: Tile(32, 64, 8, 1), 256: Tile(32, 32, 8, 1)},
    dq={64: Tile(64, 32, 4, 2), 128: Tile(64, 32, 8, 1), 256: Tile(32, 32, 8, 1)},
)


def tiles_for(device: torch.device) -> Tiles:
    """The tables of a device."""
    if device.type == "cuda" and torch.cuda.get_device_capability(device) == HOPPER_CAPABILITY:
        return HOPPER
    return ELSEWHERE


def for_length(choice: Choice, keys: int) -> Tile:
    """The tile for rows that see up to so many keys."""
    return max((tile for tile in choice if tile.least <= keys), key=lambda tile: tile.least, default=choice[0])


def box_of(head_dim: int) -> int:
    """The head dimension of a block; columns beyond those of the tensor are zero."""
    return max(LEAST_BOX, 1 << (head_dim - 1).bit_length())


@dataclass(frozen=True, slots=True)
class Boxes:
    """The columns of the boxes of a head dimension.

    first, values: of the first box of Q and K, and of V and O. second, of_v: of their second boxes; 0 for none.
    """

    first: int
    values: int
    second: int = 0
    of_v: int = 0

    @property
    def constants(self) -> dict[str, int]:
        """Those of a kernel that takes two boxes."""
        return {"D2": self.second, "V1": self.values, "V2": self.of_v}


def two_boxes(head_dim: int, values: int) -> Boxes | None:
    """The boxes of a head dimension that fits two better than one, else None. values: the head dimension of V."""
    for first, second in TWO_PARTS:
        if first < head_dim <= first + second:
            of_v = second if values > max(first, 128) else 0
            return Boxes(first, min(box_of(values), 128), second, of_v)
    return None


def forward_tile(tiles: Tiles, head_dim: int, values: int, is_fp8: bool, causal: bool, keys: int) -> tuple[Tile, Boxes]:
    """The tile of the forward kernel. values: the head dimension of V. keys: that a row sees, at most."""
    boxes = None if is_fp8 else two_boxes(head_dim, values)
    if boxes is not None:
        table = tiles.two_parts_causal if causal else tiles.two_parts_full
        choice = table.get((boxes.first, boxes.values + boxes.of_v))
        if choice:
            return for_length(choice, keys), boxes
    by_mask = (tiles.fp8_full, tiles.fp8_causal) if is_fp8 else (tiles.full, tiles.causal)
    box = box_of(head_dim)
    return for_length(by_mask[causal][box], keys), Boxes(box, box)


def varlen_tile(tiles: Tiles, head_dim: int, values: int) -> tuple[Tile, Boxes]:
    """As `forward_tile`, for packed sequences."""
    boxes, box = two_boxes(head_dim, values), box_of(head_dim)
    tile = tiles.two_parts_varlen.get((boxes.first, boxes.values + boxes.of_v)) if boxes is not None else None
    return (tile, boxes) if boxes is not None and tile is not None else (tiles.varlen[box], Boxes(box, box))
