"""The attention operator on a GPU: against float64, PyTorch's own attention, opcheck and torch.compile.

Tolerances: outputs may be off by twice the error of the same attention in PyTorch, with weights rounded to the element
type of V. Gradients by four roundings of their largest element: of the weights, of dS, of O (in delta) and their own.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.kernels.attention.problem import Problem  # noqa: E402
from tawa.kernels.attention.reference import one_head  # noqa: E402
from tawa.kernels.gemm.reference import Exact, SamePrecision  # noqa: E402
from tawa.ops import attention  # noqa: E402
from tawa.ops import attention_launch as launching  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(180)]
HALF = (torch.float16, torch.bfloat16)
DIMS = (64, 96, 128, 256)
RAGGED = ((384, 384), (200, 333), (333, 200), (1, 333), (200, 1), (1, 1), (129, 127))
GROUPS = {"one": (4, 4), "gqa": (4, 2), "mqa": (3, 1)}


def normal(*shape: int, dtype: Any = torch.float16, seed: int = 0) -> Any:
    generator = torch.Generator(device="cuda").manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, device="cuda").to(dtype)


def triple(
    dim: int = 64, queries: int = 384, keys: int = 384, heads: tuple[int, int] = (4, 2), dtype: Any = torch.float16
) -> tuple[Any, Any, Any]:
    of_q, of_k = heads
    return (
        normal(2, of_q, queries, dim, dtype=dtype, seed=1),
        normal(2, of_k, keys, dim, dtype=dtype, seed=2),
        normal(2, of_k, keys, dim, dtype=dtype, seed=3),
    )


def expected(
    q: Any, k: Any, v: Any, arithmetic: Any, *, causal: bool = False, window: int = 0, softcap: float = 0.0,
    alibi: Any = None, diagonal: int = 0, scale: float | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """O and the natural logarithms of the sums."""
    batches, heads, queries, dim = q.shape
    scale = dim**-0.5 if scale is None else scale
    problem = Problem(batches, heads, k.shape[1], queries, k.shape[2], dim, scale, causal, window, diagonal, softcap,
                      alibi is not None, False)  # fmt: skip
    o = torch.empty(q.shape, dtype=arithmetic.dtype, device="cuda")
    lse = torch.empty(q.shape[:3], dtype=arithmetic.dtype, device="cuda")
    for b in range(batches):
        for h in range(heads):
            slope = alibi[h].to(arithmetic.dtype) if alibi is not None else 0.0
            of = h // problem.group
            o[b, h], lse[b, h] = one_head(problem, q[b, h], k[b, of], v[b, of], slope, diagonal, arithmetic)
    return o, lse * math.log(2)


def check(q: Any, k: Any, v: Any, **options: Any) -> None:
    o, lse = attention(q, k, v, return_lse=True, **options)
    exact, exact_lse = expected(q, k, v, Exact(), **options)
    peer, _ = expected(q, k, v, SamePrecision(), **options)
    allowed = 2 * (peer.to(o.dtype).double() - exact).abs().max().item()
    assert torch.isfinite(o).all()
    assert (o.double() - exact).abs().max().item() <= allowed
    torch.testing.assert_close(lse, exact_lse.float(), rtol=1e-4, atol=1e-4)


# --- forward ---


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("dtype", [*HALF, torch.float8_e4m3fn], ids=str)
def test_forward_is_right(dtype: Any, dim: int, causal: bool) -> None:
    check(*triple(dim, 300, 333, dtype=dtype), causal=causal)


@pytest.mark.parametrize("dim", [16, 32, 80, 160, 200])
def test_forward_is_right_for_head_dimensions_between_boxes(dim: int) -> None:
    check(*triple(dim), causal=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), RAGGED)
def test_forward_is_right_for_any_lengths(queries: int, keys: int, causal: bool) -> None:
    check(*triple(64, queries, keys), causal=causal)
    check(*triple(128, queries, keys), causal=causal, diagonal=keys - queries)


@pytest.mark.parametrize("heads", GROUPS.values(), ids=GROUPS)
def test_forward_is_right_for_shared_key_heads(heads: tuple[int, int]) -> None:
    check(*triple(128, heads=heads), causal=True)


@pytest.mark.parametrize(
    "options",
    [
        {"causal": True, "window": 100},
        {"causal": True, "window": 1},
        {"softcap": 5.0},
        {"causal": True, "softcap": 5.0, "window": 70},
        {"scale": 0.3},
        {"causal": True, "diagonal": -50},
        {"causal": True, "diagonal": 1000},
    ],
    ids=str,
)
def test_forward_is_right_under_every_option(options: dict[str, Any]) -> None:
    check(*triple(64, 300, 333), **options)


def test_forward_is_right_with_slopes() -> None:
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625], device="cuda")
    check(*triple(128), alibi=slopes)
    check(*triple(128), alibi=slopes, causal=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(384, 384), (200, 333), (333, 200)])
def test_it_stands_in_for_pytorch(queries: int, keys: int, causal: bool) -> None:
    q, k, v = triple(128, queries, keys)
    theirs = torch.nn.functional.scaled_dot_product_attention
    exact = theirs(q.double(), k.double(), v.double(), is_causal=causal, enable_gqa=True)
    peer, _ = expected(q, k, v, SamePrecision(), causal=causal)
    allowed = 2 * (peer.half().double() - exact).abs().max().item()
    assert (attention(q, k, v, causal=causal).double() - exact).abs().max().item() <= allowed


def test_views_of_projections_give_the_same_bits() -> None:
    whole = normal(2, 300, 3, 4, 64)
    q, k, v = (x.transpose(1, 2) for x in whole.unbind(2))
    assert torch.equal(attention(q, k, v), attention(q.contiguous(), k.contiguous(), v.contiguous()))
    expanded = k[:1, :1].expand_as(k)
    assert torch.equal(attention(q, expanded, v), attention(q, expanded.contiguous(), v))


def test_fp8_values_kept_transposed_give_the_same_bits() -> None:
    q, k, v = triple(128, dtype=torch.float8_e4m3fn)
    kept = v.mT.contiguous().mT
    assert torch.equal(attention(q, k, v), attention(q, k, kept))


def test_no_keys_give_zeros() -> None:
    q, k, v = triple(64, 10, 0)
    o, lse = attention(q, k, v, return_lse=True)
    assert not o.any() and (lse == float("-inf")).all()
    assert attention(*triple(64, 0, 10)).shape == (2, 4, 0, 64)


@pytest.mark.parametrize("causal", [False, True])
def test_head_dimension_128_is_specialised(causal: bool) -> None:
    attention(*triple(128), causal=causal)
    record = launching.attention_two_loops.last_kernel.metadata.tawa
    assert record["applied"], record["reason"]


# --- backward ---


def exact_gradients(
    q: Any, k: Any, v: Any, do: Any, dlse: Any, causal: bool, diagonal: int
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The derivatives in float64. Rows that see no key have none."""
    leaves = tuple(x.double().requires_grad_() for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    keys, values = (x.repeat_interleave(group, dim=1) for x in leaves[1:])
    s = leaves[0] @ keys.mT * q.shape[3] ** -0.5
    seen = torch.ones(s.shape[2:], dtype=torch.bool, device="cuda")
    if causal:
        seen = seen.tril(diagonal)
    some = seen.any(dim=1, keepdim=True)
    s = s.masked_fill(~seen & some, float("-inf")).masked_fill(~some, 0.0)
    lse = s.logsumexp(dim=3, keepdim=True)
    p = torch.exp(s - lse) * some
    loss = (p @ values * do).sum() + ((lse * some)[..., 0] * dlse).sum()
    return torch.autograd.grad(loss, leaves)


def check_gradients(q: Any, k: Any, v: Any, *, causal: bool, diagonal: int = 0, with_lse: bool = False) -> None:
    leaves = tuple(x.detach().clone().requires_grad_() for x in (q, k, v))
    o, lse = attention(*leaves, causal=causal, diagonal=diagonal, return_lse=True)
    do = normal(*o.shape, dtype=o.dtype, seed=4)
    dlse = normal(*lse.shape, dtype=torch.float32, seed=5) if with_lse else torch.zeros_like(lse)
    outputs, weights = ((o, lse), (do, dlse)) if with_lse else ((o,), (do,))
    found = torch.autograd.grad(outputs, leaves, weights)
    exact = exact_gradients(q, k, v, do, dlse, causal, diagonal)
    for name, got, wanted in zip(("dq", "dk", "dv"), found, exact, strict=True):
        allowed = 4 * torch.finfo(q.dtype).eps * wanted.abs().max().item()
        assert (got.double() - wanted).abs().max().item() <= allowed, name


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_gradients_are_right(dtype: Any, dim: int, causal: bool) -> None:
    check_gradients(*triple(dim, 300, 333, dtype=dtype), causal=causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), RAGGED)
def test_gradients_are_right_for_any_lengths(queries: int, keys: int, causal: bool) -> None:
    check_gradients(*triple(64, queries, keys), causal=causal)
    check_gradients(*triple(64, queries, keys), causal=causal, diagonal=keys - queries)


@pytest.mark.parametrize("heads", GROUPS.values(), ids=GROUPS)
def test_gradients_are_right_for_shared_key_heads(heads: tuple[int, int]) -> None:
    check_gradients(*triple(64, heads=heads), causal=True)


@pytest.mark.parametrize("causal", [False, True])
def test_the_logarithms_have_gradients_too(causal: bool) -> None:
    check_gradients(*triple(64, 200, 333), causal=causal, with_lse=True)


def test_a_gradient_that_is_a_view_is_copied() -> None:
    leaves = tuple(x.requires_grad_() for x in triple(64))
    attention(*leaves).sum().backward()  # its gradient is one number, expanded
    ones = torch.ones_like(leaves[0])
    exact = exact_gradients(*(x.detach() for x in leaves), ones, torch.zeros(ones.shape[:3], device="cuda"), False, 0)
    for leaf, wanted in zip(leaves, exact, strict=True):
        scale = max(wanted.abs().max().item(), 1.0)  # that of Q vanishes almost: the weights' sum is 1
        assert (leaf.grad.double() - wanted).abs().max().item() <= 4 * torch.finfo(leaf.dtype).eps * scale


# --- PyTorch around it ---


def test_results_repeat_bit_for_bit() -> None:
    def once() -> list[Any]:
        leaves = tuple(x.requires_grad_() for x in triple(128))
        o = attention(*leaves, causal=True)
        return [o, *torch.autograd.grad(o, leaves, normal(*o.shape, seed=4))]

    assert all(torch.equal(one, two) for one, two in zip(once(), once(), strict=True))


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_it_passes_opcheck(dtype: Any) -> None:
    from tawa.ops.attention_op import _forward

    leaves = tuple(x.requires_grad_() for x in triple(64, 130, 140, dtype=dtype))
    torch.library.opcheck(_forward, (*leaves, None, True, 10, 0, 0.125, 0.0))
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625], device="cuda")
    torch.library.opcheck(_forward, (*triple(64, 130, 140, dtype=dtype), slopes, True, 10, 50, 0.125, 20.0))


def test_its_derivative_passes_opcheck() -> None:
    from tawa.ops.attention_op import _backward, _forward

    q, k, v = triple(64, 130, 140)
    o, lse = _forward(q, k, v, None, True, 0, 0, 0.125, 0.0)
    torch.library.opcheck(_backward, (normal(*o.shape), None, q, k, v, o, lse, True, 0, 0.125))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_model_gives_the_same_bits(dynamic: bool) -> None:
    def model(q: Any, k: Any, v: Any) -> Any:
        return attention(q, k, v, causal=True, diagonal=k.shape[2] - q.shape[2])

    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic)
    for keys in (384, 300):
        ours, theirs = ([x.requires_grad_() for x in triple(128, 200, keys)] for _ in range(2))
        o, plain = compiled(*ours), model(*theirs)
        do = normal(*o.shape, seed=4)
        o.backward(do)
        plain.backward(do)
        assert torch.equal(o, plain)
        assert all(torch.equal(one.grad, two.grad) for one, two in zip(ours, theirs, strict=True))
