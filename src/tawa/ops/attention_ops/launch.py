"""Launching the forward attention kernels on PyTorch tensors.

Every launch goes through `tawa.jit`: specialised where that is legal and expected to pay, else stock Triton. Sums of
rows may be taken in another order than stock Triton's (``precision="relaxed"``). Forward is the two-loop form of
`tawa.ops.kernels.attention.forward`, which masks only the blocks of keys that need it. There is one program per tile,
or one persistent program per SM (`attention_tiles` has the choice).
"""

from __future__ import annotations

from typing import Any

import torch

from tawa.ops.attention_ops.options import Options
from tawa.ops.attention_ops.order import heads_in_pairs, heads_together, steps_of_queries
from tawa.ops.attention_ops.tensors import boxes_of_parts, for_tma, in_parts, is_like_a_copy, new_like, rows_box
from tawa.ops.attention_ops.tiles import ELSEWHERE, HOPPER, Boxes, Mask, Tile, Tiles, box_of, forward_tile
from tawa.ops.calls.checks import check_capability
from tawa.ops.calls.devices import is_hopper, multiprocessors, on_device
from tawa.ops.calls.launches import Launches, once_for_all
from tawa.ops.calls.plain import KnownCalls
from tawa.ops.calls.tables import blocks
from tawa.ops.calls.tensors import TMA_BYTES, fits_tma, unwritten, unwritten_copy
from tawa.ops.kernels.attention import forward, persistent, reordered, two_parts

LN_2 = 0.6931471805599453
LENGTHS = (
    "HEADS",
    "H",
    "HK",
    "SQ",
    "SP",
    "SK",
    "diagonal",
    "TOTAL_Q",
    "together",
    "PAIRED",
    "S",
    "MORE",
    "TABLE",
    "ROWS",
    "splits",
    "CAPACITY",
    "ENTRIES",
    "SEQUENCES",
    "MOST",
    "FQ_B",
    "FQ_H",
    "FK_B",
    "FK_H",
    "FV_B",
    "FV_H",
)
Factors = tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]
"""Of Q, K and V, float32, as views (B, HK); None for none."""
NO_FACTORS: Factors = (None, None, None)


def under_tawa(kernel: Any) -> Any:
    """The kernel under `tawa.jit`, compiled once for all lengths, which only bound loops and masks."""
    return once_for_all(kernel, LENGTHS, precision="relaxed")


attention_two_loops: Any = under_tawa(forward.attention_two_loops)
attention_persistent: Any = under_tawa(persistent.attention_persistent)
attention_two_parts: Any = under_tawa(two_parts.attention_two_parts)
reorder_values: Any = under_tawa(reordered.reorder_values)
REORDERED_ROWS = 128
"""Keys of V that one program reorders."""


def output_type(dtype: torch.dtype) -> torch.dtype:
    """The element type of O: that of Q, and float16 for fp8."""
    return dtype if dtype.itemsize > 1 else torch.float16


def tiles_for(device: torch.device) -> Tiles:
    """The tables of a device."""
    return HOPPER if is_hopper(device) else ELSEWHERE


class Forward:
    """The forward launches for tensors of one shape and layout, on one device and with the same options.

    All but addresses is known. It is made from Q, K, V (transposed in fp8) and the slopes as the kernel takes them.
    reorder: makes V as the kernel takes it from V as the caller has it; None if that is the same, or its transpose.
    factors: as the calls have them. output: the element type of O. inside: V in fp8 has rows, which the kernel
    transposes.
    """

    def __init__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, alibi: torch.Tensor | None, options: Options,
        reorder: ReorderValues | None = None, factors: Factors = NO_FACTORS, output: torch.dtype | None = None,
        inside: bool = False,
    ) -> None:  # fmt: skip
        check_capability(q)
        self.reorder = reorder
        batches, heads, queries, head_dim = q.shape
        keys = k.shape[2]
        self.transposed = transposed = needs_transposed(q) and not inside
        values = v.shape[2] if transposed else v.shape[3]
        mask = options.mask
        tile, boxes = tile_of(q, k, values, mask, inside)
        self.boxes = boxes
        grid = blocks(queries, tile.BM), batches * heads
        kernel: Any = attention_two_parts if boxes.second else attention_two_loops
        self.grid: tuple[int, ...] = grid
        if tile.persistent:
            kernel, self.grid = attention_persistent, (min(multiprocessors(q.device), grid[0] * grid[1]),)
        self.device = q.device.index
        self.output, self.rows = output or output_type(q.dtype), (batches, heads, queries)
        without_data = torch.empty_strided(q.shape, q.stride(), dtype=self.output, device="meta")
        self.values = values
        self.as_a_copy = self.output == q.dtype and values == head_dim and is_like_a_copy(without_data)
        o = new_like(without_data, self.output, values)
        made = boxes_of_parts(rows_box, q, k, v, o, tile, boxes)
        if transposed:
            made[2] = rows_box(v, boxes.values, tile.BN)
        strides = [stride for it in factors for stride in ((0, 0) if it is None else it.stride())]
        order: tuple[int | None, ...] = (None,)
        if tile.persistent:
            order = grid[1], heads_in_pairs(*grid, q.device) if tile.from_counter else grid[1]
        elif tile.ordered and mask.causal:
            lengths = steps_of_queries(grid[0], tile.BM, tile.BN, keys, mask)
            order = (heads_together(lengths[::-1], grid[1], q.device),)
        numbers = *order, heads, queries, keys, mask.diagonal, *options.numbers, *(() if boxes.second else strides)
        constants = {
            "GROUP": heads // k.shape[1],
            **(boxes.constants if boxes.second else {"V_T": 2 if reorder else int(transposed)}),
            **options.constants,
            "ALIBI": alibi is not None,
            "EVEN": not mask.causal and keys % tile.BN == 0,  # the causal kernel does not depend on it
            **tile.constants(boxes.first),
        }
        self.launches = Launches(lambda: kernel, made, numbers, constants)

    def of_rows(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, alibi: torch.Tensor | None,
        factors: Factors = NO_FACTORS,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        """As `__call__`, on V as the caller has it."""
        v = self.reorder(v) if self.reorder is not None else v.mT if self.transposed else v
        return self(q, k, v, alibi, factors)

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, alibi: torch.Tensor | None,
        factors: Factors = NO_FACTORS,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        """O and the logarithms of the sums. The tensors differ from those of `__init__` in their addresses only."""
        o = unwritten_copy(q) if self.as_a_copy else new_like(q, self.output, self.values)
        lse = unwritten(q, self.rows, torch.float32)
        on_device(self.device, self._launch, q, k, v, o, lse, alibi, factors)
        return o, lse

    def _launch(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor,
        alibi: torch.Tensor | None, factors: Factors,
    ) -> None:  # fmt: skip
        parts = in_parts(q, k, v, o, self.boxes)
        of_fp8 = () if self.boxes.second else factors
        self.launches(self.grid, (*parts, lse, alibi, *of_fp8), (alibi, *factors))


class ReorderValues:
    """Transposes and reorders V (B, HK, SK, DV) in fp8, of one shape and layout, for `V_T = 2` of the kernels."""

    def __init__(self, v: torch.Tensor) -> None:
        batches, heads, keys, values = v.shape
        padded = -(-keys // TMA_BYTES) * TMA_BYTES
        self.shape, self.device = (batches, heads, values, padded), v.device
        self.grid = blocks(padded, REORDERED_ROWS), batches * heads
        numbers = heads, keys, padded, values, *v.stride()
        constants = {"ROWS": REORDERED_ROWS, "D": box_of(values), "num_warps": 4}
        self.launches = Launches(lambda: reorder_values, (), numbers, constants)

    def __call__(self, v: torch.Tensor) -> torch.Tensor:
        """A copy (B, HK, DV, SK rounded up to a multiple of 16), with the keys of each 16 in another order."""
        made = unwritten(v, self.shape, v.dtype)
        with torch.cuda.device_of(v):
            self.launches(self.grid, (v.view(torch.int8), made.view(torch.int8)), (v,))
        return made


def needs_transposed(q: torch.Tensor) -> bool:
    """Whether V is read transposed: wgmma takes eight-bit operands with the summed dimension innermost only."""
    return q.element_size() == 1


def tile_of(q: torch.Tensor, k: torch.Tensor, values: int, mask: Mask, rows: bool = False) -> tuple[Tile, Boxes]:
    """The tile of the forward kernel, and its boxes. values: the head dimension of V. rows: V in fp8 has rows."""
    keys = min(k.shape[2], mask.window) if mask.window else k.shape[2]
    return forward_tile(tiles_for(q.device), q.shape[3], values, needs_transposed(q), mask.kind, keys, rows)


def run_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    alibi: torch.Tensor | None,
    options: Options,
    factors: Factors = NO_FACTORS,
    output: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """O (B, H, SQ, D), and the base-2 logarithms of the sums (B, H, SQ) in float32.

    factors: of eight-bit tensors. output: the element type of O; None: `output_type`.
    """
    if factors is not NO_FACTORS:
        factors = by_key_head(factors, k)
    known = (
        q.shape, q.stride(), k.shape, k.stride(), v.shape, v.stride(), q.dtype, q.device, options, alibi is None,
        output, factors is NO_FACTORS or tuple(it if it is None else it.stride() for it in factors),
    )  # fmt: skip
    alibi = None if alibi is None else alibi.contiguous()
    forward = forwards.get(known)
    if forward is not None and (q.data_ptr() | k.data_ptr() | v.data_ptr()) % TMA_BYTES == 0:
        return forward.of_rows(q, k, v, alibi, factors)
    if 0 in q.shape or 0 in k.shape:
        o = new_like(q, output or output_type(q.dtype), v.shape[3])
        lse = unwritten(q, tuple(q.shape[:3]), torch.float32)
        return o.zero_(), lse.fill_(float("-inf"))
    rows = needs_transposed(q) and not fits_tma(v.mT)
    inside = rows and fits_tma(v) and tile_of(q, k, v.shape[3], options.mask, rows=True)[0].transposes_v
    reorder = ReorderValues(v) if rows and not inside else None
    transposed = needs_transposed(q) and not inside
    values = reorder(v) if reorder is not None else v.mT if transposed else for_tma(v)
    read = for_tma(q), for_tma(k)
    forward = Forward(*read, values, alibi, options, reorder, factors, output, inside)
    if read[0] is q and read[1] is k and (transposed or values is v):
        forwards.keep(known, forward)
    return forward(*read, values, alibi, factors)


def by_key_head(factors: Factors, k: torch.Tensor) -> Factors:
    """Views (B, HK) of factors that broadcast to that; `NO_FACTORS` if all are None."""
    size = tuple(k.shape[:2])
    of_q, of_k, of_v = (None if it is None else it.expand(size) for it in factors)
    return NO_FACTORS if of_q is of_k is of_v is None else (of_q, of_k, of_v)


forwards: KnownCalls[Forward] = KnownCalls()
"""For tensors that need no copy, by all that decides over them but their addresses."""


def known_forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, options: Options) -> Forward | None:
    """The `Forward` of such tensors without slopes; None if a call may have to copy one, or launches nothing."""
    if 0 in q.shape or 0 in k.shape or needs_transposed(q) or not all(map(fits_tma, (q, k, v))):
        return None
    return Forward(q, k, v, None, options)
