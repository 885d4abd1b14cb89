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
from tawa.ops.attention_tiles import box_of, tiles_for
from tawa.ops.kernels import varlen

attention_varlen: Any = under_tawa(varlen.attention_varlen)


class Varlen:
    """The launches for tensors that differ in their numbers of rows and addresses only, with the same options.

    It is made from Q, K and V that fit a ragged descriptor, and the offsets of the queries.
    """

    def __init__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor, causal: bool, window: int,
        scale: float, softcap: float,
    ) -> None:  # fmt: skip
        check_capability(q)
        _, self.heads, self.head_dim = q.shape
        box = box_of(self.head_dim)
        tile = tiles_for(q.device).forward[box]
        self.BM, self.sequences = tile.BM, cu_seqlens_q.shape[0] - 1
        self.device = q.device.index
        self.kernel: Any = attention_varlen
        self.prepared: Any = None
        self.q, self.k, self.v = Box.ragged(q, tile.BM, box), Box.ragged(k, tile.BN, box), Box.ragged(v, tile.BN, box)
        self.o = Box.ragged(q.new_empty((1, self.heads, self.head_dim)), tile.BM, box)
        self.numbers = scale, softcap or 1.0
        self.constants = {
            "GROUP": self.heads // k.shape[1],
            "BM": tile.BM,
            "BN": tile.BN,
            "D": box,
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
        o = unwritten(q, (total, self.heads, self.head_dim), q.dtype)
        lse = unwritten(q, (self.heads, total), torch.float32)
        grid = blocks(longest, self.BM), self.heads, self.sequences
        first = (
            self.q.around(q), self.k.around(k), self.v.around(v), self.o.around(o), lse, cu_seqlens_q, cu_seqlens_k,
            total,
        )  # fmt: skip
        if self.device is None or self.device == torch.cuda.current_device():
            self._launch(grid, first)
        else:
            with torch.cuda.device(self.device):
                self._launch(grid, first)
        return o, lse

    def _launch(self, grid: tuple[int, ...], first: tuple[Any, ...]) -> None:
        like_before = (first[4].data_ptr() | first[5].data_ptr() | first[6].data_ptr()) % TMA_BYTES == 0
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
        return unwritten(q, tuple(q.shape), q.dtype).zero_(), lse.fill_(float("-inf"))
    q, k, v = for_ragged(q), for_ragged(k), for_ragged(v)
    run = Varlen(q, k, v, cu_seqlens_q, causal, window, scale, softcap)
    return run(q, k, v, cu_seqlens_q.contiguous(), cu_seqlens_k.contiguous(), longest)
