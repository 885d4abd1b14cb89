"""The problem of an attention case, from its sizes, constexprs and arguments: lengths, heads, masks, modifiers.

Both references (`reference.py` in torch, `numpy_reference.py`) use it. Methods take rows and keys as arrays of either
library, because they use operators only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

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


def order_of_sums(rows: int, columns: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dimensions in which 64 rows of dQ are taken apart, and those of the sums: the order of an accumulator."""
    beside = 8 // (rows // 16)
    bands = min(rows // 16, 4), 2, 8, beside, columns // (8 * beside), 4, 2
    return bands, tuple(bands[dim] for dim in (3, 4, 0, 2, 5, 1, 6))


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
