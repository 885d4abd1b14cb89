"""Kernels that add terms of single rows to what their dots computed, as linear attention does within a chunk."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def of_chunks(a_ptr, k_ptr, T, rows, tile, B: tl.constexpr, N: tl.constexpr):
    """The products with T earlier chunks. rows: numbers of a tile's rows. tile: offsets in a chunk of K."""
    acc = tl.zeros((B, N), tl.float32)
    for t in range(T):
        a = tl.load(a_ptr + t * B * B + rows[:, None] * B + rows[None, :])
        k = tl.load(k_ptr + t * B * N + tile)
        acc = tl.dot(a, k.to(tl.float32), acc)
    return acc


@triton.jit
def decayed(a_ptr, k_ptr, g_ptr, out_ptr, T, J, B: tl.constexpr, N: tl.constexpr):
    """Products with T earlier chunks; behind them J rows of the own chunk, each decayed by its gate."""
    rows, columns = tl.arange(0, B), tl.arange(0, N)
    tile = rows[:, None] * N + columns[None, :]
    own = T * B * N
    gates = tl.load(g_ptr + own + tile)
    acc = of_chunks(a_ptr, k_ptr, T, rows, tile, B, N)
    k_row, g_row = k_ptr + own + columns, g_ptr + own + columns
    for j in range(J):
        a = tl.load(a_ptr + T * B * B + rows * B + j)
        k = tl.load(k_row).to(tl.float32)
        g = tl.load(g_row)
        term = a[:, None] * k[None, :] * tl.math.exp2(gates - g[None, :])
        acc += tl.where(rows[:, None] >= j, term, 0.0)
        k_row += N
        g_row += N
    tl.store(out_ptr + tile, acc)


@triton.jit
def of_a_chunk(a_ptr, k_ptr, g_ptr, out_ptr, T, J, B: tl.constexpr, N: tl.constexpr):
    """The same for a chunk of at most B rows, of which J are there."""
    rows, columns = tl.arange(0, B), tl.arange(0, N)
    tile = rows[:, None] * N + columns[None, :]
    own = T * B * N
    gates = tl.load(g_ptr + own + tile)
    acc = of_chunks(a_ptr, k_ptr, T, rows, tile, B, N)
    k_row, g_row = k_ptr + own + columns, g_ptr + own + columns
    for j in range(min(B, J)):
        a = tl.load(a_ptr + T * B * B + rows * B + j, mask=rows < J, other=0)
        k = tl.load(k_row).to(tl.float32)
        term = a[:, None] * k[None, :] * tl.math.exp2(gates - tl.load(g_row)[None, :])
        acc += tl.where(rows[:, None] >= j, term, 0.0)
        k_row += N
        g_row += N
    tl.store(out_ptr + tile, acc)


@triton.jit
def multiplied(a_ptr, k_ptr, g_ptr, out_ptr, T, J, B: tl.constexpr, N: tl.constexpr):
    """The same, but the terms are products, which a sum without a conversion between them would round with itself."""
    rows, columns = tl.arange(0, B), tl.arange(0, N)
    tile = rows[:, None] * N + columns[None, :]
    acc = of_chunks(a_ptr, k_ptr, T, rows, tile, B, N)
    for j in range(J):
        a = tl.load(a_ptr + T * B * B + rows * B + j)
        acc += a[:, None] * tl.load(g_ptr + j * N + tile)
    tl.store(out_ptr + tile, acc)


@triton.jit
def written(a_ptr, k_ptr, g_ptr, out_ptr, T, J, B: tl.constexpr, N: tl.constexpr):
    """The loop of rows writes the rows that it reads."""
    rows, columns = tl.arange(0, B), tl.arange(0, N)
    tile = rows[:, None] * N + columns[None, :]
    acc = of_chunks(a_ptr, k_ptr, T, rows, tile, B, N)
    for j in range(J):
        g = tl.load(g_ptr + j * N + columns)
        acc = tl.where(rows[:, None] >= j, acc + tl.math.exp2(g)[None, :], acc)
        tl.store(g_ptr + (j + 1) * N + columns, g * 0.5)
    tl.store(out_ptr + tile, acc)


@triton.jit
def one_loop(a_ptr, k_ptr, g_ptr, out_ptr, T, J, B: tl.constexpr, N: tl.constexpr):
    """Only the loop of dots."""
    rows, columns = tl.arange(0, B), tl.arange(0, N)
    tile = rows[:, None] * N + columns[None, :]
    acc = of_chunks(a_ptr, k_ptr, T, rows, tile, B, N)
    tl.store(out_ptr + tile, acc)


@triton.jit
def scored(q_ptr, k_ptr, g_ptr, out_ptr, J, B: tl.constexpr, N: tl.constexpr):
    """Scores of B rows with J other rows, decayed by gates: a column of sums is stored for each of them. No dot."""
    rows, columns = tl.arange(0, B), tl.arange(0, N)
    tile = rows[:, None] * N + columns[None, :]
    q, gates = tl.load(q_ptr + tile), tl.load(g_ptr + tile)
    k_row, g_row = k_ptr + columns, g_ptr + columns
    for j in range(J):
        k = tl.load(k_row).to(tl.float32)
        g = tl.load(g_row)
        scores = tl.sum(q * k[None, :] * tl.math.exp2(gates - g[None, :]), 1) * 0.5
        tl.store(out_ptr + rows * B + j, scores)
        k_row += N
        g_row += N
    tl.debug_barrier()
    tl.store(out_ptr + rows[:, None] * B + rows[None, :], tl.zeros((B, B), tl.float32), rows[:, None] < rows[None, :])


@triton.jit
def summed(x_ptr, out_ptr, J, N: tl.constexpr):
    """A sum of rows, in a loop whose tiles all have one layout. No dot."""
    columns = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for j in range(J):
        total += tl.load(x_ptr + j * N + columns)
    tl.store(out_ptr + tl.arange(0, 1), tl.sum(total, 0)[None])


@triton.jit
def spread(q_ptr, k_ptr, g_ptr, out_ptr, J, B: tl.constexpr, N: tl.constexpr):
    """Products of two rows are added to each row of a tile: LLVM may round a product and its sum together. No dot."""
    columns = tl.arange(0, N)
    tile = tl.arange(0, B)[:, None] * N + columns[None, :]
    acc = tl.load(q_ptr + tile)
    for j in range(J):
        row = j * N + columns
        acc += (tl.load(k_ptr + row).to(tl.float32) * tl.load(g_ptr + row))[None, :]
    tl.store(out_ptr + tile, acc)


@triton.jit
def grown(q_ptr, k_ptr, g_ptr, out_ptr, J: tl.constexpr, B: tl.constexpr, N: tl.constexpr):
    """A product of one iteration is what the next one adds to. No dot."""
    columns = tl.arange(0, N)
    tile = tl.arange(0, B)[:, None] * N + columns[None, :]
    acc = tl.load(q_ptr + tile)
    for j in range(J):
        row = j * N + columns
        acc = (acc + tl.load(k_ptr + row).to(tl.float32)[None, :]) * tl.load(g_ptr + row)[None, :]
    tl.store(out_ptr + tile, acc)


@triton.jit
def weighed(q_ptr, k_ptr, g_ptr, sums_ptr, out_ptr, J, B: tl.constexpr, N: tl.constexpr):
    """Sums of products of rows, and a tile that keeps the larger ones. No dot."""
    rows, columns = tl.arange(0, B), tl.arange(0, N)
    tile = rows[:, None] * N + columns[None, :]
    q, most = tl.load(q_ptr + tile), tl.load(g_ptr + tile)
    for j in range(J):
        k = tl.load(k_ptr + j * N + columns).to(tl.float32)
        tl.store(sums_ptr + rows * N + j, tl.sum(q * k[None, :], 1))
        most = tl.where(most > k[None, :], most, k[None, :])
    tl.store(out_ptr + tile, most)


@triton.jit
def eighths(q_ptr, k_ptr, sums_ptr, J, B: tl.constexpr, N: tl.constexpr):
    """Sums of eight products of rows: LLVM pairs them where a thread has many. No dot."""
    columns = tl.arange(0, N)
    tile = tl.arange(0, B)[:, None] * N + columns[None, :]
    parts = tl.arange(0, B)[:, None] * (N // 8) + tl.arange(0, N // 8)[None, :]
    q = tl.load(q_ptr + tile)
    for j in range(J):
        products = q * tl.load(k_ptr + j * N + columns).to(tl.float32)[None, :]
        tl.store(sums_ptr + j * B * N + parts, tl.sum(tl.reshape(products, (B, N // 8, 8)), 2))


@triton.jit
def in_place(q_ptr, J, N: tl.constexpr):
    """Rows are stored, and loaded again in another order. One warp needs no barrier between."""
    columns = tl.arange(0, N)
    for j in range(J):
        tl.store(q_ptr + columns, tl.load(q_ptr + N - 1 - columns) + j)


@triton.jit
def twice(q_ptr, out_ptr, J, N: tl.constexpr, FENCE: tl.constexpr):
    """Zeros are stored, and then rows over them."""
    columns = tl.arange(0, N)
    tl.store(out_ptr + columns, 0.0)
    if FENCE:
        tl.debug_barrier()
    for j in range(J):
        tl.store(out_ptr + N - 1 - columns, tl.load(q_ptr + j * N + columns))


@triton.jit
def counted(q_ptr, out_ptr, count_ptr, N: tl.constexpr, SEM: tl.constexpr, TICKET: tl.constexpr):
    """A row is stored, and a count says so: to others, or to the program itself."""
    columns = tl.arange(0, N)
    tl.store(out_ptr + columns, tl.load(q_ptr + columns))
    ticket = tl.atomic_add(count_ptr, 1, sem=SEM)
    if TICKET:
        tl.store(out_ptr + N + ticket, 1.0)


@triton.jit
def side_by_side(q_ptr, out_ptr, N: tl.constexpr):
    """Two rows side by side, in the order of a layout."""
    row = tl.load(q_ptr + tl.arange(0, N))
    tl.store(out_ptr + tl.arange(0, 2 * N), tl.cat(row, row + 1, can_reorder=True))
