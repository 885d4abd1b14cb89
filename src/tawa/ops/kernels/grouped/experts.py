"""Rows in the order of their experts, and the sums of what experts give. Plain Triton.

Each of T tokens chooses CHOICES experts of E; a choice is numbered ``token * CHOICES + which``. Choices are sorted by
expert, and of one expert by number, so that results do not depend on the order in which programs run. `count_choices`
counts in blocks of SIZE choices, `place_blocks` adds up the counts, `sort_choices` puts each choice in its place; where
one block holds all, `sort_block` does all of it. Choices of an expert below 0, or from E on, come last, as those of a
group E without a matrix.
"""

from __future__ import annotations

import triton
import triton.language as tl

from tawa.ops.kernels.grouped.products import write_tiles


@triton.jit
def experts_of(experts, block, total, E, SIZE: tl.constexpr):
    """The numbers of a block of choices, and their experts: E of those that are not there, -1 behind the last."""
    choice = block * SIZE + tl.arange(0, SIZE)
    expert = tl.load(experts + choice, mask=choice < total, other=0)
    expert = tl.where((expert >= 0) & (expert < E), expert, E).to(tl.int32)
    return choice, tl.where(choice < total, expert, -1)


@triton.jit
def counted(expert, EXPERTS: tl.constexpr):
    """How many of a block of choices name each expert."""
    return tl.sum((expert[:, None] == tl.arange(0, EXPERTS)[None, :]).to(tl.int32), 0)


@triton.jit
def write_places(experts, order, rank, before, block, total, E, SIZE: tl.constexpr):
    """Puts a block of choices in their places. before: the place of the block's first choice of each expert."""
    choice, expert = experts_of(experts, block, total, E, SIZE)
    earlier, other = experts_of(experts, block, total, E, SIZE)
    same = (expert[:, None] == other[None, :]) & (earlier[None, :] < choice[:, None])
    place = tl.gather(before, tl.maximum(expert, 0), 0) + tl.sum(same.to(tl.int32), 1)
    tl.store(order + place, choice, mask=choice < total)
    tl.store(rank + choice, place, mask=choice < total)


@triton.jit
def write_ends(totals, ends, tiles, slots, E, BM: tl.constexpr):
    """Writes the ends of the experts' choices, and the list of tiles of BM rows, as `list_tiles` does."""
    number, end = tl.arange(0, totals.shape[0]), tl.cumsum(totals, 0)
    tl.store(ends + number, end, mask=number < E)
    write_tiles(end - totals, end, tiles, slots, BM)


@triton.jit
def count_choices(experts, counts, total, E, EXPERTS: tl.constexpr, SIZE: tl.constexpr):
    """counts (blocks, EXPERTS): how many of a block of choices name each expert. EXPERTS: a power of two above E."""
    _, expert = experts_of(experts, tl.program_id(0), total, E, SIZE)
    tl.store(counts + tl.program_id(0) * EXPERTS + tl.arange(0, EXPERTS), counted(expert, EXPERTS))


@triton.jit
def place_blocks(counts, totals, blocks, EXPERTS: tl.constexpr, COLUMNS: tl.constexpr, AT_ONCE: tl.constexpr):
    """Replaces counts (blocks, EXPERTS), in COLUMNS columns, by their sums over earlier blocks, AT_ONCE at a time.

    totals (EXPERTS,): the sums over all blocks.
    """
    row, number = tl.arange(0, AT_ONCE), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    before = tl.zeros((COLUMNS,), dtype=tl.int32)
    for first in range(0, blocks, AT_ONCE):
        at = counts + (first + row)[:, None] * EXPERTS + number[None, :]
        found = tl.load(at, mask=(first + row < blocks)[:, None], other=0)
        tl.store(at, before[None, :] + tl.cumsum(found, 0) - found, mask=(first + row < blocks)[:, None])
        before += tl.sum(found, 0)
    tl.store(totals + number, before)


@triton.jit
def sort_choices(
    experts, places, totals, order, rank, ends, tiles, total, slots, E, EXPERTS: tl.constexpr, BM: tl.constexpr,
    SIZE: tl.constexpr,
):  # fmt: skip
    """order: the choice in each place; rank: the place of each choice. places, totals: what `place_blocks` leaves.

    Program 0 writes the ends of the experts and the list of tiles, the others a block of choices each.
    """
    number, block = tl.arange(0, EXPERTS), tl.program_id(0) - 1
    totals_of = tl.load(totals + number)
    if block < 0:
        write_ends(totals_of, ends, tiles, slots, E, BM)
    else:
        before = tl.cumsum(totals_of, 0) - totals_of + tl.load(places + block * EXPERTS + number)
        write_places(experts, order, rank, before, block, total, E, SIZE)


@triton.jit
def sort_block(
    experts, order, rank, ends, tiles, total, slots, E, EXPERTS: tl.constexpr, BM: tl.constexpr,
    SIZE: tl.constexpr,
):  # fmt: skip
    """As the three others, for up to SIZE choices in one program."""
    _, expert = experts_of(experts, 0, total, E, SIZE)
    totals = counted(expert, EXPERTS)
    write_ends(totals, ends, tiles, slots, E, BM)
    write_places(experts, order, rank, tl.cumsum(totals, 0) - totals, 0, total, E, SIZE)


@triton.jit
def scatter_rows(x, rank, rows, H, CHOICES: tl.constexpr, SIZE: tl.constexpr):
    """rows (places, H): the row of x (tokens, H) of each choice in its place; SIZE columns of one token."""
    token = tl.program_id(0)
    column = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    row = tl.load(x + token.to(tl.int64) * H + column, mask=column < H)
    for which in tl.static_range(CHOICES):
        place = tl.load(rank + token * CHOICES + which).to(tl.int64)
        tl.store(rows + place * H + column, row, mask=column < H)


@triton.jit
def add_experts(y, rank, weights, out, H, CHOICES: tl.constexpr, SIZE: tl.constexpr):
    """out (tokens, H): what the experts of a token gave, y (places, H), by weight, summed in the order of choices."""
    token = tl.program_id(0)
    column = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    total = tl.zeros((SIZE,), dtype=tl.float32)
    for which in tl.static_range(CHOICES):
        place = tl.load(rank + token * CHOICES + which).to(tl.int64)
        weight = tl.load(weights + token * CHOICES + which).to(tl.float32)
        total += weight * tl.load(y + place * H + column, mask=column < H, other=0.0).to(tl.float32)
    tl.store(out + token.to(tl.int64) * H + column, total.to(out.dtype.element_ty), mask=column < H)
