"""In which order the programs of attention kernels start.

The hardware starts programs in their order, each when an SM is free. If those that take longest start last, most SMs
are idle while they run: with 4 key heads, each shared by 4 query heads, a quarter of the time at 4096 tokens. So heads
are taken several at a time, and of these the longest tiles first (`longest_first` in the kernels).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

import torch

from tawa.ops.attention_ops.tiles import Mask
from tawa.ops.calls.devices import multiprocessors
from tawa.ops.calls.tables import blocks

START = 3
"""What a program takes before and behind its loop, in iterations."""
SINGLE_WAVES = 2
"""Waves of single tiles behind pairs of tiles."""
LAST_WAVES = 32
"""Waves of programs at the end that decide when the last one ends."""


def steps_of_keys(tiles: int, BM: int, BN: int, queries: int, mask: Mask) -> list[int]:
    """Blocks of BM queries that see each tile of BN keys; `query_range` of the kernels."""
    made = list[int]()
    for n in range(0, tiles * BN, BN):
        high = min(queries, n + BN - 1 - mask.diagonal + mask.window) if mask.window else queries
        low = max(n - mask.diagonal, 0) // BM * BM if mask.causal else 0
        made.append(max(0, blocks(high - low, BM)))
    return made


def steps_of_queries(tiles: int, BM: int, BN: int, keys: int, mask: Mask) -> list[int]:
    """Blocks of BN keys that each tile of BM queries sees; `key_range` of the kernels."""
    made = list[int]()
    for m in range(0, tiles * BM, BM):
        high = max(min(keys, m + BM + mask.diagonal), 0) if mask.causal else keys
        low = max(m + mask.diagonal - mask.window + 1, 0) // BN * BN if mask.window else 0
        made.append(max(0, blocks(high - low, BN)))
    return made


def heads_together(lengths: Sequence[int], heads: int, device: torch.device) -> int:
    """How many heads are taken at a time: about those of a wave, and of these numbers the one that ends soonest.

    More heads end no later, but share the L2 with more others. lengths: iterations of the tiles of a head, the longest
    first. heads: of all batches.
    """
    if len(set(lengths)) == 1:
        return 1
    processors = multiprocessors(device)
    wave = min(heads, blocks(processors, len(lengths)))
    enough = blocks(LAST_WAVES * processors, len(lengths))

    def end(together: int) -> float:
        """Of the last waves, over what they would take if all SMs ended together."""
        last = min(heads, blocks(enough, together) * together + heads % together)
        times = list(in_order(lengths, last, together))
        return makespan(times, processors) * processors / sum(times)

    return min(range(wave // 2 + 1, wave + 1), key=end)


def heads_in_pairs(tiles: int, heads: int, device: torch.device) -> int:
    """The heads whose tiles are taken from a counter in pairs of equal length; see `attention_persistent`.

    Pairs alone end together only if their number suits that of the SMs, and single tiles alone start and end at the
    same time on all SMs. So the tiles of the last waves come one by one.
    """
    return max(0, heads - blocks(SINGLE_WAVES * multiprocessors(device), tiles))


def in_order(lengths: Sequence[int], heads: int, together: int) -> Iterator[int]:
    """The iterations of all programs, in the order of their starts."""
    for first in range(0, heads, together):
        for length in lengths:
            yield from [length + START] * min(together, heads - first)


def makespan(times: Iterable[int], processors: int) -> int:
    """When the last program ends, if each starts on the processor that is free first."""
    free = [0] * processors
    for time in times:
        heapq.heapreplace(free, free[0] + time)
    return max(free)
