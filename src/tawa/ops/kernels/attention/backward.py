"""Backward attention: rows of logarithms and of sums of O * dO, then the gradients.

With P = exp2(score * log2(e) - lse), masked, where the score of a row and a key is scale * Q @ K^T, perhaps with
softcap and ALiBi, and delta = sum(O * dO) by rows:

    dV = P^T @ dO      dP = dO @ V^T      dS = P * (dP - delta)      dK = scale * dS^T @ Q      dQ = scale * dS @ K

Under a softcap dS is also multiplied by the derivative ``1 - tanh(...)**2``; ALiBi adds to the scores what depends on
neither Q nor K. The programs of `attention_dkdv` own keys. They add their parts of dQ up in memory, in no fixed order
(ADDED: five dots a block), or leave dQ to `attention_dq`, whose programs own queries: seven dots. The functions that
end in `_tile` do the work of a program, also for packed sequences (`backward_varlen.py`).

Sums in float32 have other bits in each run, sums in whole numbers have the same, whatever their order. So dQ may be
added up in int32, in steps of a size that each row has for itself (`steps_of`). As the weights of a row are positive
and their sum is 1,

    |dQ / scale| = |sum(P * (dP - delta) * K)| <= max |dP - delta| * max |K| <= (|dO| * max |V| + |delta|) * max |K|

with the norms of rows of dO and V, and the largest element of K. No sum of parts is larger than that, either.

Plain Triton; letters, layouts and masks as in `parts.py`. SP is SQ rounded up to a multiple of PADDED, the rows of a
head in the workspace. Past the last query the boxes are zero, delta is 0 and lse is infinite, so P is 0. Past the last
key the boxes are zero too, but P is exp2(-lse): if every score of a row is very negative, dS overflows, and dS @ K, inf
* 0, is NaN. Tiles that reach past the last key therefore take the masked loop. With EVEN, SK is a multiple of BN, and
there are no such tiles.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.parts import (
    LOG2_E,
    key_range,
    load_rows,
    longest_first,
    modified,
    query_range,
    store_rows,
    tanh_of,
    visible,
)

PADDED = tl.constexpr(128)
"""The rows of the workspace of a head are a multiple of this, and so of every block of queries; no block has more keys.
"""
WARPS = tl.constexpr(8)
"""The warps for whose accumulators `by_registers` is a mere renaming."""
WIDTH = tl.constexpr(256)
"""Columns of the workspace for dQ."""
RANGE = tl.constexpr(2.0**30)
"""The steps of the largest sum that a row of dQ may have: half of what int32 holds, as the weights are rounded."""
HIGH = tl.constexpr(1.5 * 2.0**38 + 0x16980 * 2.0**15)
"""What is added to 1.5 * 2**38 cancels the bits of 1.5 * 2**23 (`in_steps`)."""
BOTH = tl.constexpr(HIGH.value + 1.5 * 2.0**23)
FAR = tl.constexpr(2.0**100)
"""Rows are scaled by numbers between its inverse and this one."""
SMALL = tl.constexpr(2.0**-58)
"""More than a norm of up to 256 elements whose squares are subnormal."""
LEAST = tl.constexpr(2.0**-90)
"""A bound of a sum is at least this: the steps of a row are finite."""
SEEN = tl.constexpr(64)
"""Keys of a tile of `largest_of_keys`."""
TILES = tl.constexpr(128)
"""Tiles of keys whose maxima are loaded at once."""


@triton.jit
def largest_of_keys(k_desc, v_desc, largest_ptr, HK, BN: tl.constexpr, D: tl.constexpr):
    """The largest element of K and the largest norm of a row of V, of each tile of BN keys: (2, B * HK, tiles).

    Infinite where a number is not finite. v_desc: None for K alone. Grid: tiles, key heads of all batches.
    """
    head, tile = tl.program_id(1), tl.program_id(0)
    at = largest_ptr + head * tl.num_programs(0) + tile
    k = tl.abs(load_rows(k_desc, head // HK, head % HK, tile * BN, BN, D).to(tl.float32))
    tl.store(at, tl.max(tl.max(or_infinite(k), axis=1), axis=0))
    if v_desc is not None:
        v = load_rows(v_desc, head // HK, head % HK, tile * BN, BN, D).to(tl.float32)
        of_values = at + tl.num_programs(0) * tl.num_programs(1)
        tl.store(of_values, tl.max(or_infinite(norms_of(v)), axis=0))


@triton.jit
def or_infinite(block):
    """A block, with infinity for NaN, which a maximum may pass over."""
    return tl.where(block < float("inf"), block, float("inf"))


@triton.jit
def norms_of(block):
    """Bounds of the norms of rows, close to them; infinite or NaN if an element is.

    Rows are scaled: neither do squares overflow, nor do those vanish that count.
    """
    largest = tl.minimum(tl.maximum(tl.max(tl.abs(block), axis=1), 1.0 / FAR), FAR)
    scaled = block * (1.0 / largest)[:, None]
    return largest * (tl.sqrt(tl.sum(scaled * scaled, axis=1)) + SMALL)


@triton.jit
def largest_of_tiles(largest_ptr, tiles):
    """The largest of so many numbers that are 0 or more."""
    found = tl.zeros([TILES], tl.float32)
    for first in range(0, tiles, TILES):
        at = first + tl.arange(0, TILES)
        found = tl.maximum(found, tl.load(largest_ptr + at, mask=at < tiles, other=0.0))
    return tl.max(found, axis=0)


@triton.jit
def steps_of(do, delta, key, value):
    """How many steps make 1 in each row of dQ / scale. key, value: the largest element of K, and norm of a row of V.

    NaN or 0 if a number is not finite; the row of dQ is then not finite, either.
    """
    bound = norms_of(do) * value + tl.abs(delta)
    return RANGE / (bound * key + LEAST)


@triton.jit
def in_steps(block, steps):
    """A block as whole numbers of steps, rounded to the nearest. steps: how many make 1.

    In the sum with HIGH, the last bits of the number count 2**15 steps; in that of the rest with 1.5 * 2**23, they
    count one. The GPU converts numbers more slowly than it executes these four instructions.
    """
    high = block * steps + HIGH
    low = block * steps + (BOTH - high)
    return (high.to(tl.int32, bitcast=True) << 15) + low.to(tl.int32, bitcast=True)


@triton.jit
def gradient_rows_tile(
    o_desc, do_desc, lse_ptr, dlse_ptr, lse_rows_ptr, delta_ptr, steps_ptr, dq_ptr, of, h, tile, SQ, at, key, value,
    diagonal, BM: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """The rows of one tile of head h. of: as in `load_rows`. at: of row 0 in the workspace. key, value: of `steps_of`.

    lse_ptr, dlse_ptr: of row 0.
    """
    rows = tile * BM + tl.arange(0, BM)
    o = load_rows(o_desc, of, h, tile * BM, BM, D).to(tl.float32)
    do = load_rows(do_desc, of, h, tile * BM, BM, D).to(tl.float32)
    delta = tl.sum(o * do, axis=1)
    if dlse_ptr is not None:
        delta -= tl.load(dlse_ptr + rows, mask=rows < SQ, other=0.0)
    lse = tl.load(lse_ptr + rows, mask=rows < SQ, other=float("inf"))
    at = tl.cast(at, tl.int64) + rows
    tl.store(delta_ptr + at, delta)
    tl.store(lse_rows_ptr + at, lse)
    if steps_ptr is not None:
        # Weights of a row that sees keys, but has no finite score, are NaN.
        nothing = (lse == float("-inf")) & (rows + diagonal >= 0 if CAUSAL else rows >= 0)
        tl.store(steps_ptr + at, tl.where(nothing, float("nan"), steps_of(do, delta, key, value)))
    if dq_ptr is not None:
        tl.store(dq_ptr + at[:, None] * D + tl.arange(0, D)[None, :], tl.zeros([BM, D], dq_ptr.dtype.element_ty))


@triton.jit
def gradient_rows(
    o_desc, do_desc, lse_ptr, dlse_ptr, lse_rows_ptr, delta_ptr, dq_ptr, largest_ptr, steps_ptr, H, SQ, SP, SK,
    diagonal, GROUP: tl.constexpr, BM: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """lse and delta = sum(O * dO) by rows, (B, H, SP), and zeros for the sums of dQ.

    dlse_ptr: the gradient of the natural logarithms, or None. The derivative of a logarithm by a score is the weight
    P, as for delta: dS = P * (dP - (delta - dlse)). dq_ptr: None where dQ is not added up. largest_ptr: of
    `largest_of_keys` in tiles of SEEN keys, for steps_ptr (B, H, SP); both None if dQ is not added up in steps. The
    steps of a row depend on the keys of all blocks that the row is in: a number in them that is not finite may reach
    the row even where the mask hides it. Grid: tiles of BM rows of the workspace, heads of all batches.
    """
    head = tl.program_id(1)
    dlse = None
    if dlse_ptr is not None:
        dlse = dlse_ptr + head * SQ
    key, value = 0.0, 0.0
    if largest_ptr is not None:
        tiles = tl.cdiv(SK, SEEN)
        of_head = largest_ptr + head // GROUP * tiles
        of_values = of_head + tl.num_programs(1) // GROUP * tiles
        if CAUSAL:
            rows = tl.cdiv(tl.program_id(0) * BM + BM, PADDED) * PADDED
            tiles = tl.minimum(tiles, tl.cdiv(tl.maximum(rows + diagonal, 0), PADDED) * (PADDED // SEEN))
        key, value = largest_of_tiles(of_head, tiles), largest_of_tiles(of_values, tiles)
    gradient_rows_tile(o_desc, do_desc, lse_ptr + head * SQ, dlse, lse_rows_ptr, delta_ptr, steps_ptr, dq_ptr,
                       head // H, head % H, tl.program_id(0), SQ, head.to(tl.int64) * SP, key, value,
                       diagonal, BM, D, CAUSAL)  # fmt: skip


@triton.jit
def by_registers(block, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SINGLY: tl.constexpr = False):
    """An accumulator as rows of WIDTH numbers, in the order in which the registers of WARPS warps hold it.

    A wgmma gives each thread pairs of neighbours, in rows 8 apart, for every 8 columns. Stored in this order, the four
    numbers that a thread has of 8 columns are neighbours, and so are threads: no conflict of banks, no conversion. What
    64 rows and a warp group have is in one piece. SINGLY: for accesses of one number each, such as atomics on integers,
    the 32 numbers that the threads of a warp have in one register are neighbours.
    """
    DOWN: tl.constexpr = min(ROWS // 16, WARPS)
    BESIDE: tl.constexpr = WARPS // DOWN
    HIGH: tl.constexpr = min(ROWS // 16, 4)
    parts = block.reshape([ROWS // (16 * HIGH), HIGH, 2, 8, BESIDE, COLUMNS // (8 * BESIDE), 4, 2])
    if SINGLY:
        parts = parts.permute([0, 4, 5, 1, 2, 7, 3, 6])
    else:
        parts = parts.permute([0, 4, 5, 1, 3, 6, 2, 7])
    return parts.reshape([ROWS * COLUMNS // WIDTH, WIDTH])


@triton.jit
def from_registers(numbers, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SINGLY: tl.constexpr = False):
    """The block (ROWS, COLUMNS) whose numbers are in the order of `by_registers`."""
    DOWN: tl.constexpr = min(ROWS // 16, WARPS)
    BESIDE: tl.constexpr = WARPS // DOWN
    HIGH: tl.constexpr = min(ROWS // 16, 4)
    if SINGLY:
        parts = numbers.reshape([ROWS // (16 * HIGH), BESIDE, COLUMNS // (8 * BESIDE), HIGH, 2, 2, 8, 4])
        parts = parts.permute([0, 3, 4, 6, 1, 2, 7, 5])
    else:
        parts = numbers.reshape([ROWS // (16 * HIGH), BESIDE, COLUMNS // (8 * BESIDE), HIGH, 8, 4, 2, 2])
        parts = parts.permute([0, 3, 6, 4, 1, 2, 5, 7])
    return parts.reshape([ROWS, COLUMNS])


@triton.jit
def weights(
    s, lse, rows, keys, diagonal, SK, scale, slope, softcap, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    ALIBI: tl.constexpr, SOFTCAP: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """P of a block of products s. lse, rows and keys broadcast to it. MASKED: not every row sees all of the keys."""
    of_scores = modified(s, rows, keys, diagonal, scale, slope, softcap, ALIBI, SOFTCAP)
    p = tl.exp2(of_scores * (1.0 if ALIBI or SOFTCAP else scale * LOG2_E) - lse)
    if MASKED:
        p = tl.where(visible(rows, keys, diagonal, SK, CAUSAL, WINDOW), p, 0.0)
    return p


@triton.jit
def of_products(p, dp, delta, s, scale, softcap, SOFTCAP: tl.constexpr):
    """dS, the derivative by the scaled products s."""
    ds = p * (dp - delta)
    if SOFTCAP:
        t = tanh_of(s, scale, softcap)
        ds = ds * (1.0 - t * t)
    return ds


@triton.jit
def add_owned(
    dk, dv, k, v, q_desc, do_desc, sums_ptr, lse_ptr, delta_ptr, steps_ptr, of, h, at, keys, low, high, SK, diagonal,
    scale, slope, softcap, BM: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    ALIBI: tl.constexpr, SOFTCAP: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """As `add_queries`, for wide heads: one consumer group computes P, another one dS, and both read the two.

    So dS is computed from P as the dots read it, in 16 bits. dQ is added from registers: a buffer for it would take the
    second slot of dO.
    """
    places = tl.arange(0, BM * D // WIDTH)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    for m in range(low, high, BM):
        rows = m + tl.arange(0, BM)
        q = load_rows(q_desc, of, h, m, BM, D)
        lse = tl.load(lse_ptr + at + rows)
        s = tl.dot(q, k.T)
        p = weights(s, lse[:, None], rows[:, None], keys, diagonal, SK, scale, slope, softcap, CAUSAL, WINDOW, ALIBI,
                    SOFTCAP, MASKED)  # fmt: skip
        do = load_rows(do_desc, of, h, m, BM, D)
        p = p.to(do.dtype)
        dv = tl.dot(p.T, do, dv)
        delta = tl.load(delta_ptr + at + rows)
        ds = of_products(p, tl.dot(do, v.T), delta[:, None], s, scale, softcap, SOFTCAP).to(q.dtype)
        dk = tl.dot(ds.T, q, dk)
        dq = tl.dot(ds, k)
        if steps_ptr is not None:
            dq = in_steps(dq, tl.load(steps_ptr + at + rows)[:, None])
        dq = by_registers(dq, BM, D, steps_ptr is not None)
        tl.atomic_add(sums_ptr + tl.cast(at + m, tl.int64) * D + places, dq, sem="relaxed")
    return dk, dv


@triton.jit
def add_queries(
    dk, dv, k, v, q_desc, do_desc, dq_desc, lse_ptr, delta_ptr, steps_ptr, of, h, at, keys, low, high, SK, diagonal,
    scale, slope, softcap, BM: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    ALIBI: tl.constexpr, SOFTCAP: tl.constexpr, MASKED: tl.constexpr, ADDED: tl.constexpr, OWNED: tl.constexpr,
):  # fmt: skip
    """Adds the contribution of the queries in [low, high) of one head to dK and dV.

    at: of row 0 in the workspace. Tiles are keys by queries; if OWNED, queries by keys.
    """
    if OWNED:
        dk, dv = add_owned(dk, dv, k, v, q_desc, do_desc, dq_desc, lse_ptr, delta_ptr, steps_ptr, of, h, at, keys, low,
                           high, SK, diagonal, scale, slope, softcap, BM, D, CAUSAL, WINDOW, ALIBI, SOFTCAP,
                           MASKED)  # fmt: skip
    else:
        for m in range(low, high, BM):
            rows = m + tl.arange(0, BM)
            q = load_rows(q_desc, of, h, m, BM, D)
            lse = tl.load(lse_ptr + at + rows)
            s = tl.dot(k, q.T)
            p = weights(s, lse[None, :], rows[None, :], keys, diagonal, SK, scale, slope, softcap, CAUSAL, WINDOW,
                        ALIBI, SOFTCAP, MASKED)  # fmt: skip
            do = load_rows(do_desc, of, h, m, BM, D)
            dv = tl.dot(p.to(do.dtype), do, dv)
            delta = tl.load(delta_ptr + at + rows)
            ds = of_products(p, tl.dot(v, do.T), delta[None, :], s, scale, softcap, SOFTCAP).to(q.dtype)
            dk = tl.dot(ds, q, dk)
            if ADDED:
                dq = tl.dot(ds.T, k)
                if steps_ptr is not None:
                    dq = in_steps(dq, tl.load(steps_ptr + at + rows)[:, None])
                dq_desc.atomic_add([(at + m) // BM * (BM * D // WIDTH), 0], by_registers(dq, BM, D))
    return dk, dv


@triton.jit
def gradient_keys_tile(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, dq_desc, lse_ptr, delta_ptr, steps_ptr, slopes_ptr, of_q, of_k,
    key_head, tile, at, SQ, SP, SK, diagonal, scale, softcap, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    D: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, ALIBI: tl.constexpr, SOFTCAP: tl.constexpr,
    ADDED: tl.constexpr, EVEN: tl.constexpr, OWNED: tl.constexpr,
):  # fmt: skip
    """dK and dV of one tile of keys, summed over the queries of the GROUP heads that share the key head.

    of_q, of_k: as in `load_rows`. at: of row 0 of head 0 in the workspace, in which a head has SP rows. The loops run
    over the queries that need a mask, such as those on the diagonal, then over those that need none, then over those on
    the far edge of a window.
    """
    n = tile * BN
    keys = n + tl.arange(0, BN)[None, :] if OWNED else n + tl.arange(0, BN)[:, None]
    dk = tl.zeros([BN, D], tl.float32)
    dv = tl.zeros([BN, D], tl.float32)
    k = load_rows(k_desc, of_k, key_head, n, BN, D)
    v = load_rows(v_desc, of_k, key_head, n, BN, D)
    low, full_low, full_high, high = query_range(n, diagonal, SQ, SK, BM, BN, CAUSAL, WINDOW, EVEN)
    for member in range(GROUP):
        h = key_head * GROUP + member
        slope = tl.load(slopes_ptr + h) if ALIBI else 0.0
        if CAUSAL or not EVEN:
            dk, dv = add_queries(dk, dv, k, v, q_desc, do_desc, dq_desc, lse_ptr, delta_ptr, steps_ptr, of_q, h,
                                 at + h * SP, keys, low, full_low, SK, diagonal, scale, slope, softcap, BM, D, CAUSAL,
                                 WINDOW, ALIBI, SOFTCAP, True, ADDED, OWNED)  # fmt: skip
        dk, dv = add_queries(dk, dv, k, v, q_desc, do_desc, dq_desc, lse_ptr, delta_ptr, steps_ptr, of_q, h,
                             at + h * SP, keys, full_low, full_high, SK, diagonal, scale, slope, softcap, BM, D, CAUSAL,
                             WINDOW, ALIBI, SOFTCAP, False, ADDED, OWNED)  # fmt: skip
        if WINDOW:
            dk, dv = add_queries(dk, dv, k, v, q_desc, do_desc, dq_desc, lse_ptr, delta_ptr, steps_ptr, of_q, h,
                                 at + h * SP, keys, full_high, high, SK, diagonal, scale, slope, softcap, BM, D, CAUSAL,
                                 WINDOW, ALIBI, SOFTCAP, True, ADDED, OWNED)  # fmt: skip
    store_rows(dk_desc, of_k, key_head, n, dk * scale, BN, D)
    store_rows(dv_desc, of_k, key_head, n, dv, BN, D)


@triton.jit
def attention_dkdv(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, dq_desc, lse_ptr, delta_ptr, steps_ptr, slopes_ptr, together, H,
    SQ, SP, SK, diagonal, scale, softcap, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, ALIBI: tl.constexpr, SOFTCAP: tl.constexpr, ADDED: tl.constexpr,
    EVEN: tl.constexpr, OWNED: tl.constexpr,
):  # fmt: skip
    """dK and dV of BN keys of one key head.

    ADDED: also adds dQ / scale up in memory, block by block in the order of `by_registers`: in float32, or in steps, of
    which each row has so many to 1 as steps_ptr says. OWNED: as `add_owned` does; dq_desc is then the pointer to the
    sums. together: as in `longest_first`. Grid: blocks of keys, key heads of all batches.
    """
    key_heads = H // GROUP
    head, tile = longest_first(together)
    b, key_head = head // key_heads, head % key_heads
    gradient_keys_tile(q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, dq_desc, lse_ptr, delta_ptr, steps_ptr,
                       slopes_ptr, b, b, key_head, tile, b * H * SP, SQ, SP, SK, diagonal, scale, softcap, GROUP, BM,
                       BN, D, CAUSAL, WINDOW, ALIBI, SOFTCAP, ADDED, EVEN, OWNED)  # fmt: skip


@triton.jit
def sums_tile(
    sums_ptr, steps_ptr, is_finite, dq_desc, of, h, tile, at, scale, BM: tl.constexpr, D: tl.constexpr,
    SINGLY: tl.constexpr,
):  # fmt: skip
    """dQ of one tile of head h from its sums. of: as in `store_rows`. at: of row 0 in the workspace.

    is_finite: whether sums in steps are to be trusted; the rows are NaN otherwise.
    """
    first = tl.cast(at, tl.int64) + tile * BM
    block = from_registers(tl.load(sums_ptr + first * D + tl.arange(0, BM * D)), BM, D, SINGLY)
    if steps_ptr is not None:
        dq = block.to(tl.float32) * (scale / tl.load(steps_ptr + first + tl.arange(0, BM)))[:, None]
        if not is_finite:
            dq = dq * float("nan")
    else:
        dq = block * scale
    store_rows(dq_desc, of, h, tile * BM, dq, BM, D)


@triton.jit
def attention_dq_of_sums(
    sums_ptr, dq_desc, steps_ptr, largest_ptr, H, SP, SK, scale, GROUP: tl.constexpr, BM: tl.constexpr,
    D: tl.constexpr, SINGLY: tl.constexpr,
):  # fmt: skip
    """dQ of BM queries of one head from its sums. steps_ptr: as in `attention_dkdv`. SINGLY: as in `by_registers`.

    largest_ptr: of `largest_of_keys` for dK, where dS may overflow in its type, or None. dK = dS^T @ Q is then not
    finite, and nothing else says so: an infinity is no number of steps. Grid: blocks of queries, heads of all batches.
    """
    head = tl.program_id(1)
    is_finite = True
    if largest_ptr is not None:
        tiles = tl.cdiv(SK, SEEN)
        is_finite = largest_of_tiles(largest_ptr + head // GROUP * tiles, tiles) < float("inf")
    sums_tile(sums_ptr, steps_ptr, is_finite, dq_desc, head // H, head % H, tl.program_id(0), head.to(tl.int64) * SP,
              scale, BM, D, SINGLY)  # fmt: skip


@triton.jit
def add_keys(
    dq, q, do, lse, delta, k_desc, v_desc, of, key_head, rows, low, high, SK, diagonal, scale, slope, softcap,
    BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, ALIBI: tl.constexpr,
    SOFTCAP: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Adds the contribution of the keys in [low, high) to dQ."""
    for n in range(low, high, BN):
        k = load_rows(k_desc, of, key_head, n, BN, D)
        s = tl.dot(q, k.T)
        keys = n + tl.arange(0, BN)[None, :]
        p = weights(s, lse[:, None], rows, keys, diagonal, SK, scale, slope, softcap, CAUSAL, WINDOW, ALIBI, SOFTCAP,
                    MASKED)  # fmt: skip
        v = load_rows(v_desc, of, key_head, n, BN, D)
        ds = of_products(p, tl.dot(do, v.T), delta[:, None], s, scale, softcap, SOFTCAP)
        dq = tl.dot(ds.to(k.dtype), k, dq)
    return dq


@triton.jit
def gradient_queries_tile(
    q_desc, k_desc, v_desc, do_desc, dq_desc, lse_ptr, delta_ptr, slopes_ptr, of_q, of_k, h, tile, at, SK, diagonal,
    scale, softcap, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, ALIBI: tl.constexpr, SOFTCAP: tl.constexpr,
):  # fmt: skip
    """dQ of one tile of queries of head h. of_q, of_k: as in `load_rows`. at: of row 0 in the workspace."""
    m = tile * BM
    rows = m + tl.arange(0, BM)
    q = load_rows(q_desc, of_q, h, m, BM, D)
    do = load_rows(do_desc, of_q, h, m, BM, D)
    lse = tl.load(lse_ptr + at + rows)
    delta = tl.load(delta_ptr + at + rows)
    slope = tl.load(slopes_ptr + h) if ALIBI else 0.0
    dq = tl.zeros([BM, D], tl.float32)
    low, full_low, full_high, high = key_range(m, diagonal, SK, BM, BN, CAUSAL, WINDOW)
    if WINDOW:
        dq = add_keys(dq, q, do, lse, delta, k_desc, v_desc, of_k, h // GROUP, rows[:, None], low, min(full_low, high),
                      SK, diagonal, scale, slope, softcap, BN, D, CAUSAL, WINDOW, ALIBI, SOFTCAP, True)  # fmt: skip
    dq = add_keys(dq, q, do, lse, delta, k_desc, v_desc, of_k, h // GROUP, rows[:, None], full_low, full_high, SK,
                  diagonal, scale, slope, softcap, BN, D, CAUSAL, WINDOW, ALIBI, SOFTCAP, False)  # fmt: skip
    dq = add_keys(dq, q, do, lse, delta, k_desc, v_desc, of_k, h // GROUP, rows[:, None], full_high, high, SK,
                  diagonal, scale, slope, softcap, BN, D, CAUSAL, WINDOW, ALIBI, SOFTCAP, True)  # fmt: skip
    store_rows(dq_desc, of_q, h, m, dq * scale, BM, D)


@triton.jit
def attention_dq(
    q_desc, k_desc, v_desc, do_desc, dq_desc, lse_ptr, delta_ptr, slopes_ptr, H, SP, SK, diagonal, scale, softcap,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, ALIBI: tl.constexpr, SOFTCAP: tl.constexpr,
):  # fmt: skip
    """dQ of BM queries of one head. Grid: tiles of queries, heads of all batches."""
    head = tl.program_id(1)
    b, h = head // H, head % H
    gradient_queries_tile(q_desc, k_desc, v_desc, do_desc, dq_desc, lse_ptr, delta_ptr, slopes_ptr, b, b, h,
                          tl.program_id(0), head * SP, SK, diagonal, scale, softcap, GROUP, BM, BN, D, CAUSAL, WINDOW,
                          ALIBI, SOFTCAP)  # fmt: skip
