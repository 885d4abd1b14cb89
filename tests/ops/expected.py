"""What the attention operator must return: float64, and tolerances with their source. Inputs are made on DEVICE.

Outputs may be off by twice the error of the same attention in PyTorch, with weights rounded to the element type of V.
Gradients by four roundings (of the weights, of dS, of O in delta, and their own) of their largest element, or of what
cancels in dS = P * (dP - delta) where that is larger: with one key dS is 0, and so is the exact gradient.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from tests.cases.arithmetic import Exact, SamePrecision
from tests.cases.attention.problem import Problem
from tests.cases.attention.reference import one_head

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROUNDINGS = 4


def normal(*shape: int, dtype: Any = torch.float16, seed: int = 0) -> Any:
    """Random numbers that depend on the seed and the shape only."""
    generator = torch.Generator(device=DEVICE).manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, device=DEVICE).to(dtype)


def triple(
    dim: int = 64,
    queries: int = 384,
    keys: int = 384,
    heads: tuple[int, int] = (4, 2),
    dtype: Any = torch.float16,
    batches: int = 2,
) -> tuple[Any, Any, Any]:
    """Q, K and V."""
    of_q, of_k = heads
    return (
        normal(batches, of_q, queries, dim, dtype=dtype, seed=1),
        normal(batches, of_k, keys, dim, dtype=dtype, seed=2),
        normal(batches, of_k, keys, dim, dtype=dtype, seed=3),
    )


def spoiled(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """A tensor full of NaN, or of the largest integer: what a kernel has to overwrite."""
    value = math.nan if dtype.is_floating_point else torch.iinfo(dtype).max
    return torch.full(shape, value, dtype=dtype, device=like.device)


def amid_nan(tensor: Any) -> Any:
    """A view with the same elements, in the middle of a larger tensor of NaN; its rows fit TMA."""
    batches, heads, length, dim = tensor.shape
    whole = torch.full((batches, heads + 2, length + 80, dim + 32), math.nan, device=DEVICE).to(tensor.dtype)
    view = whole[:, 1:-1, 40:-40, 16:-16]
    return view.copy_(tensor)


def expected(
    q: Any, k: Any, v: Any, arithmetic: Any, *, causal: bool = False, window: int | None = None,
    softcap: float | None = None, alibi: Any = None, diagonal: int = 0, scale: float | None = None,
    factors: tuple[Any, Any, Any] = (None, None, None),
) -> tuple[Any, Any]:  # fmt: skip
    """O and the natural logarithms of the sums. factors: of Q, K and V; each broadcasts to (B, HK), or is None."""
    batches, heads, queries, dim = q.shape
    of_q, of_k, of_v = (torch.ones(k.shape[:2]) if it is None else it.expand(k.shape[:2]).cpu() for it in factors)
    scale = dim**-0.5 if scale is None else scale
    problem = Problem(batches, heads, k.shape[1], queries, k.shape[2], dim, scale, causal, window or 0, diagonal,
                      softcap or 0.0, alibi is not None, False)  # fmt: skip
    o = torch.empty((*q.shape[:3], v.shape[3]), dtype=arithmetic.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=arithmetic.dtype, device=q.device)
    for b in range(batches):
        for h in range(heads):
            slope = alibi[h].to(arithmetic.dtype) if alibi is not None else 0.0
            of = h // problem.group
            scaled = replace(problem, scale=scale * float(of_q[b, of] * of_k[b, of]))
            o[b, h], lse[b, h] = one_head(scaled, q[b, h], k[b, of], v[b, of], slope, diagonal, arithmetic)
            o[b, h] *= float(of_v[b, of])
    return o, lse * math.log(2)


def compare(what: str, found: Any, exact: Any, allowed: float) -> None:
    """Raises AssertionError unless all elements are finite and close; `exact` is in float64."""
    assert torch.isfinite(found).all(), f"{what}: not all finite, or not all written"
    error = (found.double() - exact).abs().max().item() if found.numel() else 0.0
    assert error <= allowed, f"{what}: off by {error:.3g}, allowed {allowed:.3g}"


def check_outputs(o: Any, lse: Any, q: Any, k: Any, v: Any, **options: Any) -> None:
    """`o` and the natural logarithms `lse` against float64."""
    what = f"q {tuple(q.shape)}, k {tuple(k.shape)}, {options}"
    exact, exact_lse = expected(q, k, v, Exact(), **options)
    peer, _ = expected(q, k, v, SamePrecision(), **options)
    compare(f"o of {what}", o, exact, 2 * (peer.to(o.dtype).double() - exact).abs().max().item())
    # Tensor cores add products of fp8 with about 14 bits (DeepSeek-V3, arXiv 2412.19437, section 3.3.2).
    close = 1e-4 if q.element_size() > 1 else 4e-3
    torch.testing.assert_close(
        lse, exact_lse.float(), rtol=close, atol=close, msg=lambda text: f"lse of {what}: {text}"
    )


def exact_gradients(
    q: Any, k: Any, v: Any, do: Any, dlse: Any, *, causal: bool = False, diagonal: int = 0, window: int | None = None,
    softcap: float | None = None, alibi: Any = None, scale: float | None = None,
) -> tuple[tuple[Any, Any, Any], float]:  # fmt: skip
    """The derivatives in float64, and the largest delta. Rows that see no key have none."""
    leaves = tuple(x.detach().double().requires_grad_() for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    keys, values = (x.repeat_interleave(group, dim=1) for x in leaves[1:])
    s = leaves[0] @ keys.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    rows, columns = (torch.arange(size, device=q.device) for size in s.shape[2:])
    ahead = columns[None, :] - rows[:, None] - diagonal
    if alibi is not None:
        s = s - alibi.double()[:, None, None] * ahead.abs()
    seen = ahead <= 0 if causal else torch.ones_like(ahead, dtype=torch.bool)
    if window:
        seen = seen & (ahead > -window)
    some = seen.any(dim=1, keepdim=True)
    s = s.masked_fill(~seen & some, float("-inf")).masked_fill(~some, 0.0)
    lse = s.logsumexp(dim=3, keepdim=True)
    o = (torch.exp(s - lse) * some) @ values
    loss = (o * do).sum()
    if dlse is not None:
        loss = loss + ((lse * some)[..., 0] * dlse).sum()
    return torch.autograd.grad(loss, leaves), (o * do).sum(dim=3).abs().max().item()


def check_gradients(found: Any, q: Any, k: Any, v: Any, do: Any, dlse: Any = None, **options: Any) -> None:
    """dQ, dK and dV against float64."""
    exact, delta = exact_gradients(q, k, v, do, dlse, **options)
    factor = delta * (options.get("scale") or q.shape[3] ** -0.5)
    cancels = (factor * k.double().abs().max().item(), factor * q.double().abs().max().item(), 0.0)
    for name, got, wanted, least in zip(("dq", "dk", "dv"), found, exact, cancels, strict=True):
        allowed = ROUNDINGS * torch.finfo(q.dtype).eps * max(wanted.abs().max().item(), least)
        compare(f"{name} of q {tuple(q.shape)}, k {tuple(k.shape)}, {options}", got, wanted, allowed)
