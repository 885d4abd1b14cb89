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
from tawa.ops.attention_ops.options import Options
from tawa.ops.attention_ops.tensors import boxes_of_parts, fits_ragged, for_ragged, in_parts, ragged_box
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
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor, options: Options
    ) -> None:
        check_capability(q)
        _, self.heads, head_dim = q.shape
        self.values = v.shape[2]
        tile, boxes = varlen_tile(tiles_for(q.device), head_dim, self.values)
        self.boxes = boxes
        self.programs = multiprocessors(q.device) if tile.persistent else 0
        self.device = q.device.index
        o = q.new_empty((1, self.heads, self.values))
        made = boxes_of_parts(ragged_box, q, k, v, o, tile, boxes)
        constants = {
            "GROUP": self.heads // k.shape[1],
            **(boxes.constants if boxes.second else {}),
            **options.constants,
            "PERSISTENT": tile.persistent,
            **tile.constants(boxes.first),
        }
        kernel = (lambda: attention_varlen_two_parts) if boxes.second else (lambda: attention_varlen)
        self.attend = Launches(kernel, made, options.numbers, constants)
        paired = tile.persistent and options.mask.kind == "causal"
        self.list = ShareList(cu_seqlens_q.shape[0] - 1, tile.BM, options.mask.causal and not paired, paired)

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """O and the base-2 logarithms of the sums. There are queries and keys."""
        total = q.shape[0]
        o = unwritten(q, (total, self.heads, self.values), q.dtype)
        lse = unwritten(q, (self.heads, total), torch.float32)
        parts = in_parts(q, k, v, o, self.boxes)
        on_device(self.device, self._launch, parts, lse, cu_seqlens_q, cu_seqlens_k, total)
        return o, lse

    def _launch(
        self, parts: tuple[torch.Tensor | None, ...], lse: torch.Tensor, cu_seqlens_q: torch.Tensor,
        cu_seqlens_k: torch.Tensor, total: int,
    ) -> None:  # fmt: skip
        items, (most,) = self.list(cu_seqlens_q, cu_seqlens_k, total, self.heads)
        grid = (min(self.programs, most) if self.programs else most,)
        self.attend(grid, (*parts, lse, items, self.heads, total))


def known_varlen(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor,
    options: Options,
) -> Varlen | None:  # fmt: skip
    """What to call on such tensors; None if some have to be copied, or are empty."""
    if not (has_work(q, k, cu_seqlens_q) and cu_seqlens_q.is_contiguous() and cu_seqlens_k.is_contiguous()):
        return None
    if not all(fits_ragged(x) for x in (q, k, v)):
        return None
    return Varlen(q, k, v, cu_seqlens_q, options)


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
    run = Varlen(q, k, v, cu_seqlens_q, Options.of(causal, window, scale, softcap))
    return run(q, k, v, cu_seqlens_q.contiguous(), cu_seqlens_k.contiguous())
