"""Forward attention over sequences of various lengths, packed one after the other, by a list of their tiles.

Sequence s has the query rows ``cu_q[s] .. cu_q[s + 1] - 1`` of Q and O (rows, H, D), and the key rows ``cu_k[s] ..
cu_k[s + 1] - 1`` of K and V (rows, HK, D). A causal mask is aligned at the bottom right: the last query of a sequence
sees its last key. Plain Triton; letters and masks as in `parts.py`, the loops as in `forward.py`.

The end of a sequence is not an edge of the tensor. A plain descriptor would return rows of the next sequence: those of
K can be masked, but V enters a dot with weight 0, and 0 * NaN is NaN; a store would overwrite them. A descriptor for
each sequence, made in the kernel, has the right edge, but costs every program three tensor maps in scratch memory,
written and fenced before its first load. Instead one host descriptor has a *ragged* axis, as those of
`triton.tools.ragged_tma`. Its axes are, with R the stride of a row in elements:

    axis      0             1     2              3               4
    extent    2**31 - 2**16  2**31 - 2**16  HK   EDGE = 2**30    D
    stride    2**34 - R     R     head's         R               1

and row n of a sequence that ends at row E and has L rows is at ``[EDGE, E, h, EDGE - L + n, 0]``. TMA adds the products
to the address in 64 bits: EDGE * (2**34 - R) + E * R + (EDGE - L + n) * R elements are 2**64 + (E - L + n) * R, and
2**64 is 0. Axis 3 ends exactly where the sequence does: beyond it a load fills with zero, and a store writes nothing.
Rows before the sequence are never accessed, because n is not negative.

A tile does not know its sequence, and programs for the longest sequence would mostly return at once for the others. So
`list_shares` lists the shares of all sequences first, those of the sequences with most keys in front:

    items_ptr     count, 0 …                                       a row of ITEM numbers
                  share, end_q, SQ, end_k, SK, s, 0 …              a row for each share

A share is a tile. Under a causal mask of persistent programs it is two, the last and the first of the remaining tiles
of its sequence: all such pairs see the same number of keys (`persistent.py`). All heads of a share come one after the
other. So the shares that take longest begin first, and programs that take every n-th share have about as much work.

fp8 is left out: V transposed has its rows along the innermost axis, which cannot be ragged.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.forward import attention_tile

ITEM = tl.constexpr(8)
"""Numbers of a row of the list."""


@triton.jit
def list_shares(
    cu_q_ptr, cu_k_ptr, items_ptr, SEQUENCES, MOST, BM: tl.constexpr, LAST_FIRST: tl.constexpr, PAIRED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Lists the shares of all sequences, MOST at most, in tiles of BM queries; a program those of BLOCK sequences.

    Sequences with more keys come first, then those with smaller numbers. PAIRED: a share is two tiles. LAST_FIRST: the
    last tile of a sequence comes first, which sees the most keys under a causal mask.
    """
    own = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    end_q, SQ = sequence_at(cu_q_ptr, own, SEQUENCES)
    end_k, SK = sequence_at(cu_k_ptr, own, SEQUENCES)
    before = tl.zeros([BLOCK], tl.int32)
    count = 0
    for first in range(0, SEQUENCES, BLOCK):
        others = first + tl.arange(0, BLOCK)
        _, queries = sequence_at(cu_q_ptr, others, SEQUENCES)
        _, keys = sequence_at(cu_k_ptr, others, SEQUENCES)
        shares = tl.cdiv(queries, 2 * BM if PAIRED else BM)
        more = keys[None, :] > SK[:, None]
        more = more | ((keys[None, :] == SK[:, None]) & (others[None, :] < own[:, None]))
        before += tl.sum(tl.where(more, shares[None, :], 0), 1)
        count += tl.sum(shares, 0)
    if tl.program_id(0) == 0:
        tl.store(items_ptr, min(count, MOST))
    shares = tl.cdiv(SQ, 2 * BM if PAIRED else BM)
    for n in range(tl.max(shares, 0)):
        row = items_ptr + (1 + before + n) * ITEM
        has = (n < shares) & (before + n < MOST)
        tl.store(row, shares - 1 - n if LAST_FIRST else n + tl.zeros([BLOCK], tl.int32), mask=has)
        tl.store(row + 1, end_q, mask=has)
        tl.store(row + 2, SQ, mask=has)
        tl.store(row + 3, end_k, mask=has)
        tl.store(row + 4, SK, mask=has)
        tl.store(row + 5, own, mask=has)


@triton.jit
def sequence_at(cu_ptr, at, SEQUENCES):
    """The ends and the lengths of some sequences; 0 for those that do not exist."""
    there = at < SEQUENCES
    begin, end = tl.load(cu_ptr + at, mask=there, other=0), tl.load(cu_ptr + at + 1, mask=there, other=0)
    return end, tl.maximum(end - begin, 0)


@triton.jit
def listed(items_ptr, i, HEADS):
    """The head and the row of the list for number i of all heads of all shares."""
    return i % HEADS, items_ptr + (1 + i // HEADS) * ITEM


@triton.jit
def listed_tile(
    row, tile, h, q_desc, k_desc, v_desc, o_desc, q2_desc, k2_desc, v2_desc, o2_desc, lse_ptr, TOTAL_Q, scale, softcap,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, D2: tl.constexpr, V1: tl.constexpr,
    V2: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr,
):  # fmt: skip
    """One tile of head h of the sequence in a row of the list. D2, V1, V2: as in `attention_tile`."""
    end_q, SQ, end_k, SK = tl.load(row + 1), tl.load(row + 2), tl.load(row + 3), tl.load(row + 4)
    attention_tile(q_desc, k_desc, v_desc, o_desc, lse_ptr + (end_q - SQ), None, tile, (end_q, SQ), (end_k, SK), h, h,
                   TOTAL_Q, SQ, SK, SK - SQ, scale, softcap, GROUP, BM, BN, D, False, CAUSAL, WINDOW, False, SOFTCAP,
                   False, q2_desc, k2_desc, v2_desc, o2_desc, D2, V1, V2)  # fmt: skip


@triton.jit
def every_listed_tile(
    q_desc, k_desc, v_desc, o_desc, q2_desc, k2_desc, v2_desc, o2_desc, lse_ptr, items_ptr, H, TOTAL_Q, scale, softcap,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, D2: tl.constexpr, V1: tl.constexpr,
    V2: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr, PERSISTENT: tl.constexpr,
):  # fmt: skip
    """The tiles of a program: one, or the shares that are left for it if PERSISTENT."""
    count = tl.load(items_ptr) * H
    if PERSISTENT:
        for i in tl.range(tl.program_id(0), count, tl.num_programs(0)):
            h, row = listed(items_ptr, i, H)
            share, tiles = tl.load(row), tl.cdiv(tl.load(row + 2), BM)
            for part in tl.range(0, min(tiles - 2 * share, 2) if CAUSAL and not WINDOW else 1):
                tile = share
                if CAUSAL and not WINDOW:
                    tile = tl.where(part == 0, tiles - 1 - share, share)
                listed_tile(row, tile, h, q_desc, k_desc, v_desc, o_desc, q2_desc, k2_desc, v2_desc, o2_desc,
                            lse_ptr, TOTAL_Q, scale, softcap, GROUP, BM, BN, D, D2, V1, V2, CAUSAL, WINDOW,
                            SOFTCAP)  # fmt: skip
    elif tl.program_id(0) < count:
        h, row = listed(items_ptr, tl.program_id(0), H)
        listed_tile(row, tl.load(row), h, q_desc, k_desc, v_desc, o_desc, q2_desc, k2_desc, v2_desc, o2_desc, lse_ptr,
                    TOTAL_Q, scale, softcap, GROUP, BM, BN, D, D2, V1, V2, CAUSAL, WINDOW,
                    SOFTCAP)  # fmt: skip


@triton.jit
def attention_varlen(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, items_ptr, H, TOTAL_Q, scale, softcap, GROUP: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr, PERSISTENT: tl.constexpr,
):  # fmt: skip
    """Attention of H heads for every share in the list. `lse_ptr` is (H, TOTAL_Q).

    Grid: any number of programs if PERSISTENT; otherwise at least H for each share in the list.
    """
    every_listed_tile(q_desc, k_desc, v_desc, o_desc, None, None, None, None, lse_ptr, items_ptr, H, TOTAL_Q, scale,
                      softcap, GROUP, BM, BN, D, 0, 0, 0, CAUSAL, WINDOW, SOFTCAP, PERSISTENT)  # fmt: skip


@triton.jit
def attention_varlen_two_parts(
    q_desc, k_desc, v_desc, o_desc, q2_desc, k2_desc, v2_desc, o2_desc, lse_ptr, items_ptr, H, TOTAL_Q, scale, softcap,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, D2: tl.constexpr, V1: tl.constexpr,
    V2: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr, PERSISTENT: tl.constexpr,
):  # fmt: skip
    """As `attention_varlen`, with the head dimension in two boxes (`two_parts.py`)."""
    every_listed_tile(q_desc, k_desc, v_desc, o_desc, q2_desc, k2_desc, v2_desc, o2_desc, lse_ptr, items_ptr, H,
                      TOTAL_Q, scale, softcap, GROUP, BM, BN, D, D2, V1, V2, CAUSAL, WINDOW, SOFTCAP,
                      PERSISTENT)  # fmt: skip
