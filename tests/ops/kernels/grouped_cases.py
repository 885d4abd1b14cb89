"""Cases of the kernels of grouped products and of mixtures of experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tawa.ops.kernels.grouped import products
from tawa.ops.products.tile_choice import Tile
from tests.cases.case import Absent, Argument, Descriptor, Number, Pointer, Specimen, Tensor
from tests.ops.kernels.quantised_cases import specimen_of

SLOTS = 8
"""Tiles that a list holds in these cases."""


def listed(sizes: Sequence[int], rows: int, BM: int) -> Any:
    """What `list_tiles` writes for groups of these sizes among so many rows."""
    starts = np.cumsum([0, *sizes])
    ends = [*starts[1:], rows]
    tiles = [
        (group, first, ends[group], 0) for group, start in enumerate(starts) for first in range(start, ends[group], BM)
    ]
    made = np.zeros((1 + SLOTS, 4), np.int32)
    made[0, 0] = len(tiles)
    made[1 : 1 + len(tiles)] = tiles
    return made.reshape(-1)


def grouped_case(
    tile: Tile, groups: int = 3, sizes: tuple[int, int, int] = (300, 160, 200), dtype: str = "bf16",
    b_rows: bool = False, gated: bool = False, tma: bool = True, programs: int = 3,
    choices: int | None = None,
) -> Specimen:  # fmt: skip
    """`grouped_mm`; sizes: T, N and K. b_rows: B has N innermost. choices: an order says which row each takes.

    Rows of B begin at multiples of 16 bytes; behind K they have other numbers.
    """
    T, N, K = sizes
    width, pitch = N * (1 + gated), -(-K // 8) * 8
    of_b = (K, width) if b_rows else (width, pitch)
    seen = None if b_rows else (groups, width, K)
    steps = None if b_rows else (width * pitch, pitch, 1)
    tensors = {"a": Tensor((T, K), dtype), "b": Tensor((groups, *of_b), dtype), "c": Tensor((T, N), dtype, "nan"),
               "tiles": Tensor((4 + 4 * SLOTS,), "i32", "zero")}  # fmt: skip
    if choices:
        tensors["order"] = Tensor((T,), "i32", "zero")
    arguments: dict[str, Argument] = {
        "a": Pointer("a") if choices else Descriptor("a", (tile.BM, tile.BK)),
        "b": Descriptor("b", (1, tile.BK, tile.BN) if b_rows else (1, tile.BN, tile.BK), seen, steps),
        "c": Pointer("c"), "c_box": Descriptor("c", (tile.BM, tile.BN)) if tma else Absent(),
        "tiles": Pointer("tiles"), "order": Pointer("order") if choices else Absent(), "N": Number(N),
        "K": Number(K), "G": Number(groups),
    }  # fmt: skip
    constants = {"BM": tile.BM, "BN": tile.BN, "BK": tile.BK, "GROUP": 4, "B_K": not b_rows, "GATED": gated,
                 "CHOICES": choices or 1, "ALIGNED": K % 8 == 0}  # fmt: skip
    return specimen_of("grouped", products.grouped_mm, arguments, tensors, constants, tile, programs)


def outer_case(
    tile: Tile, groups: int = 3, sizes: tuple[int, int, int] = (136, 160, 300), dtype: str = "bf16", tma: bool = True
) -> Specimen:
    """`grouped_outer`; sizes: M, N and T."""
    M, N, T = sizes
    tensors = {"a": Tensor((T, M), dtype), "b": Tensor((T, N), dtype), "c": Tensor((groups, M, N), dtype, "nan"),
               "ends": Tensor((groups,), "i32", "zero")}  # fmt: skip
    arguments: dict[str, Argument] = {
        "a": Descriptor("a", (tile.BK, tile.BM)), "b": Descriptor("b", (tile.BK, tile.BN)),
        "c": Descriptor("c", (1, tile.BM, tile.BN)) if tma else Pointer("c"), "ends": Pointer("ends"),
        "M": Number(M), "N": Number(N), "T": Number(T), "G": Number(groups),
    }  # fmt: skip
    constants = {"BM": tile.BM, "BN": tile.BN, "BK": tile.BK, "GROUP": 4, "C_TMA": tma}
    tiles = groups * -(-M // tile.BM) * -(-N // tile.BN)
    return specimen_of("outer", products.grouped_outer, arguments, tensors, constants, tile, tiles)
