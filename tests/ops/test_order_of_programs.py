"""The order in which programs of causal attention kernels start, and take their tiles."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tawa.ops.attention_ops import order
from tawa.ops.attention_ops.tiles import Mask

CAUSAL = Mask(True, 0)
MASKS = [Mask(False, 0), CAUSAL, Mask(True, 37), Mask(True, -50), Mask(True, 0, 100), Mask(True, 20, 7)]


@pytest.fixture(autouse=True)
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "multiprocessors", lambda device: 132)


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_a_tile_of_keys_takes_the_blocks_that_see_it(mask: Mask) -> None:
    queries, keys, block, tile = 300, 260, 16, 32
    diagonal = mask.diagonal if mask.causal else keys
    boxes = -(-keys // tile) * tile  # the kernels do not look where the last tile of keys ends
    seen = [
        {n for n in range(boxes) if n <= m + diagonal and (not mask.window or n > m + diagonal - mask.window)}
        for m in range(queries)
    ]
    by_keys = order.steps_of_keys(-(-keys // tile), block, tile, queries, mask)
    for number, steps in enumerate(by_keys):
        own = set(range(number * tile, (number + 1) * tile))
        rows = [m for m in range(queries) if seen[m] & own]
        assert steps >= (rows[-1] // block - rows[0] // block + 1 if rows else 0)
        assert steps <= len(rows) // block + 2


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_a_tile_of_queries_takes_the_blocks_that_it_sees(mask: Mask) -> None:
    queries, keys, block, tile = 300, 260, 32, 16
    diagonal = mask.diagonal if mask.causal else keys
    by_queries = order.steps_of_queries(-(-queries // tile), tile, block, keys, mask)
    for number, steps in enumerate(by_queries):
        rows = range(number * tile, (number + 1) * tile)
        seen = {n // block for m in rows for n in range(keys) if n <= m + diagonal
                and (not mask.window or n > m + mask.diagonal - mask.window)}  # fmt: skip
        assert steps == max(seen) - min(seen) + 1 if seen else steps <= 1


@pytest.mark.parametrize(
    ("heads", "tokens"), [(256, 1024), (128, 2048), (64, 4096), (32, 8192), (16, 16384), (32, 4096)]
)
def test_pairs_and_then_single_tiles_end_sooner_than_pairs_alone(heads: int, tokens: int) -> None:
    tiles = tokens // 128
    lengths = order.steps_of_queries(tiles, 128, 128, tokens, CAUSAL)[::-1]
    pairs = [lengths[at] + lengths[-1 - at] + 2 * order.START for at in range(tiles // 2)]
    in_pairs = order.heads_in_pairs(tiles, heads, None)  # pyright: ignore[reportArgumentType]
    shares = [*pairs * in_pairs, *order.in_order(lengths, heads - in_pairs, heads)]
    end = order.makespan(shares, 132)
    assert end <= 1.025 * sum(shares) / 132 and end < order.makespan(pairs * heads, 132)


@pytest.mark.parametrize(
    ("heads", "group", "tokens"), [(16, 4, 4096), (64, 1, 4096), (256, 1, 1024), (16, 4, 8192), (2, 8, 256)]
)
def test_the_last_program_ends_at_most_a_fortieth_late(heads: int, group: int, tokens: int) -> None:
    """Unless there are too few programs for all SMs, or one takes longer than its share."""
    lengths = [group * it for it in order.steps_of_keys(tokens // 128, 64, 128, tokens, CAUSAL)]
    together = order.heads_together(lengths, heads, None)  # pyright: ignore[reportArgumentType]
    in_order = list(order.in_order(lengths, heads, together))
    assert sorted(in_order) == sorted(order.in_order(lengths, heads, 1)), "the same programs"
    share = sum(in_order) / 132
    end = order.makespan(in_order, 132)
    assert end <= 1.025 * share or end == max(in_order)
    assert end <= order.makespan(order.in_order(lengths, heads, 1), 132)


def test_programs_of_the_same_length_keep_their_order() -> None:
    assert order.heads_together([8] * 32, 64, None) == 1  # pyright: ignore[reportArgumentType]
