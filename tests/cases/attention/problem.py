"""The problem of an attention case, from its sizes, constexprs and arguments: lengths, heads, masks, modifiers.

Both references (`reference.py` in torch, `numpy_reference.py`) use it. Functions take arrays of either library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tests.cases.case import Number, Specimen

LOG2_E = math.log2(math.e)


def first_column(first_key: int, sequence: int) -> int:
    """Where the keys of a sequence begin in the transposed V of packed sequences (`varlen.py`)."""
    return first_key // 16 * 16 + 16 * sequence


def packed_rows(cu_q: Any, cu_k: Any) -> list[tuple[slice, slice]]:
    """The rows of each sequence of queries and of keys."""
    both = [[slice(int(one), int(two)) for one, two in pairwise(cu)] for cu in (cu_q, cu_k)]
    return list(zip(*both, strict=True))


def padded_start(begin: int, sequence: int) -> int:
    """Where the rows of a packed sequence begin in the workspace of the backward pass."""
    return (begin // 128 + sequence) * 128


def order_of_sums(rows: int, columns: int, singly: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dimensions in which 64 rows of dQ are taken apart, and their order in the sums: that of an accumulator.

    singly: a warp adds one number of each thread at a time.
    """
    beside = 8 // (rows // 16)
    bands = min(rows // 16, 4), 2, 8, beside, columns // (8 * beside), 4, 2
    return bands, (0, 4, 5, 1, 2, 7, 3, 6) if singly else (0, 4, 5, 1, 3, 6, 2, 7)


def into_order(case: Specimen, padded: Any) -> Any:
    """Rows of dQ (B, H, SP, D) in the order of the sums of a case."""
    bands, order = order_of_sums(case.size("BM"), case.size("D"), is_singly(case))
    return _permuted(padded.reshape(-1, *bands), order).reshape(case.shape("sums"))


def out_of_order(case: Specimen, sums: Any) -> Any:
    """The inverse of `into_order`: rows of D columns."""
    bands, order = order_of_sums(case.size("BM"), case.size("D"), is_singly(case))
    parts, inverse = sums.reshape(-1, *(bands[dim - 1] for dim in order[1:])), [order.index(dim) for dim in range(8)]
    return _permuted(parts, inverse).reshape(-1, case.size("D"))


def _permuted(parts: Any, order: Any) -> Any:
    """An array of NumPy, or a tensor, with its dimensions in another order."""
    return parts.transpose(order) if isinstance(parts, np.ndarray) else parts.permute(order)


def is_singly(case: Specimen) -> bool:
    """Whether sums are added one number of each thread at a time: integers, through pointers."""
    return bool(case.constexprs.get("SINGLY", case.constexprs.get("OWNED") and "steps" in case.tensors))


def steps_of_rows(do: Any, delta: Any, key: Any, value: Any) -> Any:
    """`steps_of` of the kernels. do: (…, rows, columns); delta: (…, rows); key, value: (…, 1)."""
    return 2.0**30 / (((do * do).sum(-1) ** 0.5 * value + abs(delta)) * key + 2.0**-90)


def factors_of(tensors: Any, batch: int, key_head: int) -> tuple[float, float]:
    """The factor of the scores and that of the output; 1 for tensors without factors."""
    if "q_factors" not in tensors:
        return 1.0, 1.0
    of_q, of_k, of_v = (float(tensors[f"{letter}_factors"][batch, key_head]) for letter in "qkv")
    return of_q * of_k, of_v


@dataclass(frozen=True, slots=True)
class Problem:
    """One attention problem. Head h of the queries uses head h // group of the keys.

    diagonal: a causal row sees keys up to row + diagonal. window: if not 0, a row sees only the last `window` of them.
    softcap: 0 for none. v_transposed: V is kept (B, HK, D, SK). v_reordered: with the keys of each 16 in another order.
    """

    batches: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    head_dim: int
    scale: float
    causal: bool
    window: int
    diagonal: int
    softcap: float
    alibi: bool
    v_transposed: bool
    v_reordered: bool = False

    @staticmethod
    def of(case: Specimen) -> Problem:
        """The problem of a case. The lengths of a packed one are the sums over all sequences."""
        parts = case.constexprs
        if "STAGE" in parts:
            causal = parts["STAGE"] == 3
        else:
            causal = bool(parts.get("CAUSAL", "diagonal" in case.arguments))
        return Problem(
            case.size("B"),
            case.size("H"),
            case.size("HK"),
            case.size("SQ"),
            case.size("SK"),
            case.size("DIM"),
            number(case, "scale"),
            causal,
            int(parts.get("WINDOW", 0)),
            case.size("DIAGONAL"),
            number(case, "softcap") if parts.get("SOFTCAP") else 0.0,
            bool(parts.get("ALIBI")),
            "v" in case.tensors and case.tensors["v"].shape[-1] not in ("DIM", "DIM_V"),
            parts.get("V_T") == 2,
        )

    @property
    def group(self) -> int:
        """How many query heads share one key head."""
        return self.heads // self.key_heads

    def visible(self, rows: Any, keys: Any, diagonal: int | None = None) -> Any:
        """Which keys each row sees; `rows` is a column, `keys` is a row of numbers."""
        last = rows + (self.diagonal if diagonal is None else diagonal)
        seen = (keys >= 0) & (rows >= 0)
        if self.causal:
            seen = seen & (keys <= last)
        if self.window:
            seen = seen & (keys > last - self.window)
        return seen

    def scores(self, products: Any, rows: Any, keys: Any, slope: Any, tanh: Any, diagonal: int | None = None) -> Any:
        """Base-2 scores from ``Q @ K^T``: scale, softcap, ALiBi with the head's slope."""
        s = products * self.scale
        if self.softcap:
            s = self.softcap * tanh(s / self.softcap)
        if self.alibi:
            s = s - slope * abs(rows + (self.diagonal if diagonal is None else diagonal) - keys)
        return s * LOG2_E

    def steepness(self, products: Any, tanh: Any) -> Any:
        """The derivative of the scores by the scaled products: 1 without a softcap."""
        return 1.0 - tanh(products * self.scale / self.softcap) ** 2 if self.softcap else 1.0


def number(case: Specimen, name: str) -> float:
    """A float argument; 1 if the kernel has no argument of the name."""
    argument = case.arguments.get(name, case.arguments.get(f"sm_{name}"))
    return float(argument.value) if isinstance(argument, Number) else 1.0
