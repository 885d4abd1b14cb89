"""Attention over packed sequences on a GPU: every sequence against float64, amid NaN, under torch.compile, captured.

Every output is full of NaN before its kernel runs.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from bench.attention.backward import deterministic  # noqa: E402
from tawa.ops import attention, attention_varlen  # noqa: E402
from tawa.ops.attention_ops import varlen_backward  # noqa: E402
from tawa.ops.attention_ops import varlen_launch as launching  # noqa: E402
from tests.ops.expected import normal  # noqa: E402
from tests.ops.expected_varlen import (  # noqa: E402
    amid_nan,
    check_neighbours,
    check_packed_gradients,
    check_sequences,
    offsets,
    packed,
)

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

    for module in (launching, varlen_backward):
        monkeypatch.setattr(module, "unwritten", unwritten)


def check(tensors: tuple[Any, ...], **options: Any) -> None:
    """Every sequence against float64, amid NaN, and the same bits a second time."""
    longest = tuple(int(cu.diff().max()) for cu in tensors[3:])
    o, lse = attention_varlen(*tensors, *longest, return_lse=True, **options)
    check_sequences(o, lse, tensors, **options)
    assert torch.equal(attention_varlen(*tensors, *longest, **options), o), "another result the second time"
    for at in range(len(tensors[3]) - 1):
        if tensors[3][at] < tensors[3][at + 1]:
            check_neighbours(lambda *given: attention_varlen(*given, *longest, **options), tensors, at)


def check_gradients_too(tensors: tuple[Any, ...], with_lse: bool = False, **options: Any) -> None:
    """As `check`, and gradients: in any order four times, and with the same bits twice; one sequence amid NaN."""
    check(tensors, **options)
    longest = tuple(int(cu.diff().max()) for cu in tensors[3:])

    def forward(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        leaves = [x.detach().requires_grad_() for x in tensors[:3]]
        return leaves, *attention_varlen(*leaves, *tensors[3:], *longest, return_lse=True, **options)

    leaves, o, lse = forward(tensors)
    do, dlse = normal(*o.shape, dtype=o.dtype, seed=4), normal(*lse.shape, dtype=torch.float32, seed=5)
    outputs, weights = ((o, lse), (do, dlse)) if with_lse else ((o,), (do,))
    for _ in range(4):
        found = torch.autograd.grad(outputs, leaves, weights, retain_graph=True)
        check_packed_gradients(found, do, dlse if with_lse else None, tensors, **options)
    with deterministic():
        found, again = (torch.autograd.grad(outputs, leaves, weights, retain_graph=True) for _ in range(2))
        assert all(torch.equal(one, two) for one, two in zip(found, again, strict=True))
        check_packed_gradients(found, do, dlse if with_lse else None, tensors, **options)
        if with_lse:
            return
        for at in range(len(tensors[3]) - 1):
            amid = amid_nan(tensors, at)
            leaves, o, _ = forward(amid)
            of_amid = torch.full_like(o, math.nan)
            of_amid[amid[3][at] : amid[3][at + 1]] = do[tensors[3][at] : tensors[3][at + 1]]
            alone = torch.autograd.grad(o, leaves, of_amid)
            for got, wanted, cu, before in zip(alone, found, (amid[3], *amid[4:] * 2), (tensors[3], *tensors[4:] * 2),
                                               strict=True):  # fmt: skip
                own = got[cu[at] : cu[at + 1]]
                assert torch.equal(own, wanted[before[at] : before[at + 1]]), f"sequence {at} amid NaN"
                assert not got[: cu[0]].any() and not got[cu[-1] :].any(), "rows of no sequence"


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", [64, 96, 128, 192, 256])
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_it_is_right_for_any_lengths(dtype: Any, dim: int, causal: bool) -> None:
    for queries, keys in MIXES:
        check_gradients_too(packed(queries, keys, dim, dtype=dtype), causal=causal)


@pytest.mark.parametrize("heads", [(4, 4), (3, 1), (8, 2)], ids=["one_each", "mqa", "gqa_of_4"])
def test_shared_key_heads_are_right(heads: tuple[int, int]) -> None:
    check_gradients_too(packed(*MIXES[0], dim=128, heads=heads), with_lse=True, causal=True)


@pytest.mark.parametrize(("dim", "values"), [(192, 128), (160, 136), (128, 64), (64, 8)])
def test_values_may_have_a_smaller_head_dimension(dim: int, values: int) -> None:
    q, k, v, *offsets = packed(*MIXES[0], dim, heads=(4, 2))
    for causal in (False, True):
        check_gradients_too((q, k, v[..., :values], *offsets), causal=causal)


@pytest.mark.parametrize(
    "options",
    [{"causal": True, "window": 70}, {"causal": True, "window": 1}, {"softcap": 5.0}, {"scale": 0.3}],
    ids=str,
)
def test_every_option_is_right(options: dict[str, Any]) -> None:
    for queries, keys in MIXES[:3]:
        check_gradients_too(packed(queries, keys), **options)


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
