"""Backward attention over packed sequences, by lists of their tiles.

The tiles are those of `backward.py`, the sequences are packed and listed as in `varlen.py`: one list has tiles of
queries, a second one tiles of keys for dK and dV. These sum over queries, and a NaN in a neighbour's rows would reach
the sum even with weight 0. The descriptors are therefore ragged: they end where the sequence does.

The workspace has SP rows for each head. The rows of sequence s, which begins at row B of the packed ones, start at
``(B // PADDED + s) * PADDED``. That is a multiple of every block, and leaves room for whole blocks.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.backward import (
    PADDED,
    gradient_keys_tile,
    gradient_queries_tile,
    gradient_rows_tile,
    sums_tile,
)
from tawa.ops.kernels.attention.varlen import listed


@triton.jit
def padded_start(begin, sequence):
    """Where the rows of a sequence begin in the workspace of a head."""
    return (begin // PADDED + sequence) * PADDED


@triton.jit
def varlen_rows(
    o_desc, do_desc, lse_ptr, dlse_ptr, lse_rows_ptr, delta_ptr, dq_ptr, items_ptr, H, TOTAL_Q, SP, BM: tl.constexpr,
    D: tl.constexpr,
):  # fmt: skip
    """As `gradient_rows`. lse, dlse: (H, TOTAL_Q). Grid: at least H programs for each tile of queries in the list."""
    if tl.program_id(0) < tl.load(items_ptr) * H:
        h, row = listed(items_ptr, tl.program_id(0), H)
        end_q, SQ = tl.load(row + 1), tl.load(row + 2)
        first = tl.cast(h, tl.int64) * TOTAL_Q + end_q - SQ
        dlse = None
        if dlse_ptr is not None:
            dlse = dlse_ptr + first
        at = tl.cast(h, tl.int64) * SP + padded_start(end_q - SQ, tl.load(row + 5))
        gradient_rows_tile(o_desc, do_desc, lse_ptr + first, dlse, lse_rows_ptr, delta_ptr, None, dq_ptr, (end_q, SQ),
                           h, tl.load(row), SQ, at, 0.0, 0.0, 0, BM, D, False)  # fmt: skip


@triton.jit
def varlen_dkdv(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, dq_desc, lse_ptr, delta_ptr, items_ptr, HK, SP, scale, softcap,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, SOFTCAP: tl.constexpr, ADDED: tl.constexpr,
):  # fmt: skip
    """As `attention_dkdv`. Grid: at least HK programs for each tile of keys in the list."""
    if tl.program_id(0) < tl.load(items_ptr) * HK:
        key_head, row = listed(items_ptr, tl.program_id(0), HK)
        end_k, SK, end_q, SQ = tl.load(row + 1), tl.load(row + 2), tl.load(row + 3), tl.load(row + 4)
        at = padded_start(end_q - SQ, tl.load(row + 5))
        gradient_keys_tile(q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, dq_desc, lse_ptr, delta_ptr, None, None,
                           (end_q, SQ), (end_k, SK), key_head, tl.load(row), at, SQ, SP, SK, SK - SQ, scale, softcap,
                           GROUP, BM, BN, D, CAUSAL, WINDOW, False, SOFTCAP, ADDED, False, False)  # fmt: skip


@triton.jit
def varlen_dq(
    q_desc, k_desc, v_desc, do_desc, dq_desc, lse_ptr, delta_ptr, items_ptr, H, SP, scale, softcap,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, SOFTCAP: tl.constexpr,
):  # fmt: skip
    """As `attention_dq`. Grid: at least H programs for each tile of queries in the list."""
    if tl.program_id(0) < tl.load(items_ptr) * H:
        h, row = listed(items_ptr, tl.program_id(0), H)
        end_q, SQ, end_k, SK = tl.load(row + 1), tl.load(row + 2), tl.load(row + 3), tl.load(row + 4)
        at = h * SP + padded_start(end_q - SQ, tl.load(row + 5))
        gradient_queries_tile(q_desc, k_desc, v_desc, do_desc, dq_desc, lse_ptr, delta_ptr, None, (end_q, SQ),
                              (end_k, SK), h, tl.load(row), at, SK, SK - SQ, scale, softcap, GROUP, BM, BN, D, CAUSAL,
                              WINDOW, False, SOFTCAP)  # fmt: skip


@triton.jit
def varlen_dq_of_sums(sums_ptr, dq_desc, items_ptr, H, SP, scale, BM: tl.constexpr, D: tl.constexpr):
    """As `attention_dq_of_sums`. Grid: at least H programs for each tile of queries in the list."""
    if tl.program_id(0) < tl.load(items_ptr) * H:
        h, row = listed(items_ptr, tl.program_id(0), H)
        end_q, SQ = tl.load(row + 1), tl.load(row + 2)
        at = tl.cast(h, tl.int64) * SP + padded_start(end_q - SQ, tl.load(row + 5))
        sums_tile(sums_ptr, None, True, dq_desc, (end_q, SQ), h, tl.load(row), at, scale, BM, D, False)
