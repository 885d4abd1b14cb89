"""Forward attention over sequences of various lengths, packed one after the other; one tile of queries per program.

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

fp8 is left out: V transposed has its rows along the innermost axis, which cannot be ragged.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.forward import attention_tile


@triton.jit
def packed_tile(
    q_desc, k_desc, v_desc, o_desc, q2_desc, k2_desc, v2_desc, o2_desc, lse_ptr, cu_q_ptr, cu_k_ptr, TOTAL_Q, scale,
    softcap, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, D2: tl.constexpr,
    V2: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr,
):  # fmt: skip
    """The tile of this program, if its sequence has as many. D2, V2: as in `two_parts.py`, 0 for none."""
    h, sequence = tl.program_id(1), tl.program_id(2)
    begin_q, end_q = tl.load(cu_q_ptr + sequence), tl.load(cu_q_ptr + sequence + 1)
    begin_k, end_k = tl.load(cu_k_ptr + sequence), tl.load(cu_k_ptr + sequence + 1)
    SQ, SK = end_q - begin_q, end_k - begin_k
    tiles = tl.cdiv(SQ, BM)
    if tl.program_id(0) < tiles:
        tile = tl.program_id(0)
        if CAUSAL and not WINDOW:
            tile = tiles - 1 - tile
        attention_tile(q_desc, k_desc, v_desc, o_desc, lse_ptr + begin_q, None, tile, (end_q, SQ), (end_k, SK), h, h,
                       TOTAL_Q, SQ, SK, SK - SQ, scale, softcap, GROUP, BM, BN, D, False, CAUSAL, WINDOW, False,
                       SOFTCAP, False, q2_desc, k2_desc, v2_desc, o2_desc, D2, V2)  # fmt: skip


@triton.jit
def attention_varlen(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, cu_q_ptr, cu_k_ptr, TOTAL_Q, scale, softcap,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, SOFTCAP: tl.constexpr,
):  # fmt: skip
    """Grid: tiles of the longest sequence of queries, query heads, sequences. `lse_ptr` is (H, TOTAL_Q).

    Programs past the end of a shorter sequence return at once. With a causal mask the last tile of a sequence, which
    sees the most keys, starts first; with a window all tiles see about as many.
    """
    packed_tile(q_desc, k_desc, v_desc, o_desc, None, None, None, None, lse_ptr, cu_q_ptr, cu_k_ptr, TOTAL_Q, scale,
                softcap, GROUP, BM, BN, D, 0, 0, CAUSAL, WINDOW, SOFTCAP)  # fmt: skip


@triton.jit
def attention_varlen_two_parts(
    q_desc, k_desc, v_desc, o_desc, q2_desc, k2_desc, v2_desc, o2_desc, lse_ptr, cu_q_ptr, cu_k_ptr, TOTAL_Q, scale,
    softcap, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, D2: tl.constexpr,
    V2: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr,
):  # fmt: skip
    """As `attention_varlen`, with the head dimension in two boxes (`two_parts.py`)."""
    packed_tile(q_desc, k_desc, v_desc, o_desc, q2_desc, k2_desc, v2_desc, o2_desc, lse_ptr, cu_q_ptr, cu_k_ptr,
                TOTAL_Q, scale, softcap, GROUP, BM, BN, D, D2, V2, CAUSAL, WINDOW, SOFTCAP)  # fmt: skip
