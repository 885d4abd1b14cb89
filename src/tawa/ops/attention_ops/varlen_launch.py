"""Launching the attention kernel over packed sequences on PyTorch tensors.

A call is two launches: a small kernel lists the tiles of all sequences, and the attention kernel works through the
list. Nothing of them depends on the lengths but grids, the size of the list, and the number of queries as the stride of
the logarithms: the descriptors are the same for any number of rows. So a batch of other lengths is launched as fast as
the same one again.
"""

from __future__ import annotations

from typing import Any

import torch

from tawa.ops.attention_ops.launch import tiles_for, under_tawa
from tawa.ops.attention_ops.tensors import fits_ragged, for_ragged, ragged_box
from tawa.ops.attention_ops.tiles import varlen_tile
from tawa.ops.calls.checks import check_capability
from tawa.ops.calls.devices import multiprocessors, on_device
from tawa.ops.calls.launches import Launches
from tawa.ops.calls.tables import blocks
from tawa.ops.calls.tensors import unwritten
from tawa.ops.kernels.attention import varlen

attention_varlen: Any = under_tawa(varlen.attention_varlen)
attention_varlen_two_parts: Any = under_tawa(varlen.attention_varlen_two_parts)
list_shares: Any = under_tawa(varlen.list_shares)
ITEM: int = varlen.ITEM.value
LISTED = 64
"""Sequences whose shares one program lists."""


class ShareList:
    """Lists the shares of so many sequences, in tiles of `rows`; last_first, paired: as in `list_shares`."""

    def __init__(self, sequences: int, rows: int, last_first: bool = False, paired: bool = False) -> None:
        self.sequences, self.rows = sequences, rows
        listed = {"BM": rows, "LAST_FIRST": last_first, "PAIRED": paired, "BLOCK": LISTED, "num_warps": 4}
        self.launches = Launches(lambda: list_shares, (), (), listed)

    def __call__(
        self, offsets: torch.Tensor, of_others: torch.Tensor, total: int, heads: int
    ) -> tuple[torch.Tensor, tuple[int]]:
        """The list, and the grid of a program for each of its shares and heads.

        offsets: of what is listed, `total` rows. of_others: of what each share loops over.
        """
        most = total // self.rows + self.sequences  # shares, at most: the last tile of a sequence need not be full
        items = torch.empty(((1 + most) * ITEM,), dtype=torch.int32, device=offsets.device)
        given = offsets, of_others
        self.launches((blocks(self.sequences, LISTED),), (*given, items, self.sequences, most), given)
        return items, (most * heads,)


class Varlen:
    """The launches for tensors that differ in their numbers of rows and addresses only, with the same options.

    It is made from Q, K and V that fit a ragged descriptor, and the offsets of the queries.
    """

    def __init__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor, causal: bool, window: int,
        scale: float, softcap: float,
    ) -> None:  # fmt: skip
        check_capability(q)
        _, self.heads, head_dim = q.shape
        self.values = v.shape[2]
        tile, boxes = varlen_tile(tiles_for(q.device), head_dim, self.values)
        two = boxes.second > 0
        self.programs = multiprocessors(q.device) if tile.persistent else 0
        self.device = q.device.index
        o = q.new_empty((1, self.heads, self.values))
        rows = (q, tile.BM), (k, tile.BN), (v, tile.BN), (o, tile.BM)
        columns = [boxes.first, boxes.first, boxes.values, boxes.values]
        if two:
            columns += [boxes.second, boxes.second, boxes.of_v, boxes.of_v]
        parts = list(zip(rows * (1 + two), columns, strict=True))
        made = [ragged_box(x, count, width) if width else None for (x, count), width in parts]
        self.two, self.two_of_v = two, boxes.of_v > 0
        constants = {
            "GROUP": self.heads // k.shape[1],
            "BM": tile.BM,
            "BN": tile.BN,
            "D": boxes.first,
            **(boxes.constants if two else {}),
            "CAUSAL": causal,
            "WINDOW": window,
            "SOFTCAP": softcap > 0,
            "PERSISTENT": tile.persistent,
            "num_warps": tile.num_warps,
            "num_stages": tile.num_stages,
            **dict(tile.options),
        }
        numbers = scale, softcap or 1.0
        kernel = (lambda: attention_varlen_two_parts) if two else (lambda: attention_varlen)
        self.attend = Launches(kernel, made, numbers, constants)
        paired = tile.persistent and causal and not window
        self.list = ShareList(cu_seqlens_q.shape[0] - 1, tile.BM, causal and not paired, paired)

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """O and the base-2 logarithms of the sums. There are queries and keys."""
        total = q.shape[0]
        o = unwritten(q, (total, self.heads, self.values), q.dtype)
        lse = unwritten(q, (self.heads, total), torch.float32)
        tensors: tuple[torch.Tensor | None, ...] = q, k, v, o
        if self.two:
            tensors = (*tensors, q, k, *((v, o) if self.two_of_v else (None, None)))
        on_device(self.device, self._launch, tensors, lse, cu_seqlens_q, cu_seqlens_k, total)
        return o, lse

    def _launch(
        self, tensors: tuple[torch.Tensor | None, ...], lse: torch.Tensor, cu_seqlens_q: torch.Tensor,
        cu_seqlens_k: torch.Tensor, total: int,
    ) -> None:  # fmt: skip
        items, (most,) = self.list(cu_seqlens_q, cu_seqlens_k, total, self.heads)
        grid = (min(self.programs, most) if self.programs else most,)
        self.attend(grid, (*tensors, lse, items, self.heads, total))


def known_varlen(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor,
    causal: bool, window: int, scale: float, softcap: float,
) -> Varlen | None:  # fmt: skip
    """What to call on such tensors; None if some have to be copied, or are empty."""
    if not (has_work(q, k, cu_seqlens_q) and cu_seqlens_q.is_contiguous() and cu_seqlens_k.is_contiguous()):
        return None
    if not all(fits_ragged(x) for x in (q, k, v)):
        return None
    return Varlen(q, k, v, cu_seqlens_q, causal, window, scale, softcap)


def has_work(q: torch.Tensor, k: torch.Tensor, cu_seqlens_q: torch.Tensor) -> bool:
    """Whether there are queries, keys and sequences."""
    return 0 not in q.shape and 0 not in k.shape and cu_seqlens_q.shape[0] > 1


def run_varlen(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor,
    longest: int, causal: bool, window: int, scale: float, softcap: float,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """O (rows, H, D), and the base-2 logarithms of the sums (H, rows) in float32. window, softcap: 0 for none."""
    if longest == 0 or not has_work(q, k, cu_seqlens_q):
        lse = unwritten(q, (q.shape[1], q.shape[0]), torch.float32)
        return unwritten(q, (*q.shape[:2], v.shape[2]), q.dtype).zero_(), lse.fill_(float("-inf"))
    q, k, v = for_ragged(q), for_ragged(k), for_ragged(v)
    run = Varlen(q, k, v, cu_seqlens_q, causal, window, scale, softcap)
    return run(q, k, v, cu_seqlens_q.contiguous(), cu_seqlens_k.contiguous())
