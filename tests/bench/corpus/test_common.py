"""Inputs that several packages share are what they say."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from bench.corpus.common import quantised, routing  # noqa: E402
from bench.corpus.common.caches import by_token, paged, want_paged  # noqa: E402
from bench.corpus.common.references import attention, block_scaled  # noqa: E402


def test_codes_can_be_unpacked_again() -> None:
    codes = torch.randint(0, 16, (8, 16))
    columns, rows = quantised.packed_columns(codes, quantised.AWQ_ORDER), quantised.packed_rows(codes)
    places = torch.tensor(quantised.AWQ_ORDER)
    assert torch.equal((columns[:, :, None] >> (4 * places)) & 15, codes.view(8, 2, 8).int())
    assert torch.equal(((rows[0, :, None] >> (4 * torch.arange(8))) & 15).T, codes.int())


def test_scales_belong_to_blocks_even_at_an_edge() -> None:
    found = block_scaled(torch.ones(3, 4), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 2, 2)
    assert found.tolist() == [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4]]


def test_rows_of_an_expert_fill_whole_blocks() -> None:
    chosen = torch.tensor([[0, 2], [2, 1], [2, 0]], dtype=torch.int32)
    rows, of_block, count = routing.aligned(chosen, 3, 2)
    assert rows.tolist() == [0, 5, 3, 6, 1, 2, 4, 6]  # 6 is padding
    assert of_block.tolist() == [0, 1, 2, 2] and count.tolist() == [8]


def test_products_of_experts_are_those_of_the_chosen_ones() -> None:
    chosen = torch.tensor([[1], [0]])
    found = routing.product_of_experts(torch.eye(2), torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]), chosen)
    assert found.tolist() == [[[3.0]], [[2.0]]]


def test_a_cache_of_pages_holds_the_keys_of_its_sequences() -> None:
    it = by_token(paged((3, 0), (2, 4), 2, 1, 8, 1, "cpu"))
    assert torch.equal(it["k"][it["addresses"].long()], torch.cat(it["keys"]))
    q, k, v = (part.transpose(0, 1)[None] for part in (it["q"][:2], it["keys"][0], it["values"][0]))
    assert torch.allclose(want_paged(it)["o"][:2], attention(q, k, v, causal=True)[0].transpose(0, 1))
