"""Launching the attention kernel over packed sequences on PyTorch tensors.

Nothing of a launch depends on the lengths but its grid, and the number of queries as the stride of the logarithms: the
descriptors are the same for any number of rows. So a batch of other lengths is launched as fast as the same one again.
"""

from __future__ import annotations

from typing import Any

import torch

from tawa.ops.attention_checks import check_capability
from tawa.ops.attention_launch import blocks, under_tawa
from tawa.ops.attention_tensors import TMA_BYTES, Box, fits_ragged, for_ragged, unwritten
from tawa.ops.attention_tiles import TWO_PARTS, box_of, tiles_for, two_part_tile
from tawa.ops.kernels import varlen

attention_varlen: Any = under_tawa(varlen.attention_varlen)
attention_varlen_two_parts: Any = under_tawa(varlen.attention_varlen_two_parts)


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
        self.values, box, tiles = v.shape[2], box_of(head_dim), tiles_for(q.device)
        two = two_part_tile(tiles, head_dim, self.values)
        tile = two or tiles.forward[box]
        first, second = TWO_PARTS if two else (box, 0)
        second_of_v = second if self.values > first else 0
        self.BM, self.sequences = tile.BM, cu_seqlens_q.shape[0] - 1
        self.device = q.device.index
        self.kernel: Any = attention_varlen_two_parts if two else attention_varlen
        self.prepared: Any = None
        o = q.new_empty((1, self.heads, self.values))
        rows = (q, tile.BM), (k, tile.BN), (v, tile.BN), (o, tile.BM)
        self.boxes: tuple[Box | None, ...] = tuple(Box.ragged(x, count, first) for x, count in rows)
        """Boxes of Q, K, V and O; then of their second parts if there are two, None where V has none."""
        if two:
            columns = second, second, second_of_v, second_of_v
            self.boxes += tuple(
                Box.ragged(x, count, width) if width else None for (x, count), width in zip(rows, columns, strict=True)
            )
        self.numbers = scale, softcap or 1.0
        self.constants = {
            "GROUP": self.heads // k.shape[1],
            "BM": tile.BM,
            "BN": tile.BN,
            "D": first,
            **({"D2": second, "V2": second_of_v} if two else {}),
            "CAUSAL": causal,
            "WINDOW": window,
            "SOFTCAP": softcap > 0,
            "num_warps": tile.num_warps,
            "num_stages": tile.num_stages,
        }

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor,
        cu_seqlens_k: torch.Tensor, longest: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        """O and the base-2 logarithms of the sums. There are keys, and the longest sequence has queries."""
        total = q.shape[0]
        o = unwritten(q, (total, self.heads, self.values), q.dtype)
        lse = unwritten(q, (self.heads, total), torch.float32)
        grid = blocks(longest, self.BM), self.heads, self.sequences
        tensors = (q, k, v, o) if len(self.boxes) == 4 else (q, k, v, o, q, k, v, o)
        made = [box and box.around(x) for box, x in zip(self.boxes, tensors, strict=True)]
        first = (*made, lse, cu_seqlens_q, cu_seqlens_k, total)
        if self.device is None or self.device == torch.cuda.current_device():
            self._launch(grid, first)
        else:
            with torch.cuda.device(self.device):
                self._launch(grid, first)
        return o, lse

    def _launch(self, grid: tuple[int, ...], first: tuple[Any, ...]) -> None:
        lse, cu_seqlens_q, cu_seqlens_k, _ = first[-4:]
        like_before = (lse.data_ptr() | cu_seqlens_q.data_ptr() | cu_seqlens_k.data_ptr()) % TMA_BYTES == 0
        if like_before and self.prepared is not None and self.prepared(grid, first):
            return
        self.kernel.run(*first, *self.numbers, grid=grid, warmup=False, **self.constants)
        if like_before and hasattr(self.kernel, "prepared"):  # not under Triton's interpreter
            self.prepared = self.kernel.prepared((*first, *self.numbers), self.constants, len(first))


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
    return run(q, k, v, cu_seqlens_q.contiguous(), cu_seqlens_k.contiguous(), longest)
