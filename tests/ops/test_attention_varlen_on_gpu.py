"""Attention over packed sequences on a GPU: every sequence against float64, amid NaN, under torch.compile, captured.

Every output is full of NaN before its kernel runs.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.ops import attention, attention_varlen  # noqa: E402
from tawa.ops.attention_ops import varlen_launch as launching  # noqa: E402
from tests.ops.expected import normal  # noqa: E402
from tests.ops.expected_varlen import check_neighbours, check_sequences, offsets, packed  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(180)]
HALF = (torch.float16, torch.bfloat16)
MIXES = (
    ((1, 127, 0, 128, 129, 300), (128, 0, 33, 129, 127, 333)),
    ((1, 127, 128, 129, 300, 0), (1, 127, 128, 129, 300, 0)),
    ((300, 10, 1), (3, 1, 1)),
    ((1, 1, 2), (700, 129, 1)),
    ((1024,), (1024,)),
)


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwritten(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.full(shape, math.nan, dtype=dtype, device=like.device)

    monkeypatch.setattr(launching, "unwritten", unwritten)


def check(tensors: tuple[Any, ...], **options: Any) -> None:
    """Every sequence against float64, amid NaN, and the same bits a second time."""
    longest = tuple(int(cu.diff().max()) for cu in tensors[3:])
    o, lse = attention_varlen(*tensors, *longest, return_lse=True, **options)
    check_sequences(o, lse, tensors, **options)
    assert torch.equal(attention_varlen(*tensors, *longest, **options), o), "another result the second time"
    for at in range(len(tensors[3]) - 1):
        if tensors[3][at] < tensors[3][at + 1]:
            check_neighbours(lambda *given: attention_varlen(*given, *longest, **options), tensors, at)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", [64, 96, 128, 192, 256])
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_it_is_right_for_any_lengths(dtype: Any, dim: int, causal: bool) -> None:
    for queries, keys in MIXES:
        check(packed(queries, keys, dim, dtype=dtype), causal=causal)


@pytest.mark.parametrize("heads", [(4, 4), (3, 1), (8, 2)], ids=["one_each", "mqa", "gqa_of_4"])
def test_shared_key_heads_are_right(heads: tuple[int, int]) -> None:
    check(packed(*MIXES[0], dim=128, heads=heads), causal=True)


@pytest.mark.parametrize(("dim", "values"), [(192, 128), (160, 136), (128, 64), (64, 8)])
def test_values_may_have_a_smaller_head_dimension(dim: int, values: int) -> None:
    q, k, v, *offsets = packed(*MIXES[0], dim, heads=(4, 2))
    for causal in (False, True):
        check((q, k, v[..., :values], *offsets), causal=causal)


@pytest.mark.parametrize(
    "options",
    [{"causal": True, "window": 70}, {"causal": True, "window": 1}, {"softcap": 5.0}, {"scale": 0.3}],
    ids=str,
)
def test_every_option_is_right(options: dict[str, Any]) -> None:
    for queries, keys in MIXES[:3]:
        check(packed(queries, keys), **options)


def test_many_sequences_are_right_and_specialised() -> None:
    lengths = tuple(100 + 37 * at % 900 for at in range(40))
    tensors = packed(lengths, lengths, 128, heads=(16, 4))
    o, lse = attention_varlen(*tensors, 1000, 1000, causal=True, return_lse=True)
    check_sequences(o, lse, tensors, causal=True)
    if torch.cuda.get_device_capability() == (9, 0):
        record = launching.attention_varlen.last_kernel.metadata.tawa
        assert record["applied"], record["reason"]


def test_sequences_of_one_length_give_what_attention_gives() -> None:
    q, k, v, cu, _ = packed((384,) * 4, (384,) * 4, 64)
    batched = attention(*(x.unflatten(0, (4, 384)).transpose(1, 2) for x in (q, k, v)), causal=True)
    torch.testing.assert_close(
        attention_varlen(q, k, v, cu, cu, 384, 384, causal=True), batched.transpose(1, 2).flatten(0, 1)
    )


def test_views_of_projections_give_the_same_bits() -> None:
    whole, cu = normal(500, 3, 4, 64), offsets((100, 1, 399))
    q, k, v = whole.unbind(1)
    o = attention_varlen(q, k, v, cu, cu, 399, 399, causal=True)
    assert torch.equal(o, attention_varlen(*(x.contiguous() for x in (q, k, v)), cu, cu, 399, 399, causal=True))
    odd = normal(500, 4, 65)[..., 1:]
    assert torch.equal(attention_varlen(odd, k, v, cu, cu, 399, 399),
                       attention_varlen(odd.contiguous(), k, v, cu, cu, 399, 399))  # fmt: skip


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_it_passes_opcheck(dtype: Any) -> None:
    from tawa.ops.attention_ops.varlen_op import _forward

    torch.library.opcheck(_forward, (*packed((100, 30), (90, 40), dtype=dtype), 100, True, 0, 0.125, 0.0))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_compiled_model_gives_the_same_bits(dynamic: bool) -> None:
    def model(q: Any, k: Any, v: Any, cu_q: Any, cu_k: Any, longest: int) -> Any:
        return attention_varlen(q, k, v, cu_q, cu_k, longest, longest, causal=True)

    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic)
    for queries in ((100, 30, 250), (70, 200)):
        now = packed(queries, queries)
        assert torch.equal(compiled(*now, max(queries)), model(*now, max(queries)))


def test_a_captured_graph_follows_the_offsets() -> None:
    q, k, v, cu, _ = packed((100, 284), (100, 284))
    attention_varlen(q, k, v, cu, cu, 384, 384, causal=True)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = attention_varlen(q, k, v, cu, cu, 384, 384, causal=True)
    for lengths in ((100, 284), (384, 0), (1, 383)):
        cu.copy_(offsets(lengths))
        graph.replay()
        assert torch.equal(o, attention_varlen(q, k, v, cu, cu, 384, 384, causal=True))
