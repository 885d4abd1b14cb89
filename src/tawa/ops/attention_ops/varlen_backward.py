"""Launching the backward attention kernels over packed sequences on PyTorch tensors.

As `backward_launch`, with the lists of `varlen_launch`: one of tiles of queries, and one of tiles of keys. Nothing that
is kept depends on the lengths.
"""

from __future__ import annotations

from typing import Any

import torch

from tawa.ops.attention_ops.backward_launch import PADDED, Gradients, boxes_read
from tawa.ops.attention_ops.checks import MOST_ROWS
from tawa.ops.attention_ops.launch import LN_2, tiles_for, under_tawa
from tawa.ops.attention_ops.options import Options
from tawa.ops.attention_ops.tensors import MOST_OFFSET, for_ragged, ragged_box
from tawa.ops.attention_ops.tiles import backward_tiles, box_of
from tawa.ops.attention_ops.varlen_launch import ShareList, has_work
from tawa.ops.calls.checks import ArgumentError, check_capability
from tawa.ops.calls.devices import on_device
from tawa.ops.calls.launches import Launches
from tawa.ops.calls.plain import KnownCalls
from tawa.ops.calls.tensors import Box, unwritten
from tawa.ops.kernels.attention import backward, backward_varlen

varlen_rows: Any = under_tawa(backward_varlen.varlen_rows)
varlen_dkdv: Any = under_tawa(backward_varlen.varlen_dkdv)
varlen_dq: Any = under_tawa(backward_varlen.varlen_dq)
varlen_dq_of_sums: Any = under_tawa(backward_varlen.varlen_dq_of_sums)
WIDTH: int = backward.WIDTH.value


class VarlenBackward:
    """The backward launches for tensors that differ in their numbers of rows and addresses only, with the same options.

    It is made from tensors that fit a ragged descriptor. sequences: their number. same_bits: whether every run gives
    the same bits.
    """

    def __init__(
        self, do: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, sequences: int,
        options: Options, same_bits: bool,
    ) -> None:  # fmt: skip
        check_capability(q)
        (_, self.heads, head_dim), self.key_heads = q.shape, k.shape[1]
        self.box = box = box_of(head_dim)
        kind, has_softcap = options.mask.kind, options.softcap > 0
        tile, of_queries = backward_tiles(tiles_for(q.device), box, same_bits, kind, has_softcap, queries=None)
        self.added, self.sequences, self.device = of_queries is None, sequences, q.device.index
        rows = tile.BM if of_queries is None else of_queries.BM
        self.of_queries, self.of_keys = ShareList(sequences, rows), ShareList(sequences, tile.BN)
        constants = {"GROUP": self.heads // self.key_heads, **options.constants}
        dq, dk, dv = (x.new_empty((1, *x.shape[1:])) for x in (q, k, v))
        of_dq = ragged_box(dq, rows, box)
        sums = torch.empty((1, WIDTH), dtype=torch.float32, device="meta")
        of_sums = Box.over(sums, [MOST_OFFSET, WIDTH], [WIDTH, 1], [tile.BM * box // WIDTH, WIDTH])
        whole = {"BM": rows, "D": box, "num_warps": 8}
        read = ragged_box(o, rows, box), ragged_box(do, rows, box)
        self.launch_rows = Launches(lambda: varlen_rows, read, (), whole)
        written = ragged_box(dk, tile.BN, box), ragged_box(dv, tile.BN, box), of_sums
        self.launch_keys = Launches(
            lambda: varlen_dkdv,
            (*boxes_read(ragged_box, q, k, v, do, tile, box), *written),
            options.numbers,
            {**constants, **tile.constants(box), "ADDED": self.added},
        )
        if of_queries is None:
            self.launch_queries = Launches(lambda: varlen_dq_of_sums, (None, of_dq), (options.scale,), whole)
        else:
            self.launch_queries = Launches(
                lambda: varlen_dq,
                (*boxes_read(ragged_box, q, k, v, do, of_queries, box), of_dq),
                options.numbers,
                {**constants, **of_queries.constants(box)},
            )

    def __call__(
        self, do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
        o: torch.Tensor, lse: torch.Tensor, cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor,
    ) -> Gradients:  # fmt: skip
        """dQ, dK and dV. There are queries and keys."""
        dq, dk, dv = (x.new_zeros(x.shape) for x in (q, k, v))  # rows that belong to no sequence stay 0
        on_device(self.device, self._launch, do, dlse, q, k, v, o, lse, cu_seqlens_q, cu_seqlens_k, dq, dk, dv)
        return dq, dk, dv

    def _launch(
        self, do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
        o: torch.Tensor, lse: torch.Tensor, cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor, dq: torch.Tensor,
        dk: torch.Tensor, dv: torch.Tensor,
    ) -> None:  # fmt: skip
        total, padded = q.shape[0], padded_rows(q, self.sequences)
        lse_rows, delta = unwritten(q, (2, self.heads, padded), torch.float32).unbind()
        size = self.heads * padded * self.box // WIDTH, WIDTH
        sums = unwritten(q, size, torch.float32) if self.added else None
        queries, grid = self.of_queries(cu_seqlens_q, cu_seqlens_k, total, self.heads)
        keys, grid_of_keys = self.of_keys(cu_seqlens_k, cu_seqlens_q, k.shape[0], self.key_heads)
        first = o, do, lse, dlse, lse_rows, delta, sums, queries, self.heads, total, padded
        self.launch_rows(grid, first, (lse, dlse))
        first = q, k, v, do, dk, dv, sums, lse_rows, delta, keys, self.key_heads, padded
        self.launch_keys(grid_of_keys, first)
        if sums is not None:
            self.launch_queries(grid, (sums, dq, queries, self.heads, padded))
        else:
            self.launch_queries(grid, (q, k, v, do, dq, lse_rows, delta, queries, self.heads, padded))


def run_varlen_backward(
    do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor,
    lse: torch.Tensor, cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor, causal: bool, window: int, scale: float,
    softcap: float,
) -> Gradients:  # fmt: skip
    """dQ, dK and dV; 0 in rows that belong to no sequence. do, dlse: gradients of what `run_varlen` returned."""
    if not has_work(q, k, cu_seqlens_q):
        dq, dk, dv = (torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
        return dq, dk, dv
    sequences = cu_seqlens_q.shape[0] - 1
    check_workspace(q, sequences)
    options, same_bits = Options.of(causal, window, scale, softcap), torch.are_deterministic_algorithms_enabled()
    dlse = None if dlse is None else dlse.contiguous().div(LN_2)
    do, q, k, v, o = given = tuple(for_ragged(x) for x in (do, q, k, v, o))
    known = (
        *(x.stride() for x in given), *(x.shape[1:] for x in given), q.dtype, q.device, sequences,
        options, same_bits, dlse is None,
    )  # fmt: skip
    launches = backwards.get(known)
    if launches is None:
        made = VarlenBackward(do, q, k, v, o, sequences, options, same_bits)
        launches = backwards.keep(known, made)
    return launches(do, dlse, q, k, v, o, lse.contiguous(), cu_seqlens_q.contiguous(), cu_seqlens_k.contiguous())


def padded_rows(q: torch.Tensor, sequences: int) -> int:
    """Rows of a head in the workspace."""
    return (q.shape[0] // PADDED + sequences) * PADDED


def check_workspace(q: torch.Tensor, sequences: int) -> None:
    """Raises ArgumentError unless a kernel can number the rows of the workspace."""
    if q.shape[1] * padded_rows(q, sequences) > MOST_ROWS:
        raise ArgumentError(
            f"gradients of {sequences} sequences with {q.shape[0]} rows of {q.shape[1]} heads: at most {MOST_ROWS} "
            f"rows of all heads, counting {PADDED} more for each sequence; cure: split the sequences over several calls"
        )


backwards: KnownCalls[VarlenBackward] = KnownCalls()
"""By all that decides over a call but the numbers of rows and addresses."""
