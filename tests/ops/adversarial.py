"""Inputs that sums of dQ in whole numbers must bear: at their bound, of very different sizes, not finite.

Each case changes random Q, K, V and dO in place. Where numbers are not finite, the gradients of the rows that see them
must not be, either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from tests.ops.expected import check_gradients, normal, triple

ROW = 140
"""The query or key that is special: in the second block."""


def _at_the_bound(q: Any, k: Any, v: Any, do: Any) -> None:
    """Equal weights; where V is along dO, K has one sign, and elsewhere the other: no sum is larger."""
    q.zero_()
    v.copy_(torch.ones_like(v))
    v[..., ::2, :] *= -1
    k.copy_(torch.ones_like(k) * 3)
    k[..., ::2, :] *= -1
    do.copy_(torch.ones_like(do))


def _one_sign(q: Any, k: Any, v: Any, do: Any) -> None:
    for it in (k, v, do):
        it.copy_(it.abs())


def _heavy_tails(q: Any, k: Any, v: Any, do: Any) -> None:
    """Student's t with three degrees of freedom, roughly: a normal number over the mean square of three."""
    for seed, it in enumerate((k, v, do)):
        squares = normal(3, *it.shape, dtype=torch.float32, seed=11 + seed).square().mean(dim=0)
        it.copy_(it / squares.sqrt().to(it.dtype))


def _scaled(factor: float) -> Callable[..., None]:
    def change(q: Any, k: Any, v: Any, do: Any) -> None:
        do.mul_(factor)

    return change


def _huge_row(q: Any, k: Any, v: Any, do: Any) -> None:
    do[..., ROW, :] *= 1000


def _subnormal_row(q: Any, k: Any, v: Any, do: Any) -> None:
    do[..., ROW, :] *= torch.finfo(do.dtype).smallest_normal / 8


def _huge_key(q: Any, k: Any, v: Any, do: Any) -> None:
    k[..., ROW, 5] = 60
    v[..., ROW, :] *= 30


FINITE: dict[str, Callable[..., None]] = {
    "at_the_bound": _at_the_bound,
    "one_sign": _one_sign,
    "heavy_tails": _heavy_tails,
    "zeros": _scaled(0.0),
    "negative_zeros": _scaled(-0.0),
    "small": _scaled(2.0**-6),
    "subnormal_row": _subnormal_row,
    "huge_row": _huge_row,
    "huge_key": _huge_key,
}
NOT_FINITE: dict[str, tuple[int, int | None, float]] = {
    "nan_do": (3, None, math.nan),
    "inf_do": (3, 7, math.inf),
    "nan_v": (2, 7, math.nan),
    "inf_v": (2, None, -math.inf),
    "nan_k": (1, 7, math.nan),
    "inf_k": (1, 7, math.inf),
    "nan_q": (0, 7, math.nan),
    "inf_q": (0, None, math.inf),
    "overflow": (3, None, 60000.0),
}
"""The tensor, of Q, K, V and dO, the column or None for all, and the number in ROW."""
CASES = (*FINITE, *NOT_FINITE)


def check_adversarial(name: str, run: Callable[..., Any], dim: int, length: int, dtype: Any, causal: bool) -> None:
    """Raises AssertionError if gradients are wrong, or finite where they cannot be.

    run: called with Q, K, V, dO and `causal`; returns dQ, dK and dV.
    """
    q, k, v = triple(dim, length, length, heads=(2, 1), dtype=dtype, batches=1)
    do = normal(*q.shape, dtype=dtype, seed=4)
    if name in FINITE:
        FINITE[name](q, k, v, do)
        check_gradients(run(q, k, v, do, causal), q, k, v, do, causal=causal)
        return
    which, column, number = NOT_FINITE[name]
    given = (q, k, v, do)[which]
    given[..., ROW, slice(None) if column is None else column] = number
    if name == "overflow":  # of dS in float16; bfloat16 holds it
        v *= 1000  # one of 4096 keys is enough
        k /= 1024  # what dQ would hide is finite
        if dtype != torch.float16:
            check_gradients(run(q, k, v, do, causal), q, k, v, do, causal=causal)
            return
    dq, dk, _ = run(q, k, v, do, causal)
    # A row of Q or dO is seen by itself, a key by all rows, or by those from its own on.
    own = slice(ROW, ROW + 1) if which in (0, 3) else slice(ROW if causal else 0, None)
    assert not dq[..., own, :].isfinite().any(), "rows of dQ hide a number that is not finite"
    assert not dk.isfinite().all(), "dK hides a number that is not finite"
    if causal and dtype != torch.float16:  # which has dQ of NaN wherever dK is not finite
        assert dq[..., :128, :].isfinite().all(), "a number reaches rows in other blocks"
