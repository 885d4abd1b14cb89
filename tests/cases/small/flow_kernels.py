"""Kernels whose trip counts, sums or warps need more than a loop of known length, on two descriptors."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def plain(a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A @ B over T parts of K."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(T):
        acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
    c_desc.store([m, 0], acc.to(tl.float16))


@triton.jit
def trips_in_memory(a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Each program has its own length in memory."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(tl.load(numbers_ptr + tl.program_id(0))):
        acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
    c_desc.store([m, 0], acc.to(tl.float16))


@triton.jit
def bits_counted(a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """As many trips as a word in memory has bits, by a library function."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(libdevice.popc(tl.load(numbers_ptr + tl.program_id(0)))):
        acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
    c_desc.store([m, 0], acc.to(tl.float16))


@triton.jit
def bits_visited(a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The parts of K whose bits are set in a word, one after another."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), tl.float32)
    bits = tl.load(numbers_ptr + tl.program_id(0))
    t = 0
    while bits != 0:
        if bits & 1:
            acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
        bits = bits >> 1
        t += 1
    c_desc.store([m, 0], acc.to(tl.float16))


@triton.jit
def mask_summed(a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """As many trips as a mask in memory has ones."""
    m = tl.program_id(0) * BM
    trips = tl.sum(tl.load(numbers_ptr + tl.program_id(0) * 8 + tl.arange(0, 8)), axis=0)
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(trips):
        acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
    c_desc.store([m, 0], acc.to(tl.float16))


@triton.jit
def longest_row(a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The longest of some rows, or the argument if that is not zero: a branch computes the number."""
    m = tl.program_id(0) * BM
    if T == 0:
        trips = tl.max(tl.load(numbers_ptr + tl.program_id(0) * 8 + tl.arange(0, 8)), axis=0)
    else:
        trips = tl.minimum(T, 8)
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(trips):
        acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
    c_desc.store([m, 0], (acc + trips).to(tl.float16))


@triton.jit
def sum_of_each_tile(a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A loop over tiles, each with the sum of its own mask in memory."""
    for tile in range(tl.program_id(0), 2, tl.num_programs(0)):
        trips = tl.sum(tl.load(numbers_ptr + tile * 8 + tl.arange(0, 8)), axis=0)
        acc = tl.zeros((BM, BN), tl.float32)
        for t in range(trips):
            acc = tl.dot(a_desc.load([tile * BM, t * BK]), b_desc.load([t * BK, 0]), acc)
        c_desc.store([tile * BM, 0], acc.to(tl.float16))


@triton.jit
def sum_of_what_it_writes(a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The mask is written by the kernel itself: its sum may not be computed earlier."""
    m = tl.program_id(0) * BM
    at = numbers_ptr + tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.store(at, tl.load(at) * 2)
    trips = tl.sum(tl.load(at), axis=0)
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(trips):
        acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
    c_desc.store([m, 0], acc.to(tl.float16))


@triton.jit
def sum_of_the_accumulator(
    a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """The trips of the second loop follow from the result of the first."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(T):
        acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
    trips = (tl.max(tl.max(acc, axis=1), axis=0) > 0).to(tl.int32)
    for t in range(trips):
        acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
    c_desc.store([m, 0], acc.to(tl.float16))


@triton.jit
def lanes_counted(a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The trips follow from the number of a thread."""
    m = tl.program_id(0) * BM
    trips = tl.inline_asm_elementwise("mov.u32 $0, %laneid;", "=r,r", [T], dtype=tl.int32, is_pure=True, pack=1)
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(trips):
        acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
    c_desc.store([m, 0], acc.to(tl.float16))


@triton.jit
def stored_by_pointers(a_desc, b_desc, c_ptr, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """An fp32 result by pointers, with a mask for rows and columns."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(T):
        acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
    rows, columns = m + tl.arange(0, BM), tl.arange(0, BN)
    mask = (rows[:, None] < 2 * BM - 3) & (columns[None, :] < BN - 3)
    tl.store(c_ptr + rows[:, None] * BN + columns[None, :], acc * 0.5, mask=mask)


@triton.jit
def rows_by_a_table(a_desc, b_desc, c_ptr, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A loop over tiles; the row of each result comes from a table, as in a mixture of experts."""
    for tile in range(tl.program_id(0), 2, tl.num_programs(0)):
        acc = tl.zeros((BM, BN), tl.float32)
        for t in range(T):
            acc = tl.dot(a_desc.load([tile * BM, t * BK]), b_desc.load([t * BK, 0]), acc)
        rows = tl.load(numbers_ptr + tile * BM + tl.arange(0, BM))
        tl.store(c_ptr + rows[:, None] * BN + tl.arange(0, BN)[None, :], acc)


@triton.jit
def loops_in_a_row(a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Three loops: one sum over two of them, a store, and a sum of its own in a branch."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(T):
        acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
    acc = acc * 0.5
    for t in range(tl.load(numbers_ptr + tl.program_id(0)), T):
        acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
    c_desc.store([m, 0], acc.to(tl.float16))
    if tl.load(numbers_ptr + 2) > 0:
        acc = tl.zeros((BM, BN), tl.float32)
        for t in range(T):
            acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
        c_desc.store([m, 0], (acc * 2).to(tl.float16))


@triton.jit
def sums_under_branches(a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A mask of blocks in memory: one of two sums, or none, takes the part."""
    m = tl.program_id(0) * BM
    some, others = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, BN), tl.float32)
    for t in range(T):
        kind = tl.load(numbers_ptr + t)
        if kind == 1:
            some = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), some)
        elif kind == 2:
            others = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), others)
    c_desc.store([m, 0], (some - others).to(tl.float16))


@triton.jit
def added_under_a_branch(a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Each product is computed, some are added; one trip scales the sum."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(T):
        part = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]))
        kind = tl.load(numbers_ptr + t)
        if kind > 0:
            acc += part
        if kind > 1:
            acc *= 0.5
    c_desc.store([m, 0], acc.to(tl.float16))


@triton.jit
def stored_every_few_trips(
    a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """A flattened loop over tiles and parts of K: a branch stores the sum and begins the next."""
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(2 * T):
        acc = tl.dot(a_desc.load([t // T * BM, t % T * BK]), b_desc.load([t % T * BK, 0]), acc)
        if t % T == T - 1:
            c_desc.store([t // T * BM, 0], acc.to(tl.float16))
            acc = tl.zeros((BM, BN), tl.float32)


@triton.jit
def second_loop_reads_the_first(
    a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """The second loop multiplies what the first one stored."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(T):
        acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
    c_desc.store([m, 0], acc.to(tl.float16))
    for t in range(T):
        acc = tl.dot(c_desc.load([m, 0]), b_desc.load([t * BK, 0]), acc)
    c_desc.store([m, 0], acc.to(tl.float16))


@triton.jit
def parts_in_use(a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A part of K counts if any entry of its mask is set."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(T):
        mask = tl.load(numbers_ptr + t * 2 + tl.arange(0, 2))
        if tl.max(mask, axis=0) > 0:
            acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
    c_desc.store([m, 0], acc.to(tl.float16))


@triton.jit
def bits_of_each_tile(a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A loop over tiles: as many trips as the word of the tile has bits, each at the next set bit."""
    for tile in range(tl.program_id(0), 2, tl.num_programs(0)):
        bits = tl.load(numbers_ptr + tile)
        acc = tl.zeros((BM, BN), tl.float32)
        for _ in range(libdevice.popc(bits)):
            t = libdevice.ffs(bits) - 1
            acc = tl.dot(a_desc.load([tile * BM, t * BK]), b_desc.load([t * BK, 0]), acc)
            bits = bits & (bits - 1)
        c_desc.store([tile * BM, 0], acc.to(tl.float16))


@triton.jit
def float_sum_of_each_tile(
    a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """The trips of each tile follow from a sum of floats, which rounds differently on other warps."""
    for tile in range(tl.program_id(0), 2, tl.num_programs(0)):
        weights = tl.load(numbers_ptr + tile * 8 + tl.arange(0, 8)).to(tl.float32) * 0.1
        trips = tl.sum(weights, axis=0).to(tl.int32)
        acc = tl.zeros((BM, BN), tl.float32)
        for t in range(trips):
            acc = tl.dot(a_desc.load([tile * BM, t * BK]), b_desc.load([t * BK, 0]), acc)
        c_desc.store([tile * BM, 0], acc.to(tl.float16))


@triton.jit
def float_sum_before(a_desc, b_desc, c_desc, numbers_ptr, T, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A sum of floats gives the trips, once for the program."""
    m = tl.program_id(0) * BM
    weights = tl.load(numbers_ptr + tl.program_id(0) * 8 + tl.arange(0, 8)).to(tl.float32) * 0.5
    trips = tl.sum(weights, axis=0).to(tl.int32)
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(trips):
        acc = tl.dot(a_desc.load([m, t * BK]), b_desc.load([t * BK, 0]), acc)
    c_desc.store([m, 0], acc.to(tl.float16))


@triton.jit
def always(a_ptr, b_ptr, out_ptr, T, B: tl.constexpr):
    """out = sum of a[t] b[t]; a branch that is always taken has the dot."""
    rows = tl.arange(0, B)
    tile = rows[:, None] * B + rows[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for t in range(T):
        a = tl.load(a_ptr + t * B * B + tile)
        b = tl.load(b_ptr + t * B * B + tile)
        if t >= 0 and t < T:
            acc = tl.dot(a, b, acc)
    tl.store(out_ptr + tile, acc)
