"""How many splits a decoding call gets."""

from __future__ import annotations

import pytest

from tawa.ops.attention_ops.decode_splits import MERGE, MOST, predicted_us, split_count

PAIR = 2 * 128 * 128 * 2
"""Bytes of K and V in a block of 128 keys, d = 128, 16 bits."""
HEADS = 32 * 128 * 4
"""Bytes of the output of one query of 32 heads in float32."""


def splits(batches: int, keys: int, key_heads: int = 8) -> int:
    return split_count(batches * key_heads, keys // 128, PAIR, batches * HEADS, 132)


def test_one_long_sequence_is_spread_over_all_processors() -> None:
    count = splits(1, 65536)
    assert 120 <= 8 * count <= 132 * 4 and 8 * count % 132 in (*range(100, 132), 0)


def test_as_many_programs_as_processors_are_not_split() -> None:
    assert splits(16, 8192) in (1, 2) and splits(64, 4096) == 1


def test_a_short_sequence_is_not_split() -> None:
    assert splits(1, 128) == 1 and splits(8, 256) == 1


@pytest.mark.parametrize("blocks", [0, 1, 3, 1000])
def test_there_are_no_more_splits_than_blocks(blocks: int) -> None:
    assert 1 <= split_count(1, blocks, PAIR, HEADS, 132) <= min(max(blocks, 1), MOST)


def test_a_wave_more_takes_its_time() -> None:
    one, more = (predicted_us(1, pairs, 64, PAIR, HEADS, 132) for pairs in (132, 133))
    assert more > 1.3 * one


def test_programs_that_share_an_sm_are_one_wave() -> None:
    one, more = (predicted_us(1, pairs, 64, PAIR, HEADS, 132, 2) for pairs in (132, 133))
    assert more < 1.1 * one
    assert predicted_us(1, 265, 64, PAIR, HEADS, 132, 2) > 1.1 * predicted_us(1, 264, 64, PAIR, HEADS, 132, 2)


def test_the_merge_counts() -> None:
    assert predicted_us(2, 8, 64, PAIR, HEADS, 132) > MERGE
