"""Over how many programs the keys of a sequence are split.

A decoding kernel reads K and V once and does little else, so its time follows from how many SMs read, and how much:

    wave      as many programs as the SMs hold at a time, or the rest. A program takes START, and then as long as its
              blocks: at the rate of the memory, shared by the programs of the wave, or at the rate of one SM, shared by
              its programs, if those are few
    kernel    the sum of the waves: with one program on an SM, 133 programs take twice as long as 132
    merge     with several splits, MERGE for a second kernel, which reads and writes the parts once

The count with the least time is taken, and of equal ones the smallest. It depends on shapes only, not on the lengths in
GPU memory, so that a call does not wait for the GPU and its launches can be captured in a CUDA graph.
"""

from __future__ import annotations

import functools

MEMORY = 4.1e6
"""Bytes in a microsecond: what decoding kernels read of 4.8 TB/s on an H200."""
SM_RATE = 60e3
"""Bytes in a microsecond that one SM takes in: 128 keys and values (64 KiB) in 1900 cycles, the iteration of the
kernel's loop according to the scheduler."""
START, MERGE = 2.5, 3.0
"""Microseconds of a program without its blocks, and of a second kernel (the model of time, `coefficients.json`)."""
MOST = 128


@functools.lru_cache(maxsize=4096)
def split_count(pairs: int, blocks: int, block_bytes: int, row_bytes: int, processors: int, at_a_time: int = 1) -> int:
    """The number of splits.

    pairs: programs of one split: sequences, times key heads, times tiles of rows. blocks: of keys, in a sequence.
    block_bytes: of K and V in a block. row_bytes: of one split's part of the output, in float32. processors: SMs.
    at_a_time: programs that share an SM.
    """
    counts = range(1, max(1, min(blocks, MOST)) + 1)
    rest = pairs, blocks, block_bytes, row_bytes, processors, at_a_time
    return min(counts, key=lambda it: (round(predicted_us(it, *rest), 2), it))


def predicted_us(
    splits: int, pairs: int, blocks: int, block_bytes: int, row_bytes: int, processors: int, at_a_time: int = 1
) -> float:
    """Predicted microseconds with a number of splits; arguments as for `split_count`."""
    programs, each = pairs * splits, -(-blocks // splits) * block_bytes
    full, rest = divmod(programs, processors * at_a_time)
    total = full * _wave_us(processors * at_a_time, each, processors)
    total += _wave_us(rest, each, processors) if rest else 0.0
    return total + (MERGE + 2 * splits * row_bytes / MEMORY if splits > 1 else 0.0)


def _wave_us(programs: int, each: int, processors: int) -> float:
    return START + max(programs * each / MEMORY, -(-programs // processors) * each / SM_RATE)
