"""`tawa.ops.attention`: the attention kernels as PyTorch operators.

It has two operators of `torch.library`: ``tawa::attention`` (O and the base-2 logarithms of the sums) and
``tawa::attention_backward``. Both have a fake implementation, so that torch.compile traces calls without running them;
the first has an autograd formula.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import torch

from tawa.ops.attention_checks import check_options, check_tensors, no_gradient, why_no_gradient
from tawa.ops.attention_launch import LN_2, Mask, output_type, run_backward, run_forward
from tawa.ops.attention_tensors import new_like

_FORWARD_SCHEMA = (
    "(Tensor q, Tensor k, Tensor v, Tensor? alibi, bool causal, SymInt diagonal, int window, float scale, "
    "float softcap) -> (Tensor, Tensor)"
)
_BACKWARD_SCHEMA = (
    "(Tensor do, Tensor? dlse, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, bool causal, SymInt diagonal, "
    "float scale) -> (Tensor, Tensor, Tensor)"
)
Tensors = tuple[torch.Tensor, ...]


@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = ...,
    scale: float | None = ...,
    window: int | None = ...,
    softcap: float | None = ...,
    alibi: torch.Tensor | None = ...,
    diagonal: int = ...,
    return_lse: Literal[False] = ...,
) -> torch.Tensor: ...


@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = ...,
    scale: float | None = ...,
    window: int | None = ...,
    softcap: float | None = ...,
    alibi: torch.Tensor | None = ...,
    diagonal: int = ...,
    return_lse: Literal[True],
) -> tuple[torch.Tensor, torch.Tensor]: ...


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    alibi: torch.Tensor | None = None,
    diagonal: int = 0,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``softmax(mask(scale * Q @ K^T)) @ V``, as in `torch.nn.functional.scaled_dot_product_attention`.

    Args:
        q: (B, H, SQ, D) in float16, bfloat16 or float8_e4m3fn. D up to 256, a multiple of 16 bytes.
        k: (B, HK, SK, D); H is a multiple of HK, and H / HK query heads in a row share one key head.
        v: as k. In fp8 it is copied to (B, HK, D, SK), unless its keys are innermost in memory already.
        causal: a row sees the keys up to ``row + diagonal``.
        scale: a positive number; 1 / sqrt(D) if None.
        window: a row sees only the last `window` of those keys.
        softcap: scores become ``softcap * tanh(score / softcap)``.
        alibi: a float32 slope for each query head; ``slope * |row + diagonal - key|`` is subtracted from the scores.
        diagonal: 0 aligns the first query with the first key, as PyTorch does; SK - SQ aligns the last ones.
        return_lse: also return the natural logarithm of each row's sum, (B, H, SQ) in float32.

    Returns:
        O (B, H, SQ, D) in the type of q, in float16 for fp8. A row that sees no key is 0, and its logarithm -inf.

    Raises:
        ArgumentError: there is no kernel for a tensor or an option.
        DeviceError: the tensors are not on one CUDA device.
    """
    check_tensors(q, k, v)
    factor = q.shape[3] ** -0.5 if scale is None else float(scale)
    check_options(q, causal=causal, diagonal=diagonal, scale=factor, window=window, softcap=softcap, alibi=alibi)
    lacking = why_no_gradient(q, window or 0, softcap or 0.0, alibi)
    wanted = any(x.requires_grad for x in (q, k, v, alibi) if x is not None)
    if lacking and wanted and torch.is_grad_enabled():
        raise no_gradient(lacking)
    o, lse = _forward(q, k, v, alibi, causal, diagonal, window or 0, factor, float(softcap or 0.0))
    return (o, lse * LN_2) if return_lse else o


# --- the operators ---


def _run_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, alibi: torch.Tensor | None, causal: bool, diagonal: int,
    window: int, scale: float, softcap: float,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    return run_forward(q, k, v, alibi, Mask(causal, diagonal, window), scale, softcap)


def _run_backward(
    do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor,
    lse: torch.Tensor, causal: bool, diagonal: int, scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    return run_backward(do, dlse, q, k, v, o, lse, Mask(causal, diagonal), scale)


_forward: Any = torch.library.custom_op(
    "tawa::attention", _run_forward, mutates_args=(), device_types="cuda", schema=_FORWARD_SCHEMA
)
_backward: Any = torch.library.custom_op(
    "tawa::attention_backward", _run_backward, mutates_args=(), device_types="cuda", schema=_BACKWARD_SCHEMA
)


def _fake_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, alibi: torch.Tensor | None, *options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    return new_like(q, output_type(q.dtype)), torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)


def _fake_backward(
    do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any
) -> Tensors:
    return tuple(new_like(x, x.dtype) for x in (q, k, v))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Saves what the backward pass needs."""
    q, k, v, alibi, causal, diagonal, window, scale, softcap = inputs
    ctx.set_materialize_grads(False)  # a materialised zero gradient of the logarithms would cost a pass over the rows
    ctx.save_for_backward(q, k, v, *output)
    ctx.options = (causal, diagonal, scale)
    ctx.lacking = why_no_gradient(q, window, softcap, alibi)


def _derive(ctx: Any, do: torch.Tensor | None, dlse: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    if ctx.lacking:
        raise no_gradient(ctx.lacking)
    q, k, v, o, lse = ctx.saved_tensors
    do = torch.zeros_like(o) if do is None else do
    return (*_backward(do, dlse, q, k, v, o, lse, *ctx.options), *[None] * 6)


_forward.register_fake(_fake_forward)
_backward.register_fake(_fake_backward)
_forward.register_autograd(_derive, setup_context=_keep)
