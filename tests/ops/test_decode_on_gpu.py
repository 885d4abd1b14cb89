"""Decoding on a GPU: every sequence against float64, in caches full of NaN, under torch.compile, captured.

Every output is full of NaN before its kernel runs.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.ops import attention_decode  # noqa: E402
from tawa.ops.attention_ops import decode_launch  # noqa: E402
from tests.ops.expected import normal  # noqa: E402
from tests.ops.expected_decode import Cache, check_decoded, make_cache  # noqa: E402
from tests.ops.interpreted_decode import forget  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(180)]
HALF = (torch.float16, torch.bfloat16)
LENGTHS = (700, 129, 128, 1, 0, 333)


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwritten(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.full(shape, math.nan, dtype=dtype, device=like.device)

    monkeypatch.setattr(decode_launch, "unwritten", unwritten)


def check(cache: Cache, q: Any, **options: Any) -> None:
    """Against float64, and the same bits a second time."""
    call = {"cache_seqlens": cache.lengths, "block_table": cache.table, **options}
    o, lse = attention_decode(q, cache.k, cache.v, **call, return_lse=True)
    options.pop("splits", None)
    check_decoded(o, lse, q, cache, **{"causal": True, **options})
    assert torch.equal(attention_decode(q, cache.k, cache.v, **call), o), "another result the second time"


@pytest.mark.parametrize("page", [0, 16, 64, 256])
@pytest.mark.parametrize("dim", [64, 96, 128, 256])
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_it_is_right_for_any_lengths(dtype: Any, dim: int, page: int) -> None:
    cache = make_cache(LENGTHS, 2, dim, rows=768, page=page, dtype=dtype, rows_first=dim == 64)
    for queries in (1, 3):
        q = normal(len(LENGTHS), 8, queries, dim, dtype=dtype, seed=1)
        for splits in (None, 1, 2, 7):
            check(cache, q, splits=splits)


@pytest.mark.parametrize("heads", [(4, 4), (3, 1), (32, 2), (64, 1)], ids=str)
def test_shared_key_heads_are_right(heads: tuple[int, int]) -> None:
    cache = make_cache(LENGTHS, heads[1], 128, rows=768)
    check(cache, normal(len(LENGTHS), heads[0], 2, 128, seed=1))


@pytest.mark.parametrize(
    "options", [{"window": 100}, {"softcap": 5.0}, {"scale": 0.3}, {"causal": False}], ids=lambda it: next(iter(it))
)
def test_options_are_right(options: dict[str, Any]) -> None:
    cache = make_cache(LENGTHS, 2, 128, rows=768, page=64)
    check(cache, normal(len(LENGTHS), 8, 3, 128, seed=1), **options)


@pytest.mark.parametrize("page", [0, 64])
def test_new_keys_are_appended_and_seen(page: int) -> None:
    lengths, new = (700, 129, 128, 2, 64), 2
    cache = make_cache(lengths, 2, 128, rows=768, page=page)
    whole = cache.k.clone(), cache.v.clone()
    k, v = (torch.cat([it[:, :, -new:] for it in of]) for of in (cache.keys, cache.values))
    forget(cache, lengths, new, page)
    q = normal(len(lengths), 8, new, 128, seed=1)
    before = cache.lengths - new
    o, lse = attention_decode(q, cache.k, cache.v, k=k, v=v, cache_seqlens=before, block_table=cache.table,
                              return_lse=True)  # fmt: skip
    check_decoded(o, lse, q, cache, causal=True)
    for found, wanted in zip((cache.k, cache.v), whole, strict=True):
        assert torch.equal(found.nan_to_num(7.0), wanted.nan_to_num(7.0)), "something else was written too"


def test_it_is_traced_and_captured() -> None:
    cache = make_cache((700, 129), 2, 128, rows=768)
    q = normal(2, 8, 1, 128, seed=1)

    def model(q: Any, k: Any, v: Any, lengths: Any) -> Any:
        return attention_decode(q, k, v, cache_seqlens=lengths)

    wanted = model(q, cache.k, cache.v, cache.lengths)
    compiled = torch.compile(model, fullgraph=True)
    assert torch.equal(compiled(q, cache.k, cache.v, cache.lengths), wanted)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = model(q, cache.k, cache.v, cache.lengths)
    graph.replay()
    assert torch.equal(found, wanted)
