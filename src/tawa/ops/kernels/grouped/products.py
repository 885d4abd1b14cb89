"""Products of groups of rows with a matrix for each group, through descriptors. Plain Triton.

Letters: T rows in G groups, one behind the other; `ends` has the row behind each. How many rows a group has is known on
the GPU only: `list_tiles` lists the tiles of rows, none of which reaches into two groups, and persistent programs of
`grouped_mm` work the list off. Rows behind the last group are of a group G without a matrix: their results are 0.
"""

from __future__ import annotations

import triton
import triton.language as tl

from tawa.ops.kernels.products.epilogue import activated, tile_at


@triton.jit
def group_bounds(ends, group, G, T):
    """The first row of groups, and the row behind their last; of numbers from G on, the rows that are left, or none."""
    start = tl.load(ends + group - 1, mask=(group > 0) & (group <= G), other=0)
    end = tl.load(ends + group, mask=group < G, other=T)
    start = tl.where(group > G, T, tl.minimum(start, T))
    return start, tl.maximum(tl.minimum(end, T), start)


@triton.jit
def write_tiles(start, end, tiles, slots, BM: tl.constexpr):
    """Writes a list of up to `slots` tiles; start, end: the bounds of all groups, and of the rows that are left.

    If groups overlap, the last tiles are missing.
    """
    count = tl.cdiv(end - start, BM)
    before = tl.cumsum(count, 0) - count
    for number in range(tl.max(count, 0)):
        at = tiles + 4 + 4 * (before + number)
        listed = (number < count) & (before + number < slots)
        tl.store(at, tl.arange(0, start.shape[0]), mask=listed)
        tl.store(at + 1, start + number * BM, mask=listed)
        tl.store(at + 2, end, mask=listed)
    tl.store(tiles, tl.minimum(tl.sum(count, 0), slots))


@triton.jit
def list_tiles(ends, tiles, T, G, slots, BM: tl.constexpr, GROUPS: tl.constexpr):
    """Lists tiles of up to BM rows. tiles: their number, then from `tiles + 4` on four numbers for each tile.

    These are its group, its first row, and the row behind the group; the last is unused. GROUPS: a power of two above
    G.
    """
    start, end = group_bounds(ends, tl.arange(0, GROUPS), G, T)
    write_tiles(start, end, tiles, slots, BM)


@triton.jit
def right_tile_of(b, group, n, k, BN: tl.constexpr, BK: tl.constexpr, B_K: tl.constexpr):
    """A block of the matrix of a group, (BK, BN)."""
    if B_K:
        y = b.load([group, n, k]).reshape(BN, BK).T
    else:
        y = b.load([group, k, n]).reshape(BK, BN)
    return y


@triton.jit
def in_vectors(K, a, ALIGNED: tl.constexpr):
    """K; if ALIGNED, in a form that shows it to be a multiple of the elements in 16 bytes."""
    if ALIGNED:
        count: tl.constexpr = 128 // a.dtype.element_ty.primitive_bitwidth
        K = K // count * count
    return K


@triton.jit
def left_rows(a, order, m, end, K, BM: tl.constexpr, CHOICES: tl.constexpr):
    """Which rows of A a tile of the list takes: the first; or, by the order, where each begins, and which there are."""
    if order is None:
        rows, known = m, m
    else:
        place = m + tl.arange(0, BM)
        known = place < end
        choice = tl.load(order + place, mask=known, other=0)
        rows = a + (choice // CHOICES).to(tl.int64) * K
    return rows, known


@triton.jit
def left_tile_of(a, order, rows, known, k, K, BK: tl.constexpr):
    """A block of A, (BM, BK). rows, known: as `left_rows` gives them."""
    if order is None:
        x = a.load([rows, k])
    else:
        at = k + tl.arange(0, BK)
        x = tl.load(rows[:, None] + at[None, :], mask=known[:, None] & (at < K)[None, :], other=0.0)
    return x


@triton.jit
def grouped_mm(
    a, b, c, c_box, tiles, order, N, K, G, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    GROUP: tl.constexpr, B_K: tl.constexpr, GATED: tl.constexpr, CHOICES: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """C (T, N) = A (T, K) @ B (G, K, N), each row with the matrix of its group, for the tiles of a list.

    A is stored with K innermost, B with K or not (B_K). order: None; or for each row of C a number, which divided by
    CHOICES is the row of A, a pointer to contiguous rows then. ALIGNED: these begin at multiples of 16 bytes.
    GATED: B has 2 N columns, and C = silu(A @ B1) * (A @ B2).
    c: a pointer to C, contiguous. c_box: its descriptor, for tiles that are full; for others, one is made that ends
    with the group. Without c_box, all are stored through pointers.
    """
    rows, columns = tl.load(tiles), tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), rows * columns, tl.num_programs(0)):
        row, column = tile_at(tile, rows * BM, N, BM, BN, GROUP)
        about = tiles + 4 + 4 * row
        group, m, end = tl.load(about), tl.load(about + 1), tl.load(about + 2)
        n = column * BN
        steps = tl.where(group < G, tl.cdiv(K, BK), 0)
        length = K if order is None else in_vectors(K, a, ALIGNED)
        left, known = left_rows(a, order, m, end, length, BM, CHOICES)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        if GATED:
            more = tl.zeros((BM, BN), dtype=tl.float32)
            for step in range(steps):
                k = step * BK
                x = left_tile_of(a, order, left, known, k, length, BK)
                acc = tl.dot(x, right_tile_of(b, group, n, k, BN, BK, B_K), acc)
                more = tl.dot(x, right_tile_of(b, group, N + n, k, BN, BK, B_K), more)
            acc = activated(acc, "silu") * more
        else:
            for step in range(steps):
                k = step * BK
                x = left_tile_of(a, order, left, known, k, length, BK)
                acc = tl.dot(x, right_tile_of(b, group, n, k, BN, BK, B_K), acc)
        made = acc.to(c.dtype.element_ty)
        if c_box is not None:
            if m + BM <= end:
                c_box.store([m, n], made)
            else:
                tl.make_tensor_descriptor(c, [end, N], [N, 1], [BM, BN]).store([m, n], made)
        else:
            here, across = m + tl.arange(0, BM), n + tl.arange(0, BN)
            at = c + here.to(tl.int64)[:, None] * N + across[None, :]
            tl.store(at, made, mask=(here < end)[:, None] & (across < N)[None, :])


@triton.jit
def grouped_outer(
    a, b, c, ends, M, N, T, G, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    C_TMA: tl.constexpr,
):  # fmt: skip
    """C (G, M, N): the product of A (M, T) and B (T, N) over the rows of each group; 0 of a group without rows.

    A is stored with M innermost, B with N. What a block reads of the next group counts as 0. C_TMA: C is a descriptor;
    else a pointer to contiguous matrices.
    """
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    group = tl.program_id(0) // tiles
    row, column = tile_at(tl.program_id(0) % tiles, M, N, BM, BN, GROUP)
    m, n = row * BM, column * BN
    start, end = group_bounds(ends, group, G, T)
    whole = start + (end - start) // BK * BK
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(start, whole, BK):
        acc = tl.dot(a.load([k, m]).T, b.load([k, n]), acc)
    for k in range(whole, end, BK):
        known = (k + tl.arange(0, BK) < end)[:, None]
        x, y = tl.where(known, a.load([k, m]), 0.0), tl.where(known, b.load([k, n]), 0.0)
        acc = tl.dot(x.T, y, acc)
    if C_TMA:
        c.store([group, m, n], acc.to(c.dtype).reshape(1, BM, BN))
    else:
        rows, columns = m + tl.arange(0, BM), n + tl.arange(0, BN)
        at = c + (group.to(tl.int64) * M + rows[:, None]) * N + columns[None, :]
        tl.store(at, acc.to(c.dtype.element_ty), mask=(rows < M)[:, None] & (columns < N)[None, :])
