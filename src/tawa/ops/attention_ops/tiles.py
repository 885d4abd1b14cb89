"""The tiles of the attention kernels and what is asked of their Plans: tables for Hopper and for other GPUs.

All choices are those that `bench/results/attention.json` and the candidates of ``bench.attention`` found fastest. On
Hopper the planner splits the 128 rows of a forward tile over two consumer groups of 4 warps, 64 rows each, which is one
wgmma. Blocks of 128 keys are the largest that leave room for O (64 x D) and the scores (64 x 128), both float32, in a
group's registers, and for two slots of K and V beside Q in 227 KiB of shared memory. D = 256 doubles O and the slots,
so its blocks are half as long, and O is stored in slices: staged as a whole, it would take the second slots of K and V.

For D = 64 in 16 bits the softmax of a block takes longer than its dots. Three programs with 64 rows each share K and V
in a CTA; with few keys under a causal mask, their different lengths cost more than a third group brings.

Tiles of one length are taken from a counter by as many programs as there are SMs. The tiles of a causal mask differ in
length: the persistent kernel takes them from a counter in pairs of equal length, and at the end one by one, the longest
first; for many keys one by one from the start. So do three programs. Tiles behind a window are single, too; the longest
of some heads start first, in an order that the kernel computes.

In fp8 the slots are half as large and the dots half as long: the groups gain from ping-pong.
Without a mask, blocks of 256 keys are faster for D = 128: they rescale O half as often, and leave no registers for
stages. For D = 64 in fp8, tiles of 64 x 128 are faster than any specialised kernel: several programs share an SM, and
the softmax of one overlaps with the dots of the others. Automatic mode leaves them to stock Triton. Sums in another
order (``precision="relaxed"``) pay where a block has 128 keys, and in fp8; elsewhere they are taken in order.

V of fp8 that is stored as rows is transposed by a kernel before attention. For few keys, that takes long beside the
attention: a converter in the attention kernel transposes V instead (`Tile.transposes_v`). It is slower than the dots of
a block.

Head dimensions above 128 and up to 192 are taken in two boxes, of 128 and 64 columns
(`tawa.ops.kernels.attention.two_parts`): three quarters of the wgmmas of a box of 256. V has one box if it has no more
than 128 columns. With two boxes for V as well, O takes 96 registers, and blocks of 64 keys are what fits. Head
dimensions above 64 and up to 96 have two boxes of 64 and 32 columns for Q and K if there are many keys, and one for V:
a wgmma with 32 columns takes as long as one with 64.

The backward kernels hold two accumulators (dK, dV), or a tile of dO in addition (dQ): their tiles are the largest that
do not spill. For D = 256, one group computes P and another dS, and each has half of the columns of dK and dV. A
window's third loop and the derivative of a softcap need registers, too. Other devices have as little
as 99 KiB of shared memory and no TMA; stock Triton runs smaller tiles there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from tawa.ops.calls.tables import plan

LEAST_BOX = 64
TWO_PARTS = ((64, 32), (128, 64))
"""Columns of the two boxes of head dimensions that are more than the first and at most both."""


MaskKind = Literal["full", "causal", "window"]
"""Every row of queries sees all keys; a causal mask without a window; a window, causal or not."""


class Mask(NamedTuple):
    """Which keys a row sees: up to ``row + diagonal`` if causal, and the last `window` of those if it is not 0."""

    causal: bool
    diagonal: int
    window: int = 0

    @property
    def kind(self) -> MaskKind:
        """Of the tables of tiles."""
        return "window" if self.window else "causal" if self.causal else "full"


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows of queries (BM) and keys (BN) of a block, and launch options. persistent: of the kernel that is written so.

    options: Tawa's launch options, by name. least: the tile is for this many keys and more (`for_length`).
    transposes_v: the kernel transposes V in fp8 itself, so the tile is for V as rows only. owned: consumer groups own
    different dots of the backward kernel. ordered: the kernel computes its order of programs (`order.py`), for a Plan
    that gives none.
    """

    BM: int
    BN: int
    num_warps: int
    num_stages: int
    persistent: bool = False
    options: tuple[tuple[str, Any], ...] = ()
    least: int = 0
    transposes_v: bool = False
    owned: bool = False
    ordered: bool = False

    @property
    def from_counter(self) -> bool:
        """Whether programs take their tiles from a counter."""
        return json.loads(dict(self.options).get("plan", "{}")).get("tiles") == "dynamic"

    def constants(self, box: int) -> dict[str, Any]:
        """The constants of a kernel that depend on its tile alone. box: columns of the first box of Q."""
        sizes = {"BM": self.BM, "BN": self.BN, "D": box, "num_warps": self.num_warps, "num_stages": self.num_stages}
        return {**sizes, **dict(self.options)}


Choice = tuple[Tile, ...]
"""Tiles by ascending `least`, which counts keys, or the queries of backward kernels.

One that transposes V stands behind the one for other V.
"""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of each kernel.

    forward, fp8: by the kind of mask and the head dimension of the box, in 16 and in 8 bits. two_parts: of a head
    dimension in two boxes, in 16 bits, by the columns of the first box and of the boxes of V; where there is none, one
    box is taken. varlen, two_parts_varlen: for packed sequences. Backward: gradients, where dQ is added up, by the
    number of queries, in_steps, where it is added up in whole numbers, and varlen_gradients, for packed sequences
    without a window; dkdv and dq, where dQ has a kernel of its own; narrow, in place of dkdv, if a window or a softcap
    needs another tile.
    """

    forward: Mapping[MaskKind, Mapping[int, Choice]]
    fp8: Mapping[MaskKind, Mapping[int, Choice]]
    varlen: Mapping[int, Tile]
    dkdv: Mapping[int, Tile]
    dq: Mapping[int, Tile]
    gradients: Mapping[MaskKind, Mapping[int, Choice]] = field(default_factory=dict[MaskKind, Mapping[int, Choice]])
    in_steps: Mapping[MaskKind, Mapping[int, Choice]] = field(default_factory=dict[MaskKind, Mapping[int, Choice]])
    varlen_gradients: Mapping[int, Tile] = field(default_factory=dict[int, Tile])
    narrow: Mapping[int, Tile] = field(default_factory=dict[int, Tile])
    two_parts: Mapping[MaskKind, Mapping[tuple[int, int], Choice]] = field(
        default_factory=dict[MaskKind, Mapping[tuple[int, int], Choice]]
    )
    two_parts_varlen: Mapping[tuple[int, int], Tile] = field(default_factory=dict[tuple[int, int], Tile])


IN_ORDER = ("precision", "exact")
PING_PONG = ("ping_pong", True)


PERSISTENT: dict[str, Any] = {"form": "persistent"}
FROM_COUNTER = {**PERSISTENT, "tiles": "dynamic"}
"""Programs take the next tile from a counter."""
LONGEST_FIRST = {**FROM_COUNTER, "tile_order": "longest_first"}
IN_SLICES = {"stores": [{"slices": 4}]}
THREE_PROGRAMS = {"groups": 3, "split": "programs", "loops": [{"kept": []}]}
"""Three programs in a CTA share K and V; their queries stay in shared memory, because registers are scarce."""
CONVERTED = {"operands": [{"transposed": "converter"}]}
"""A converter in the kernel transposes V."""
_LARGE = Tile(128, 128, 8, 2, options=(plan(**FROM_COUNTER),))
_LONG_BLOCKS = replace(_LARGE, BN=256, options=(plan(**FROM_COUNTER, loops=[{"stages": 0}]),))
"""No registers are left for stages: what the compiler finds as well, after a try that spills."""
_PAIRS = Tile(128, 128, 8, 2, True)
_PAIRS_FROM_COUNTER = replace(_PAIRS, options=(plan(tiles="dynamic"),))
_WIDE = Tile(128, 64, 8, 2, options=(IN_ORDER, plan(**FROM_COUNTER, **IN_SLICES)))
_THREE = Tile(64, 128, 4, 2)
_SHARED_SM = Tile(64, 128, 4, 3)
_NARROW = Tile(64, 128, 8, 2)
_GRADIENTS = replace(_NARROW, options=(plan(groups=1, **FROM_COUNTER),))
_EXCHANGED = replace(_NARROW, options=(plan(groups=2, form="as_written"),))
"""Groups that exchange tiles pay where programs are long. Made persistent, with D = 128, each ring has one slot left,
which hides no load."""
_ONE_SLOT: dict[str, Any] = {"groups": 2, "form": "as_written", "operands": [{"ring": "queries"}]}
"""Q, dO and their rows share the slots of one ring."""
_SHARING = replace(_NARROW, BM=128, options=(plan(**_ONE_SLOT),))
_LAGGED = replace(_SHARING, options=(plan(**_ONE_SLOT, loops=[{"behind": True}]),))

_BY_GROUPS: dict[str, Any] = {**_ONE_SLOT, "stores": [{"store_warp": False}]}
"""The groups add dQ themselves: with 64 columns its slices are small, and a warp for them costs more than it saves."""
_ADDED = replace(_SHARING, options=(plan(**_BY_GROUPS, loops=[{"behind": True}]),))
_ADDED_BELOW = replace(_SHARING, options=(plan(**_BY_GROUPS, loops=[{"loop": 1, "behind": True}]),))
"""Only the loop below the diagonal has the lag: the loop over the diagonal has few blocks."""
_OWNED = Tile(64, 64, 8, 2, options=(plan(groups=2, split="columns", form="as_written"),), owned=True)
"""For wide heads: dK and dV of 64 keys are what the registers of two groups can hold, half of the columns each."""
_PACKED = replace(_NARROW, options=(plan(groups=1),))
_192: Mapping[tuple[int, int], Choice] = {(128, 128): (Tile(128, 128, 8, 2),), (128, 192): (Tile(128, 64, 8, 2),)}


def _converter_below(keys: int, tile: Tile, converting: Tile) -> Choice:
    """One tile; but for V as rows and fewer keys than that, one that transposes V."""
    return tile, replace(converting, transposes_v=True), replace(tile, least=keys)


HOPPER = Tiles(
    forward={
        "full": {
            64: (replace(_THREE, options=(IN_ORDER, plan(**FROM_COUNTER, **THREE_PROGRAMS))),),
            128: (_LARGE,),
            256: (replace(_WIDE, options=(IN_ORDER, plan(**PERSISTENT, **IN_SLICES))),),
        },
        "causal": {
            64: (
                _PAIRS_FROM_COUNTER,
                replace(_THREE, options=(plan(**LONGEST_FIRST, **THREE_PROGRAMS),), least=4096),
            ),
            128: (_PAIRS_FROM_COUNTER, replace(_LARGE, least=16384)),
            256: (
                _WIDE,
                replace(_WIDE, persistent=True, options=(IN_ORDER, plan(**IN_SLICES)), least=1024),
                replace(_WIDE, least=16384),
            ),
        },
        "window": {64: (_PAIRS,), 128: (replace(_LARGE, ordered=True),), 256: (replace(_WIDE, options=(IN_ORDER,)),)},
    },
    fp8={
        "full": {
            64: (_SHARED_SM,),
            128: _converter_below(1024, _LONG_BLOCKS, replace(_PAIRS, options=(PING_PONG, plan(**CONVERTED)))),
            256: (replace(_LARGE, options=(plan(**PERSISTENT, **IN_SLICES),)), replace(_LARGE, BN=64, least=4096)),
        },
        "causal": {
            64: (_SHARED_SM,),
            128: _converter_below(
                2048,
                replace(_PAIRS, options=(PING_PONG, plan(tiles="dynamic"))),
                replace(_LARGE, options=(plan(**LONGEST_FIRST, **CONVERTED),)),
            ),
            256: (replace(_LARGE, options=(plan(**LONGEST_FIRST, **IN_SLICES),)),),
        },
        "window": {
            64: (_SHARED_SM,),
            128: (replace(_PAIRS, options=(PING_PONG,)),),
            256: (replace(_PAIRS, BN=64, options=(PING_PONG,)),),
        },
    },
    varlen={64: _PAIRS_FROM_COUNTER, 128: _PAIRS_FROM_COUNTER, 256: replace(_WIDE, options=(IN_ORDER,))},
    gradients={
        "full": {
            64: (replace(_NARROW, BM=128, options=(plan(groups=2, **FROM_COUNTER),)), replace(_ADDED, least=4096)),
            128: (_GRADIENTS, replace(_EXCHANGED, least=2048)),
            256: (_OWNED,),
        },
        "causal": {
            64: (
                replace(_GRADIENTS, BM=128, options=(plan(groups=1, **FROM_COUNTER, rings=[{"depth": 2}]),)),
                replace(_ADDED_BELOW, least=4096),
            ),
            128: (_GRADIENTS, replace(_EXCHANGED, least=4096)),
            256: (_OWNED,),
        },
        "window": {64: (_NARROW,), 128: (_NARROW,)},
    },
    in_steps={
        "full": {64: (replace(_LAGGED, least=4096),), 128: (replace(_EXCHANGED, least=4096),), 256: (_OWNED,)},
        "causal": {64: (replace(_SHARING, least=4096),), 128: (replace(_EXCHANGED, least=4096),), 256: (_OWNED,)},
    },
    varlen_gradients={64: replace(_PACKED, BM=128), 128: _PACKED},
    narrow={64: _NARROW},
    dkdv={64: Tile(128, 128, 8, 2), 128: Tile(64, 128, 8, 2), 256: Tile(64, 64, 8, 2)},
    dq={64: Tile(128, 128, 8, 2), 128: Tile(128, 128, 8, 2), 256: Tile(64, 64, 4, 2)},
    two_parts={
        "full": {(64, 128): (replace(_LARGE, least=2048),), **_192},
        "causal": {(64, 128): (replace(_LARGE, options=(plan(**LONGEST_FIRST),), least=4096),), **_192},
        "window": _192,
    },
    two_parts_varlen={(128, 128): Tile(128, 128, 8, 2), (128, 192): Tile(128, 64, 8, 2)},
)
_SMALL = {64: (Tile(64, 64, 4, 2),), 128: (Tile(64, 64, 4, 2),), 256: (Tile(64, 32, 8, 1),)}
_EVERY_MASK: Mapping[MaskKind, Mapping[int, Choice]] = {"full": _SMALL, "causal": _SMALL, "window": _SMALL}
ELSEWHERE = Tiles(
    forward=_EVERY_MASK,
    fp8=_EVERY_MASK,
    varlen={box: tile for box, (tile,) in _SMALL.items()},
    dkdv={64: Tile(32, 64, 4, 2), 128: Tile(32, 64, 8, 1), 256: Tile(32, 32, 8, 1)},
    dq={64: Tile(64, 32, 4, 2), 128: Tile(64, 32, 8, 1), 256: Tile(32, 32, 8, 1)},
)


def for_length(choice: Choice, keys: int, rows: bool = False) -> Tile | None:
    """The tile for rows of queries that see up to so many keys; None if there is none. rows: V in fp8 has rows."""
    fitting = [tile for tile in choice if tile.least <= keys and rows >= tile.transposes_v]
    return max(fitting, key=lambda tile: (tile.least, tile.transposes_v), default=None)


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


def forward_tile(
    tiles: Tiles, head_dim: int, values: int, is_fp8: bool, mask: MaskKind, keys: int, rows: bool = False
) -> tuple[Tile, Boxes]:
    """The tile of the forward kernel.

    values: the head dimension of V. keys: that a row of queries sees, at most. rows: V in fp8 has rows.
    """
    boxes = None if is_fp8 else two_boxes(head_dim, values)
    if boxes is not None and mask in tiles.two_parts:
        tile = for_length(tiles.two_parts[mask].get((boxes.first, boxes.values + boxes.of_v), ()), keys)
        if tile is not None:
            return tile, boxes
    box = box_of(head_dim)
    tile = for_length((tiles.fp8 if is_fp8 else tiles.forward)[mask][box], keys, rows)
    assert tile is not None
    return tile, Boxes(box, box)


def backward_tiles(
    tiles: Tiles, box: int, same_bits: bool, mask: MaskKind, softcap: bool, queries: int | None
) -> tuple[Tile, Tile | None]:
    """The tile of the kernel for dK and dV, and that of the one for dQ; None where the first adds dQ up.

    same_bits: whether every run gives the same bits. queries: of a head; None for packed sequences. A softcap needs
    registers, as a window does, and gets its tiles.
    """
    kind: MaskKind = "window" if softcap else mask
    choice = (tiles.in_steps if same_bits else tiles.gradients).get(kind, {}).get(box)
    if queries is None and (same_bits or kind != "window"):
        choice = (tiles.varlen_gradients[box],) if not same_bits and box in tiles.varlen_gradients else None
    tile = for_length(choice, queries or 0) if choice is not None else None
    if tile is not None:
        return tile, None
    return tiles.narrow.get(box, tiles.dkdv[box]) if kind == "window" else tiles.dkdv[box], tiles.dq[box]


def with_steps(tile: Tile, loops: int) -> Tile:
    """The tile of a kernel with so many loops that adds up in steps.

    In the slots of dO, the rows of steps would take a slot from the rings. They are used at the end of an iteration,
    and loaded by then. Where groups own dots, there is room for them.
    """
    if tile.owned:
        return tile
    rows = [{"argument": "steps_ptr", "loop": loop, "path": "pointers"} for loop in range(loops)]
    return _asking(tile, lambda asked: asked | {"operands": [*asked.get("operands", ()), *rows]})


def with_outer_loop(tile: Tile) -> Tile:
    """The tile where its loops are in one over the query heads of a key head, which has the first number."""

    def moved(asked: dict[str, Any]) -> dict[str, Any]:
        lists = {key: value for key, value in asked.items() if isinstance(value, list)}
        return asked | {
            key: [it | {"loop": it["loop"] + 1} if "loop" in it else it for it in entries]
            for key, entries in lists.items()
        }

    return _asking(tile, moved)


def _asking(tile: Tile, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Tile:
    """The tile with another Plan, if it has one."""
    options = dict(tile.options)
    if "plan" not in options:
        return tile
    options |= [plan(**change(json.loads(options["plan"])))]
    return replace(tile, options=tuple(options.items()))


def varlen_tile(tiles: Tiles, head_dim: int, values: int) -> tuple[Tile, Boxes]:
    """As `forward_tile`, for packed sequences."""
    boxes, box = two_boxes(head_dim, values), box_of(head_dim)
    tile = tiles.two_parts_varlen.get((boxes.first, boxes.values + boxes.of_v)) if boxes is not None else None
    return (tile, boxes) if boxes is not None and tile is not None else (tiles.varlen[box], Boxes(box, box))
