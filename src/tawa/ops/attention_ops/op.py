"""`tawa.ops.attention`: the attention kernels as PyTorch operators.

A call from eager PyTorch, on ordinary tensors, launches its kernel without PyTorch's dispatcher (`attention_plain`);
what was checked and decided for tensors of one shape and layout is kept. All other calls go through two operators of
`torch.library`: ``tawa::attention`` (O and the base-2 logarithms of the sums) and ``tawa::attention_backward``. Both
have a fake implementation, so that torch.compile traces calls without running them; the first has an autograd formula.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import torch

from tawa.ops.attention_ops.backward_launch import run_backward
from tawa.ops.attention_ops.checks import check_factors, check_output, check_tensors, no_gradient, why_no_gradient
from tawa.ops.attention_ops.derivatives import gradients, keep
from tawa.ops.attention_ops.launch import (
    LN_2,
    NO_FACTORS,
    Factors,
    Forward,
    known_forward,
    output_type,
    run_forward,
)
from tawa.ops.attention_ops.options import Options, options_of
from tawa.ops.attention_ops.tensors import new_like
from tawa.ops.attention_ops.tiles import Mask
from tawa.ops.calls.autocast import autocast
from tawa.ops.calls.operators import defined, derived, not_derived
from tawa.ops.calls.plain import VALUES, KnownCalls, autograd_is_on, is_plain
from tawa.ops.calls.tensors import TMA_BYTES, traced

_FORWARD_SCHEMA = (
    "(Tensor q, Tensor k, Tensor v, Tensor? alibi, Tensor? q_descale, Tensor? k_descale, Tensor? v_descale, "
    "bool causal, SymInt diagonal, int window, float scale, float softcap, ScalarType? out_dtype) -> (Tensor, Tensor)"
)
_BACKWARD_SCHEMA = (
    "(Tensor do, Tensor? dlse, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor? alibi, bool causal, "
    "SymInt diagonal, int window, float scale, float softcap) -> (Tensor, Tensor, Tensor)"
)
Tensors = tuple[torch.Tensor, ...]
_FACTORS = "q_descale", "k_descale", "v_descale"


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
    q_descale: torch.Tensor | None = ...,
    k_descale: torch.Tensor | None = ...,
    v_descale: torch.Tensor | None = ...,
    out_dtype: torch.dtype | None = ...,
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
    q_descale: torch.Tensor | None = ...,
    k_descale: torch.Tensor | None = ...,
    v_descale: torch.Tensor | None = ...,
    out_dtype: torch.dtype | None = ...,
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
    q_descale: torch.Tensor | None = None,
    k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``softmax(mask(scale * Q @ K^T)) @ V``, as in `torch.nn.functional.scaled_dot_product_attention`.

    Args:
        q: (B, H, SQ, D) in float16, bfloat16, float8_e4m3fn or float8_e5m2. D up to 256, a multiple of 16 bytes.
        k: (B, HK, SK, D); H is a multiple of HK, and H / HK query heads in a row share one key head.
        v: as k; its head dimension DV may be less than D. In fp8 it is copied to (B, HK, DV, SK), unless its keys are
            innermost in memory already.
        causal: a row sees the keys up to ``row + diagonal``.
        scale: a positive number; 1 / sqrt(D) if None.
        window: a row sees only the last `window` of those keys.
        softcap: scores become ``softcap * tanh(score / softcap)``.
        alibi: a float32 slope for each query head; ``slope * |row + diagonal - key|`` is subtracted from the scores.
            The slopes have no gradient.
        diagonal: 0 aligns the first query with the first key, as PyTorch does; SK - SQ aligns the last ones.
        q_descale: positive float32 factors of q in fp8: one, one for each of the HK key heads, or (B, HK). Query heads
            that share a key head share its factor.
        k_descale: those of k.
        v_descale: those of v.
        out_dtype: the type of O: float16 or bfloat16 for fp8; None: that of q, float16 for fp8.
        return_lse: also return the natural logarithm of each row's sum, (B, H, SQ) in float32.

    Returns:
        O (B, H, SQ, DV) in `out_dtype`. A row that sees no key is 0, and its logarithm -inf.

    Raises:
        ArgumentError: there is no kernel for a tensor or an option.
        DeviceError: the tensors are not on one CUDA device.
    """
    q, k, v = autocast(q, k, v)
    known: tuple[Any, ...] | None = None
    call, factors = None, NO_FACTORS
    if q_descale is not None or k_descale is not None or v_descale is not None:
        factors = q_descale, k_descale, v_descale
    if alibi is None and is_plain(q, k, v) and VALUES.issuperset(map(type, (causal, scale, window, softcap, diagonal))):
        known = (
            q.shape, k.shape, v.shape, q.stride(), k.stride(), v.stride(), q.dtype, k.dtype, v.dtype,
            q.device, k.device, v.device, causal, scale, window, softcap, diagonal, out_dtype,
        )  # fmt: skip
        if factors is not NO_FACTORS:
            known = _with_factors(known, factors)
        call = _calls.get(known)
    if call is None:
        check_tensors(q, k, v)
        options = options_of(
            q, causal=causal, scale=scale, window=window, softcap=softcap, diagonal=diagonal, alibi=alibi
        )
        check_factors(q, k, dict(zip(_FACTORS, factors, strict=True)))
        check_output(q, out_dtype)
        if known is None:
            return _by_dispatcher(q, k, v, alibi, options, factors, out_dtype, return_lse)
        call = _calls.keep(known, _call_of(q, k, v, options, out_dtype))
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad) and autograd_is_on():
        if call.lacking:
            raise no_gradient(call.lacking)
        o, lse = _derivative.of(call.plainly, (q, k, v), *call.rest)
    else:
        o, lse = call(q, k, v, factors)
    return (o, lse * LN_2) if return_lse else o


def _with_factors(known: tuple[Any, ...], factors: Factors) -> tuple[Any, ...] | None:
    """What decides over a call with factors, too; None if the dispatcher would do anything with them."""
    given = [it for it in factors if it is not None]
    if not is_plain(*given):
        return None
    about = (it if it is None else (it.shape, it.stride(), it.dtype, it.device) for it in factors)
    return (*known, *about)


def _by_dispatcher(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, alibi: torch.Tensor | None, options: Options, factors: Factors,
    out_dtype: torch.dtype | None, return_lse: bool,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """A call with valid arguments, through the operator: torch.compile traces it, transforms and modes see it."""
    lacking = why_no_gradient(q, alibi is not None and alibi.requires_grad)
    wanted = any(x.requires_grad for x in (q, k, v, alibi) if x is not None)
    if lacking and wanted and torch.is_grad_enabled():
        raise no_gradient(lacking)
    o, lse = _forward(q, k, v, alibi, *factors, *options.mask, options.scale, options.softcap, out_dtype)
    return (o, lse * LN_2) if return_lse else o


# --- calls that need no dispatcher ---


@dataclass(frozen=True, slots=True)
class _Call:
    """What calls on tensors of one shape and layout with the same options do; the arguments are valid.

    forward: None if the tensors may have to be copied. lacking: why there is no gradient; empty if there is one.
    output: the type of O; None: the usual one. rest: the inputs of the operator behind Q, K and V, without factors.
    """

    options: Options
    forward: Forward | None
    lacking: str
    output: torch.dtype | None
    rest: tuple[Any, ...]

    def plainly(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any) -> tuple[Any, ...]:
        """As the call, with the inputs of the operator."""
        return self(q, k, v)

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, factors: Factors = NO_FACTORS
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """O and the base-2 logarithms of the sums."""
        if self.forward is None or (q.data_ptr() | k.data_ptr() | v.data_ptr()) % TMA_BYTES:
            return run_forward(q, k, v, None, self.options, factors, self.output)
        return self.forward(q, k, v, None)


def _call_of(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, options: Options, out_dtype: torch.dtype | None
) -> _Call:
    """What a call with valid arguments does."""
    rest = None, *NO_FACTORS, *options.mask, options.scale, options.softcap, out_dtype
    return _Call(options, known_forward(q, k, v, options), why_no_gradient(q, of_slopes=False), out_dtype, rest)


_calls: KnownCalls[_Call] = KnownCalls()


# --- the operators ---


def _run_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, alibi: torch.Tensor | None, q_descale: torch.Tensor | None,
    k_descale: torch.Tensor | None, v_descale: torch.Tensor | None, causal: bool, diagonal: int, window: int,
    scale: float, softcap: float, out_dtype: torch.dtype | None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    options, factors = Options(Mask(causal, diagonal, window), scale, softcap), (q_descale, k_descale, v_descale)
    return run_forward(q, k, v, alibi, options, factors, out_dtype)


def _run_backward(
    do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor,
    lse: torch.Tensor, alibi: torch.Tensor | None, causal: bool, diagonal: int, window: int, scale: float,
    softcap: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    options = Options(Mask(causal, diagonal, window), scale, softcap)
    return run_backward(do, dlse, q, k, v, o, lse, alibi, options)


def _fake_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, alibi: torch.Tensor | None, *options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    o = new_like(q, options[-1] or output_type(q.dtype), v.shape[3], traced)
    return o, torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)


def _fake_backward(
    do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any
) -> Tensors:
    return tuple(new_like(x, x.dtype, None, traced) for x in (q, k, v))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Saves what the backward pass needs."""
    q, k, v, alibi, _, _, _, causal, diagonal, window, scale, softcap, _ = inputs
    keep(ctx, (q, k, v, *output, alibi), (causal, diagonal, window, scale, softcap))
    ctx.lacking = why_no_gradient(q, alibi is not None and ctx.needs_input_grad[3])


def _derive(ctx: Any, do: torch.Tensor | None, dlse: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    """The gradients of a call."""
    if ctx.lacking:
        raise no_gradient(ctx.lacking)
    return (*gradients(ctx, do, dlse, _run_backward, _backward), *[None] * 10)


_forward: Any = defined(f"attention{_FORWARD_SCHEMA}", _run_forward, _fake_forward)
_backward: Any = defined(f"attention_backward{_BACKWARD_SCHEMA}", _run_backward, _fake_backward)
_derivative = derived("attention", _derive, _keep)
not_derived("attention_backward", "attention")
