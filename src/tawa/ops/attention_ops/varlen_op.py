"""`tawa.ops.attention_varlen`: attention over packed sequences as a PyTorch operator.

As `attention_op`: plain calls launch their kernel without the dispatcher, and all others go through the operator
``tawa::attention_varlen``, which has a fake implementation and an autograd formula.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import torch

from tawa.ops.attention_ops.checks import check_lengths, check_packed
from tawa.ops.attention_ops.derivatives import gradients, keep
from tawa.ops.attention_ops.launch import LN_2
from tawa.ops.attention_ops.options import Options, options_of
from tawa.ops.attention_ops.varlen_backward import run_varlen_backward
from tawa.ops.attention_ops.varlen_launch import Varlen, known_varlen, run_varlen
from tawa.ops.calls.autocast import autocast
from tawa.ops.calls.operators import defined, derived, not_derived
from tawa.ops.calls.plain import VALUES, KnownCalls, autograd_is_on, is_plain
from tawa.ops.calls.tensors import TMA_BYTES

_SCHEMA = (
    "attention_varlen(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, "
    "bool causal, int window, float scale, float softcap) -> (Tensor, Tensor)"
)
_BACKWARD_SCHEMA = (
    "attention_varlen_backward(Tensor do, Tensor? dlse, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, "
    "Tensor cu_seqlens_q, Tensor cu_seqlens_k, bool causal, int window, float scale, float softcap) "
    "-> (Tensor, Tensor, Tensor)"
)


@overload
def attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: bool = ...,
    scale: float | None = ...,
    window: int | None = ...,
    softcap: float | None = ...,
    return_lse: Literal[False] = ...,
) -> torch.Tensor: ...


@overload
def attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: bool = ...,
    scale: float | None = ...,
    window: int | None = ...,
    softcap: float | None = ...,
    return_lse: Literal[True],
) -> tuple[torch.Tensor, torch.Tensor]: ...


def attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Attention of every sequence to itself or to its own keys; sequences lie one after the other, without padding.

    Tensors and lengths have the names and the order of FlashAttention's `flash_attn_varlen_func`, options the names of
    `attention`. Lengths stay in GPU memory: the host does not wait for them, and they are not checked.

    Args:
        q: (total_q, H, D) in float16 or bfloat16. D up to 256, a multiple of 8.
        k: (total_k, HK, D); H is a multiple of HK, and H / HK query heads in a row share one key head.
        v: as k; its head dimension DV may be less than D.
        cu_seqlens_q: (sequences + 1,) int32: sequence s has the rows ``cu_seqlens_q[s] .. cu_seqlens_q[s + 1] - 1``.
            The offsets do not decrease, and the last is at most total_q.
        cu_seqlens_k: the same for the rows of k and v.
        max_seqlen_q: at least the length of the longest sequence of queries; 0 if there are no queries. No kernel needs
            more of it.
        max_seqlen_k: the same for keys.
        causal: a row sees the keys up to ``row + SK - SQ`` of its sequence: the last query sees the last key, as
            in FlashAttention since 2.1. With SQ > SK the first rows see no key.
        scale: a positive number; 1 / sqrt(D) if None.
        window: with `causal`, a row sees only the last `window` of its keys.
        softcap: scores become ``softcap * tanh(score / softcap)``.
        return_lse: also return the natural logarithm of each row's sum, (H, total_q) in float32.

    Returns:
        O (total_q, H, DV) in the type of q, contiguous. A row that sees no key is 0, and its logarithm -inf. Rows that
        belong to no sequence are left unwritten; the gradients in them are 0.

    Raises:
        ArgumentError: there is no kernel for a tensor or an option.
        DeviceError: the tensors are not on one CUDA device.
    """
    q, k, v = autocast(q, k, v)
    known: tuple[Any, ...] | None = None
    call = None
    if (
        is_plain(q, k, v, cu_seqlens_q, cu_seqlens_k)
        and type(max_seqlen_q) is int
        and type(max_seqlen_k) is int
        and VALUES.issuperset(map(type, (causal, scale, window, softcap)))
        and q.ndim == k.ndim == v.ndim == 3
    ):
        known = (
            q.shape[1:], k.shape[1:], v.shape[1:], q.stride(), k.stride(), v.stride(), q.dtype, k.dtype, v.dtype,
            cu_seqlens_q.shape, cu_seqlens_k.shape, cu_seqlens_q.stride(), cu_seqlens_k.stride(), cu_seqlens_q.dtype,
            cu_seqlens_k.dtype, q.device, k.device, v.device, cu_seqlens_q.device, cu_seqlens_k.device, causal, scale,
            window, softcap,
        )  # fmt: skip
        call = _calls.get(known)
    if call is None:
        check_packed(q, k, v, cu_seqlens_q, cu_seqlens_k)
        options = options_of(q, causal=causal, scale=scale, window=window, softcap=softcap)
        if known is None:  # through the operator: torch.compile traces it, transforms and modes see it
            check_lengths(q, k, v, max_seqlen_q, max_seqlen_k)
            o, lse = _forward(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, *options.flat)
            return (o, lse * LN_2) if return_lse else o
        call = _Call(options, known_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, options))
        if call.run is not None:
            _calls.keep(known, call)
    check_lengths(q, k, v, max_seqlen_q, max_seqlen_k)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad) and autograd_is_on():
        o, lse = _derivative.of(call, (q, k, v), cu_seqlens_q, cu_seqlens_k, max_seqlen_q, *call.options.flat)
    else:
        o, lse = call(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q)
    return (o, lse * LN_2) if return_lse else o


# --- calls that need no dispatcher ---


@dataclass(frozen=True, slots=True)
class _Call:
    """What calls on tensors that differ in their numbers of rows do; the arguments are valid.

    run: None if tensors may have to be copied, or are empty.
    """

    options: Options
    run: Varlen | None

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor,
        cu_seqlens_k: torch.Tensor, longest: int, *options: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        """O and the base-2 logarithms of the sums. options: those of the call."""
        aligned = (q.data_ptr() | k.data_ptr() | v.data_ptr()) % TMA_BYTES == 0
        if self.run is None or not (aligned and longest and q.shape[0] and k.shape[0]):
            return run_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, longest, *self.options.flat)
        return self.run(q, k, v, cu_seqlens_q, cu_seqlens_k)


_calls: KnownCalls[_Call] = KnownCalls()


# --- the operators ---


def _fake(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return q.new_empty((*q.shape[:2], v.shape[2])), q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)


def _fake_backward(
    do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any
) -> tuple[torch.Tensor, ...]:
    return tuple(x.new_empty(x.shape) for x in (q, k, v))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Saves what the backward pass needs."""
    q, k, v, cu_seqlens_q, cu_seqlens_k, _, *options = inputs
    keep(ctx, (q, k, v, *output, cu_seqlens_q, cu_seqlens_k), options)


def _derive(ctx: Any, do: torch.Tensor | None, dlse: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    """The gradients of a call."""
    return (*gradients(ctx, do, dlse, run_varlen_backward, _backward), *[None] * 7)


_forward: Any = defined(_SCHEMA, run_varlen, _fake)
_backward: Any = defined(_BACKWARD_SCHEMA, run_varlen_backward, _fake_backward)
_derivative = derived("attention_varlen", _derive, _keep)
not_derived("attention_varlen_backward", "attention_varlen")
