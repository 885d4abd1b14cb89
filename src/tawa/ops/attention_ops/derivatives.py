"""What the derivatives of the attention operators have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tawa.ops.calls.plain import is_plain


def keep(ctx: Any, tensors: Sequence[torch.Tensor | None], options: Sequence[Any]) -> None:
    """Saves Q, K, V, O, the logarithms and further tensors, and the options, for `gradients`."""
    ctx.set_materialize_grads(False)  # a materialised zero gradient of the logarithms would cost a pass over the rows
    ctx.save_for_backward(*tensors)
    ctx.options = options


def gradients(
    ctx: Any, do: torch.Tensor | None, dlse: torch.Tensor | None, run: Callable[..., Any], operator: Callable[..., Any]
) -> tuple[torch.Tensor, ...]:
    """dQ, dK and dV of a call that was kept.

    run: launches without the dispatcher. It is used if the call was plain, the gradients are plain tensors, too, and no
    derivative of them is wanted.
    """
    q, k, v, o, lse, *more = ctx.saved_tensors
    do = torch.zeros_like(o) if do is None else do
    plain = getattr(ctx, "plain", False) and not torch.is_grad_enabled()
    derive = run if plain and is_plain(do) and (dlse is None or is_plain(dlse)) else operator
    made: tuple[torch.Tensor, ...] = derive(do, dlse, q, k, v, o, lse, *more, *ctx.options)
    return made
