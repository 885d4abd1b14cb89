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
    ctx: Any, do: torch.Tensor | None, dlse: torch.Tensor | None, run: Callable[..., Any] | None,
    operator: Callable[..., Any],
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """dQ, dK and dV of a call that was kept.

    run: launches without the dispatcher; it is used if the gradients are plain tensors too. None: never.
    """
    q, k, v, o, lse, *more = ctx.saved_tensors
    do = torch.zeros_like(o) if do is None else do
    derive = run if run is not None and is_plain(do) and (dlse is None or is_plain(dlse)) else operator
    made: tuple[torch.Tensor, ...] = derive(do, dlse, q, k, v, o, lse, *more, *ctx.options)
    return made


def no_second(name: str) -> Callable[..., None]:
    """The derivative of a backward operator, which raises. name: of the public function."""

    def derive(ctx: Any, *gradients: Any) -> None:
        raise RuntimeError(f"tawa.ops.{name}: there are no second derivatives; cure: create_graph=False")

    return derive
