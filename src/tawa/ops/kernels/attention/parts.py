"""Functions that the attention kernels share: blocks of 4-D tensors, masks, one step of online softmax.

Plain Triton, as are all kernels here. Shape letters: B batches, H query heads, S length (SQ of the queries, SK of the
keys), D head dimension; BM query rows and BN keys of a block; GROUP query heads share one key head.

Q, K, V and O are (B, H, S, D), accessed by 4-D host descriptors with boxes of ``[1, 1, rows, D]``. A 2-D descriptor
over (B*H*S, D) would be as fast. But if S is not a multiple of the block, its last box would read, and a store would
overwrite, the first rows of the next head. In 4-D the end of a head is an edge of the tensor: beyond it a load fills
with zero, and a store writes nothing. The box may also be wider than the tensor (D = 96 in a box of 128): the columns
beyond the edge are zero, which changes no dot, and are not stored.

fp8: wgmma takes eight-bit operands only K-major, which for ``P @ V`` means V with its keys innermost. If ``V_T`` is
not 0, V is therefore transposed in memory, (B, H, D, S); otherwise each block would be transposed in registers. If it
is 2, the keys of each 16 stand in the order of `reordered.py`. Tensors in fp8 may have factors, one for each key head,
with the strides FQ_B, FQ_H and so on: the scores are multiplied by those of Q and K, O by those of V.

A row sees the key n if ``n <= row + diagonal`` (CAUSAL) and ``n > row + diagonal - WINDOW`` (WINDOW > 0). So diagonal =
0 aligns the first query with the first key, and diagonal = SK - SQ the last query with the last key.

The running maximum m_i starts at a finite number below all scores, not at -inf: a row that has seen no key yet then has
``exp2(-inf - m_i) = 0`` instead of NaN. Logarithms are base 2: scores are multiplied by ``qk_scale = scale * log2(e) >
0`` inside the exponent, one fused multiply-add per element.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LOWEST = tl.constexpr(-1e30)
EDGE = tl.constexpr(2**30)
"""The ragged axis of a 5-D descriptor ends here (`varlen.py`)."""


@triton.jit
def load_rows(desc, b, h, row, ROWS: tl.constexpr, D: tl.constexpr):
    """The block of ROWS rows at `row` of one head. b: a batch; or a packed sequence, as its end and its length."""
    return load_second(desc, b, h, row, ROWS, 0, D)


@triton.jit
def load_second(desc, b, h, row, ROWS: tl.constexpr, COLUMN: tl.constexpr, D: tl.constexpr):
    """As `load_rows`, the D columns from COLUMN on."""
    if len(desc.shape) == 5:
        return desc.load([EDGE, b[0], h, EDGE - b[1] + row, COLUMN]).reshape([ROWS, D])
    else:
        return desc.load([b, h, row, COLUMN]).reshape([ROWS, D])


@triton.jit
def load_values(desc, b, h, n, BN: tl.constexpr, D: tl.constexpr, V_T: tl.constexpr):
    """The BN x D block of V at key n. V_T: V is transposed in memory."""
    if V_T:
        return desc.load([b, h, 0, n]).reshape([D, BN]).T
    else:
        return load_rows(desc, b, h, n, BN, D)


@triton.jit
def store_rows(desc, b, h, row, block, ROWS: tl.constexpr, D: tl.constexpr):
    """Stores a block of ROWS rows at `row` of one head; b: as in `load_rows`."""
    store_second(desc, b, h, row, block, ROWS, 0, D)


@triton.jit
def store_second(desc, b, h, row, block, ROWS: tl.constexpr, COLUMN: tl.constexpr, D: tl.constexpr):
    """As `store_rows`, in the D columns from COLUMN on."""
    if len(desc.shape) == 5:
        desc.store([EDGE, b[0], h, EDGE - b[1] + row, COLUMN], block.to(desc.dtype).reshape([1, 1, 1, ROWS, D]))
    else:
        desc.store([b, h, row, COLUMN], block.to(desc.dtype).reshape([1, 1, ROWS, D]))


@triton.constexpr_function
def weights_of(values):
    """The element type of the weights beside values: the same, but with more bits in place of e5m2.

    They lie in [0, 1], so that they need no large exponents.
    """
    return tl.float8e4nv if values == tl.float8e5 else values


@triton.jit
def factor(factors_ptr, b, h, STRIDE_B, STRIDE_H):
    """The float32 factor of key head h of batch b; 1 without factors."""
    if factors_ptr is None:
        return 1.0
    else:
        return tl.load(factors_ptr + b * STRIDE_B + h * STRIDE_H)


@triton.jit
def longest_first(together):
    """The head and the tile of a program, for a Plan by which programs start in their order, if tile 0 takes longest.

    The heads of all batches are taken `together` at a time. Of these the longest tiles start first, so that short ones
    are left for the end. None: the tiles of a head start behind those of the head before. Grid: tiles, heads.
    """
    tile, head = tl.program_id(0), tl.program_id(1)
    if together is not None:
        tiles, heads = tl.num_programs(0), tl.num_programs(1)
        program = head * tiles + tile
        first = program // (together * tiles) * together
        within = program % (together * tiles)
        size = min(heads - first, together)
        head, tile = first + within % size, within // size
    return head, tile


@triton.jit
def key_range(m, diagonal, SK, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):
    """The keys that the rows m .. m + BM - 1 see.

    Returns (low, full_low, full_high, high), with low <= full_low <= full_high and full_low <= high. No row sees a key
    outside [low, high), and every row sees all keys in [full_low, full_high). All but `high` are multiples of BN.
    """
    high = SK
    full_high = SK // BN * BN
    if CAUSAL:
        high = max(min(SK, m + BM + diagonal), 0)
        full_high = max(min(SK, m + diagonal + 1), 0) // BN * BN
    low = 0
    full_low = 0
    if WINDOW:
        low = max(m + diagonal - WINDOW + 1, 0) // BN * BN
        full_low = min(tl.cdiv(max(m + BM + diagonal - WINDOW, 0), BN), tl.cdiv(high, BN)) * BN
        full_low = max(full_low, low)
    return low, full_low, max(full_high, full_low), high


@triton.jit
def visible(rows, keys, diagonal, SK, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):
    """Which keys each row sees, as a tile; `rows` is a column, `keys` is a row."""
    seen = keys < SK
    if CAUSAL:
        seen = seen & (keys <= rows + diagonal)
    if WINDOW:
        seen = seen & (keys > rows + diagonal - WINDOW)
    return seen


@triton.jit
def query_range(
    n, diagonal, SQ, SK, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    EVEN: tl.constexpr,
):  # fmt: skip
    """The rows that see the keys n .. n + BN - 1. EVEN: SK is a multiple of BN.

    Returns (low, full_low, full_high, high), with low <= full_low <= full_high. No row outside [low, high) sees one of
    these keys, and every row below SQ in [full_low, full_high) sees all of them; this range is empty for a tile that
    reaches past the last key. low and full_low are multiples of BM, and so is full_high if there is a window.
    """
    low = 0
    full_low = 0
    high = SQ
    full_high = SQ
    if WINDOW:
        high = max(min(SQ, n + BN - 1 - diagonal + WINDOW), 0)
    if CAUSAL:
        low = max(n - diagonal, 0) // BM * BM
        full_low = min(tl.cdiv(max(n + BN - 1 - diagonal, 0), BM), tl.cdiv(SQ, BM)) * BM
    if not EVEN:
        full_low = tl.where(n + BN > SK, tl.cdiv(high, BM) * BM, full_low)
    if CAUSAL:
        full_low = max(full_low, low)
    if WINDOW:
        high = max(high, full_low)
        full_high = min(max(n - diagonal + WINDOW, 0) // BM, tl.cdiv(high, BM)) * BM
        full_high = max(full_high, full_low)
    return low, full_low, full_high, high


@triton.jit
def tanh_of(s, scale, softcap):
    """``tanh(scale * s / softcap)``, in a form that does not overflow for large arguments of either sign."""
    return 1.0 - 2.0 / (1.0 + tl.exp2(s * (2.0 * LOG2_E * scale / softcap)))


@triton.jit
def modified(s, rows, keys, diagonal, scale, slope, softcap, ALIBI: tl.constexpr, SOFTCAP: tl.constexpr):
    """Scores with softcap and ALiBi, scaled, base 2. Plain scores are returned unchanged and scaled later."""
    if SOFTCAP:
        s = softcap * tanh_of(s, scale, softcap)
        if ALIBI:
            s -= slope * tl.abs(rows + diagonal - keys).to(tl.float32)
        s *= LOG2_E
    elif ALIBI:
        s = s * (scale * LOG2_E) - slope * LOG2_E * tl.abs(rows + diagonal - keys).to(tl.float32)
    return s


@triton.jit
def softmax_step(s, m_i, l_i, qk_scale):
    """One step of online softmax: m_i and l_i are each row's maximum and sum so far.

    Returns the weights, the new maximum and sum, and the factor by which the sums so far are scaled.
    """
    m_new = tl.maximum(m_i, tl.max(s, 1) * qk_scale)
    p = tl.exp2(s * qk_scale - m_new[:, None])
    alpha = tl.exp2(m_i - m_new)
    return p, m_new, l_i * alpha + tl.sum(p, 1), alpha


@triton.jit
def finish(acc, m_i, l_i):
    """The output and the base-2 logarithm of the sum; 0 and -inf for a row that saw no key."""
    empty = l_i == 0.0
    l_i = tl.where(empty, 1.0, l_i)
    return acc * (1.0 / l_i)[:, None], tl.where(empty, float("-inf"), m_i + tl.log2(l_i))
