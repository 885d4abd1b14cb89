"""Launching the backward attention kernels on PyTorch tensors.

dQ is added up by the programs that own keys: five dots a block of queries and keys, in an order that differs from run
to run. Where the bits must not (`torch.use_deterministic_algorithms`), it is added up in whole numbers. Where the
kernel has no registers for it (a window or a softcap with D = 256), a second kernel computes dQ by itself, with seven
dots in all, and in one order.
"""

from __future__ import annotations

from typing import Any

import torch

from tawa.ops.attention_ops.launch import LN_2, tiles_for, under_tawa
from tawa.ops.attention_ops.options import Options
from tawa.ops.attention_ops.order import heads_together, steps_of_keys
from tawa.ops.attention_ops.tensors import Boxed, for_tma, is_like_a_copy, new_like, rows_box
from tawa.ops.attention_ops.tiles import Tile, backward_tiles, box_of, with_outer_loop, with_steps
from tawa.ops.calls.checks import check_capability
from tawa.ops.calls.devices import on_device
from tawa.ops.calls.launches import Launches
from tawa.ops.calls.plain import KnownCalls
from tawa.ops.calls.tables import blocks
from tawa.ops.calls.tensors import TMA_BYTES, Box, unwritten, unwritten_copy
from tawa.ops.kernels.attention import backward

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
PADDED: int = backward.PADDED.value
ROWS = 64
"""Rows that a program of `gradient_rows` sums up."""
SEEN: int = backward.SEEN.value

attention_dkdv: Any = under_tawa(backward.attention_dkdv)
attention_dq: Any = under_tawa(backward.attention_dq)
attention_dq_of_sums: Any = under_tawa(backward.attention_dq_of_sums)
gradient_rows: Any = under_tawa(backward.gradient_rows)
largest_of_keys: Any = under_tawa(backward.largest_of_keys)


class Backward:
    """The backward launches for tensors of one shape and layout, on one device and with the same options.

    All but addresses is known. do, q, k, v and o are as the kernels take them. alibi: the slopes, or None. same_bits:
    whether every run gives the same bits.
    """

    def __init__(
        self, do: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor,
        alibi: torch.Tensor | None, options: Options, same_bits: bool,
    ) -> None:  # fmt: skip
        check_capability(q)
        (batches, heads, queries, head_dim), (_, key_heads, keys, _) = q.shape, k.shape
        box, mask = box_of(head_dim), options.mask
        padded = -(-queries // PADDED) * PADDED
        tile, of_queries = backward_tiles(tiles_for(q.device), box, same_bits, mask.kind, options.softcap > 0, queries)
        self.added = of_queries is None
        self.in_steps = self.added and same_bits
        self.type_of_sums = torch.int32 if self.in_steps else torch.float32
        self.device, self.rows = q.device.index, (batches, heads, padded)
        self.sums = batches * heads * padded * box // backward.WIDTH.value, backward.WIDTH.value
        like = tuple(torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta") for x in (q, k, v))
        self.as_copies = all(map(is_like_a_copy, like))
        numbers, group = (heads, queries, padded), heads // key_heads
        constants = {"GROUP": group, "ALIBI": alibi is not None, **options.constants}
        even = not mask.causal and keys % tile.BN == 0  # the causal kernel does not depend on it
        if self.in_steps:
            tile = with_steps(tile, 1 + (not even))
        if group > 1:
            tile = with_outer_loop(tile)
        dq, dk, dv = (new_like(it, it.dtype) for it in like)
        self.may_overflow = self.in_steps and q.dtype == torch.float16
        self.grid_of_largest = blocks(keys, SEEN), batches * key_heads
        self.launch_largest, self.launch_check = (
            Launches(lambda: largest_of_keys, boxes, (key_heads,), {"BN": SEEN, "D": box, "num_warps": 8})
            for boxes in ((rows_box(k, SEEN, box), rows_box(v, SEEN, box)), (rows_box(dk, SEEN, box), None))
        )
        self.grid_of_rows = blocks(padded, ROWS), batches * heads
        of_rows = rows_box(o, ROWS, box), rows_box(do, ROWS, box)
        # Where no steps are made, one kernel serves all groups and masks.
        seen = {"GROUP": group, "CAUSAL": mask.causal} if self.in_steps else {"GROUP": 1, "CAUSAL": False}
        sizes = {**seen, "BM": ROWS, "D": box, "num_warps": 8}
        self.launch_rows = Launches(lambda: gradient_rows, of_rows, (*numbers, keys, mask.diagonal), sizes)
        self.grid_of_keys = blocks(keys, tile.BN), batches * key_heads
        lengths = [group * it for it in steps_of_keys(self.grid_of_keys[0], tile.BM, tile.BN, queries, mask)]
        # Without a Plan, the compiler may choose a persistent form, and with it an order.
        together = heads_together(lengths, self.grid_of_keys[1], q.device) if mask.causal and tile.options else None
        sums = torch.empty(self.sums, dtype=self.type_of_sums, device="meta")
        by_tma = self.added and not tile.owned
        of_sums = Box.of(sums, tile.BM * box // self.sums[1], self.sums[1]) if by_tma else None
        written = rows_box(dk, tile.BN, box), rows_box(dv, tile.BN, box), of_sums
        self.launch_keys = Launches(
            lambda: attention_dkdv,
            (*boxes_read(rows_box, q, k, v, do, tile, box), *written),
            (together, *numbers, keys, mask.diagonal, *options.numbers),
            {**constants, **tile.constants(box), "ADDED": self.added, "EVEN": even, "OWNED": tile.owned},
        )
        if of_queries is None:
            rows = tile.BM
            self.launch_queries = Launches(
                lambda: attention_dq_of_sums,
                (None, rows_box(dq, rows, box)),
                (heads, padded, keys, options.scale),
                {
                    "GROUP": seen["GROUP"],
                    "BM": rows,
                    "D": box,
                    "SINGLY": tile.owned and same_bits,
                    "num_warps": 8,
                },
            )
        else:
            rows = of_queries.BM
            self.launch_queries = Launches(
                lambda: attention_dq,
                (*boxes_read(rows_box, q, k, v, do, of_queries, box), rows_box(dq, rows, box)),
                (heads, padded, keys, mask.diagonal, *options.numbers),
                {**constants, **of_queries.constants(box)},
            )
        self.grid_of_queries = blocks(queries, rows), batches * heads

    def __call__(
        self, do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
        o: torch.Tensor, lse: torch.Tensor, alibi: torch.Tensor | None,
    ) -> Gradients:  # fmt: skip
        """dQ, dK and dV. The tensors differ from those of `__init__` in their addresses only."""
        dq, dk, dv = (unwritten_copy(x) if self.as_copies else new_like(x, x.dtype) for x in (q, k, v))
        made = dq, dk, dv
        on_device(self.device, self._launch, do, dlse, q, k, v, o, lse, alibi, *made)
        return made

    def _launch(
        self, do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
        o: torch.Tensor, lse: torch.Tensor, alibi: torch.Tensor | None, dq: torch.Tensor, dk: torch.Tensor,
        dv: torch.Tensor,
    ) -> None:  # fmt: skip
        lse_rows, delta = unwritten(q, (2, *self.rows), torch.float32).unbind()
        sums = unwritten(q, self.sums, self.type_of_sums) if self.added else None
        steps = largest = found = None
        if self.in_steps:
            steps = unwritten(q, self.rows, torch.float32)
            largest, found = unwritten(q, (2, 2, *reversed(self.grid_of_largest)), torch.float32).unbind()
            self.launch_largest(self.grid_of_largest, (k, v, largest))
        of_rows = o, do, lse, dlse, lse_rows, delta, sums, largest, steps
        self.launch_rows(self.grid_of_rows, of_rows, (lse, dlse))
        self.launch_keys(self.grid_of_keys, (q, k, v, do, dk, dv, sums, lse_rows, delta, steps, alibi), (alibi,))
        if self.may_overflow:
            self.launch_check(self.grid_of_largest, (dk, None, found))
        if sums is not None:
            self.launch_queries(self.grid_of_queries, (sums, dq, steps, found if self.may_overflow else None))
        else:
            self.launch_queries(self.grid_of_queries, (q, k, v, do, dq, lse_rows, delta, alibi), (alibi,))


def boxes_read(
    boxed: Boxed, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, tile: Tile, box: int
) -> list[Box]:
    """The boxes of what a kernel reads."""
    return [boxed(x, rows, box) for x, rows in ((q, tile.BM), (k, tile.BN), (v, tile.BN), (do, tile.BM))]


def run_backward(
    do: torch.Tensor,
    dlse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    alibi: torch.Tensor | None,
    options: Options,
) -> Gradients:
    """dQ, dK and dV. do, dlse: gradients of what `run_forward` returned."""
    if q.numel() == 0 or k.numel() == 0:
        dq, dk, dv = (new_like(x, x.dtype).zero_() for x in (q, k, v))
        return dq, dk, dv
    same_bits = torch.are_deterministic_algorithms_enabled()
    dlse = None if dlse is None else dlse.contiguous().div(LN_2)
    lse, alibi = lse.contiguous(), None if alibi is None else alibi.contiguous()
    known = (
        do.stride(), q.shape, q.stride(), k.shape, k.stride(), v.shape, v.stride(), o.stride(), q.dtype, q.device,
        options, same_bits, dlse is None, alibi is None,
    )  # fmt: skip
    launches = backwards.get(known)
    aligned = (do.data_ptr() | q.data_ptr() | k.data_ptr() | v.data_ptr() | o.data_ptr()) % TMA_BYTES == 0
    if launches is not None and aligned:
        return launches(do, dlse, q, k, v, o, lse, alibi)
    given = do, q, k, v, o
    do, q, k, v, o = (for_tma(x) for x in given)
    launches = Backward(do, q, k, v, o, alibi, options, same_bits)
    if all(one is other for one, other in zip(given, (do, q, k, v, o), strict=True)):
        backwards.keep(known, launches)
    return launches(do, dlse, q, k, v, o, lse, alibi)


backwards: KnownCalls[Backward] = KnownCalls()
"""For tensors that need no copy, by all that decides over them but their addresses."""
