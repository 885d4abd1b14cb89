"""Attention of few queries over a cache of keys and values, with the keys split over programs.

A program has one key head of one sequence, and a share of its keys. The query heads that share the key head, times the
SQ queries, are the rows of its tile: Q and O are (B * HK, R, D) with R = GROUP * SQ, and row r is query ``r % SQ``. So
K and V are read once for all of them. The time of such a kernel is that of reading K and V; padding the rows to the 64
of a wgmma costs nothing.

K and V are (B, HK, S, D), or in pages (pages, HK, PAGE, D): keys ``PAGE * i .. PAGE * i + PAGE - 1`` of a sequence are
those of page ``table[i]``. Sequence b has ``lengths[b] + MORE`` keys; the last query sees its last key. The cache may
hold anything behind them, and 0 * NaN is NaN. So K and V have the ragged descriptors of `varlen.py`, which end with the
sequence: all heads are one long column of rows, and sequence b (page i) begins at row ``b * STEP`` (``i * STEP``).

With several splits each program writes its part of O in float32 with the logarithms of its sums, and `merge_splits`
combines them. Plain Triton; letters, masks and logarithms as in `parts.py`.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.parts import (
    LOG2_E,
    LOWEST,
    finish,
    key_range,
    load_rows,
    modified,
    softmax_step,
    visible,
)


@triton.jit
def attend_cache(
    acc, m_i, l_i, q, k_desc, v_desc, table_ptr, TABLE, b, h, queries, low, high, diagonal, SK, K_STEP, V_STEP, scale,
    softcap, BN: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Attends to the blocks of keys in [low, high). MASKED: not every row sees all of their keys."""
    for n in range(low, high, BN):
        place, row, length = b, n, SK
        if PAGE:
            place, row = tl.load(table_ptr + min(n // PAGE, TABLE - 1)), n % PAGE
            length = min(SK - n // PAGE * PAGE, PAGE)
        k = load_rows(k_desc, (place * K_STEP + length, length), h, row, BN, D)
        s = tl.dot(q, k.T)
        keys = n + tl.arange(0, BN)[None, :]
        s = modified(s, queries, keys, diagonal, scale, 0.0, softcap, False, SOFTCAP)
        if MASKED:
            s = tl.where(visible(queries, keys, diagonal, SK, CAUSAL, WINDOW), s, float("-inf"))
        p, m_i, l_i, alpha = softmax_step(s, m_i, l_i, 1.0 if SOFTCAP else scale * LOG2_E)
        v = load_rows(v_desc, (place * V_STEP + length, length), h, row, BN, D)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    return acc, m_i, l_i


@triton.jit
def attention_decode(
    q_desc, k_desc, v_desc, o_ptr, lse_ptr, lengths_ptr, table_ptr, HK, S, MORE, TABLE, K_STEP, V_STEP, scale, softcap,
    DIM, SQ: tl.constexpr, R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr,
):  # fmt: skip
    """Grid: splits of the keys, key heads of all sequences, tiles of BM rows.

    o_ptr: (splits, B * HK, R, DIM), of which the type is that of O or float32. lse_ptr: (splits, B * HK, R); None:
    behind O in its memory, in float32. S: keys of every sequence if `lengths_ptr` is None. PAGE: keys of a page, 0 for
    no pages; TABLE: columns of the table.
    """
    split, head = tl.program_id(0), tl.program_id(1)
    b, h = head // HK, head % HK
    SK = S + MORE
    if lengths_ptr is not None:
        SK = tl.load(lengths_ptr + b) + MORE
    row = tl.program_id(2) * BM
    rows = row + tl.arange(0, BM)
    queries = (rows % SQ)[:, None]
    table = table_ptr
    if PAGE:
        table = table_ptr + b * TABLE
    diagonal = SK - SQ
    low, full_low, full_high, high = key_range(0, diagonal, SK, SQ, BN, CAUSAL, WINDOW)
    share = tl.cdiv(tl.cdiv(high - low, BN), tl.num_programs(0)) * BN
    begin = low + split * share
    end = min(begin + share, high)
    m_i = tl.full([BM], LOWEST, tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    q = q_desc.load([head, row, 0]).reshape([BM, D])
    if WINDOW:
        acc, m_i, l_i = attend_cache(acc, m_i, l_i, q, k_desc, v_desc, table, TABLE, b, h, queries, begin,
                                     min(full_low, end), diagonal, SK, K_STEP, V_STEP, scale, softcap, BN, D, PAGE,
                                     CAUSAL, WINDOW, SOFTCAP, True)  # fmt: skip
    acc, m_i, l_i = attend_cache(acc, m_i, l_i, q, k_desc, v_desc, table, TABLE, b, h, queries, max(begin, full_low),
                                 min(full_high, end), diagonal, SK, K_STEP, V_STEP, scale, softcap, BN, D, PAGE, CAUSAL,
                                 WINDOW, SOFTCAP, False)  # fmt: skip
    acc, m_i, l_i = attend_cache(acc, m_i, l_i, q, k_desc, v_desc, table, TABLE, b, h, queries, max(begin, full_high),
                                 end, diagonal, SK, K_STEP, V_STEP, scale, softcap, BN, D, PAGE, CAUSAL, WINDOW,
                                 SOFTCAP, True)  # fmt: skip
    o, lse = finish(acc, m_i, l_i)
    out = (split * tl.num_programs(1) + head) * R + rows
    if lse_ptr is None:
        logarithms = o_ptr + (tl.num_programs(0) * tl.num_programs(1) * R).to(tl.int64) * DIM
    else:
        logarithms = lse_ptr
    tl.store(logarithms + out, lse, mask=rows < R)
    columns = tl.arange(0, D)[None, :]
    inside = (rows < R)[:, None] & (columns < DIM)
    tl.store(o_ptr + out.to(tl.int64)[:, None] * DIM + columns, o.to(o_ptr.dtype.element_ty), mask=inside)


@triton.jit
def merge_splits(
    part_ptr, o_ptr, lse_ptr, ROWS, DIM, splits, SPLITS: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """O and the logarithms of the sums from those of all splits: one row for each program. Grid: ROWS.

    part_ptr: (splits, ROWS, DIM), and behind it the logarithms (splits, ROWS). lse_ptr: None if they are not wanted.
    """
    row = tl.program_id(0)
    part, columns = tl.arange(0, SPLITS), tl.arange(0, D)
    logarithms = part_ptr + tl.cast(splits * ROWS, tl.int64) * DIM
    lse = tl.load(logarithms + part * ROWS + row, mask=part < splits, other=float("-inf"))
    most = tl.max(lse, 0)
    weights = tl.exp2(lse - (0.0 if most == float("-inf") else most))
    total = tl.sum(weights, 0)
    places = (part * ROWS + row).to(tl.int64)[:, None] * DIM + columns[None, :]
    o = tl.load(part_ptr + places, mask=(part < splits)[:, None] & (columns < DIM)[None, :], other=0.0)
    o = tl.sum(o * weights[:, None], 0) / (1.0 if total == 0.0 else total)
    tl.store(o_ptr + row.to(tl.int64) * DIM + columns, o.to(o_ptr.dtype.element_ty), mask=columns < DIM)
    if lse_ptr is not None:
        tl.store(lse_ptr + row, most + tl.log2(total))


@triton.jit
def append_rows(
    k_ptr, v_ptr, k_cache_ptr, v_cache_ptr, lengths_ptr, table_ptr, S, TABLE, DIM, HK, CAPACITY, ENTRIES,
    k_batch, k_head, k_row, v_batch, v_head, v_row, kc_place, kc_head, kc_row, vc_place, vc_head, vc_row,
    PAGE: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Writes new rows of K and V behind those of each sequence. Grid: new rows, key heads of all sequences.

    CAPACITY: keys that a sequence has room for; rows beyond are left out, as are those of pages that do not exist.
    ENTRIES: sequences of the cache, or pages.
    """
    new, head = tl.program_id(0), tl.program_id(1)
    b, h = head // HK, head % HK
    n = S + new
    if lengths_ptr is not None:
        n = tl.load(lengths_ptr + b) + new
    place, row = b, n
    if PAGE:
        place, row = tl.load(table_ptr + b * TABLE + n // PAGE, mask=(n >= 0) & (n < CAPACITY), other=-1), n % PAGE
    columns = tl.arange(0, D)
    inside = (columns < DIM) & (n >= 0) & (n < CAPACITY) & (place >= 0) & (place < ENTRIES)
    k = tl.load(k_ptr + b.to(tl.int64) * k_batch + h * k_head + new * k_row + columns, mask=inside)
    v = tl.load(v_ptr + b.to(tl.int64) * v_batch + h * v_head + new * v_row + columns, mask=inside)
    place = place.to(tl.int64)
    tl.store(k_cache_ptr + place * kc_place + h * kc_head + row * kc_row + columns, k, mask=inside)
    tl.store(v_cache_ptr + place * vc_place + h * vc_head + row * vc_row + columns, v, mask=inside)
