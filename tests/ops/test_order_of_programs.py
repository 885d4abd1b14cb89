"""The order in which programs of causal backward kernels start."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tawa.ops.attention_ops import order
from tawa.ops.attention_ops.mask import Mask

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
