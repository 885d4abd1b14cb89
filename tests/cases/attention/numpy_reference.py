"""What each attention case must compute, in NumPy: in float64, or rounded where the kernels round.

Rounded means: the weights P (relative to the maximum of the row) and dS are rounded to the element type of their dot,
and outputs to theirs; the rest stays float64. A result of the simulator may have at most twice the error of the rounded
reference against float64, as a result on a GPU may have at most twice that of PyTorch in the same precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tests.cases.attention.problem import LOG2_E, Problem, factors_of, first_column
from tests.cases.case import Specimen

Arrays = Mapping[str, Any]
Rounding = Callable[[Any, str], Any]
"""Rounds an array of float64 to an element type by Triton's name."""


def leave(values: Any, dtype: str) -> Any:
    """No rounding: everything in float64."""
    return values


def numpy_reference(case: Specimen, floats: Arrays, rounding: Rounding = leave) -> dict[str, Any]:
    """The outputs of a case by name, as float64 arrays; `floats` holds the inputs as float64, integers as they are."""
    found = _REFERENCES[case.reference](case, Problem.of(case), floats, rounding)
    return {
        name: rounding(value, case.tensors[name].dtype).reshape(case.shape(name))
        for name, value in found.items()
        if name in case.tensors
    }


def one_head(
    problem: Problem,
    q: Any,
    k: Any,
    v: Any,
    slope: float,
    diagonal: int,
    round_weights: Callable[[Any], Any],
    bias: Any = 0.0,
) -> tuple[Any, Any]:
    """Output and base-2 logarithm of the sums of one head; 0 and -inf for a row that sees no key."""
    rows, keys = np.arange(q.shape[0])[:, None], np.arange(k.shape[0])[None, :]
    s = problem.scores(q @ k.T, rows, keys, slope, np.tanh, diagonal) + bias * LOG2_E
    s = np.where(problem.visible(rows, keys, diagonal), s, -np.inf)
    most = s.max(axis=1, keepdims=True)
    most = np.where(np.isinf(most), 0.0, most)
    p = np.exp2(s - most)
    total = p.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (most + np.log2(total))[:, 0]
    return round_weights(p) @ v / np.where(total == 0, 1.0, total), lse


def _slope(floats: Arrays, problem: Problem, h: int) -> float:
    return float(floats["slopes"][h]) if problem.alibi else 0.0


def _values(problem: Problem, floats: Arrays) -> Any:
    """V as (B, HK, SK, D)."""
    if not problem.v_transposed:
        return floats["v"].reshape(problem.batches, problem.key_heads, problem.keys, -1)
    v = floats["v"].reshape(problem.batches, problem.key_heads, problem.head_dim, -1)
    if problem.v_reordered:  # place 4q + 2j + c has key 8j + 2q + c
        v = v.reshape(*v.shape[:3], -1, 4, 2, 2).swapaxes(4, 5).reshape(v.shape)
    return v[..., : problem.keys].swapaxes(2, 3)


def _attention(case: Specimen, problem: Problem, floats: Arrays, rounding: Rounding) -> dict[str, Any]:
    q = floats["q"].reshape(problem.batches, problem.heads, problem.queries, problem.head_dim)
    k = floats["k"].reshape(problem.batches, problem.key_heads, problem.keys, problem.head_dim)
    v = _values(problem, floats)
    o, lse = np.empty((*q.shape[:3], v.shape[3])), np.empty(q.shape[:3])
    for b in range(problem.batches):
        for h in range(problem.heads):
            of = h // problem.group
            of_scores, of_values = factors_of(floats, b, of)
            o[b, h], lse[b, h] = one_head(
                replace(problem, scale=problem.scale * of_scores),
                q[b, h],
                k[b, of],
                v[b, of],
                _slope(floats, problem, h),
                problem.diagonal,
                lambda p: rounding(p, case.tensors["v"].dtype),
                floats["bias"][h] if "bias" in floats else 0.0,
            )
            o[b, h] *= of_values
    return {"o": o, "lse": lse}


def _packed(case: Specimen, problem: Problem, floats: Arrays, rounding: Rounding) -> dict[str, Any]:
    v = floats["v"].transpose(2, 0, 1) if problem.v_transposed else floats["v"]
    rows, heads, _ = floats["q"].shape
    o, lse = np.empty((rows, heads, v.shape[2])), np.empty((heads, rows))
    cu_q, cu_k = floats["cu_q"], floats["cu_k"]
    for b in range(problem.batches):
        rows, keys = slice(cu_q[b], cu_q[b + 1]), slice(cu_k[b], cu_k[b + 1])
        count, begin = int(cu_k[b + 1] - cu_k[b]), int(cu_k[b])
        begin = first_column(begin, b) if problem.v_transposed else begin
        values = slice(begin, begin + count)
        diagonal = int(count - (rows.stop - rows.start))
        for h in range(problem.heads):
            of = h // problem.group
            o[rows, h], lse[h, rows] = one_head(
                problem,
                floats["q"][rows, h],
                floats["k"][keys, of],
                v[values, of],
                0.0,
                diagonal,
                lambda p: rounding(p, case.tensors["v"].dtype),
            )
    return {"o": o, "lse": lse}


def _row_sums(case: Specimen, problem: Problem, floats: Arrays, rounding: Rounding) -> dict[str, Any]:
    return {"delta": (floats["o"] * floats["do"]).sum(axis=3)}


def _backward(case: Specimen, problem: Problem, floats: Arrays, rounding: Rounding) -> dict[str, Any]:
    q, k, v, do = (floats[name] for name in ("q", "k", "v", "do"))
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    rows, keys = np.arange(problem.queries)[:, None], np.arange(problem.keys)[None, :]
    dtype = case.tensors["q"].dtype
    for b in range(problem.batches):
        for h in range(problem.heads):
            of = h // problem.group
            s = q[b, h] @ k[b, of].T * (problem.scale * LOG2_E) - floats["lse"][b, h][:, None]
            p = np.where(problem.visible(rows, keys), np.exp2(s), 0.0)
            ds = rounding(p * (do[b, h] @ v[b, of].T - floats["delta"][b, h][:, None]), dtype)
            dv[b, of] += rounding(p, dtype).T @ do[b, h]
            dk[b, of] += ds.T @ q[b, h] * problem.scale
            dq[b, h] = ds @ k[b, of] * problem.scale
    return {"dq": dq, "dk": dk, "dv": dv}


_REFERENCES: dict[str, Callable[[Specimen, Problem, Arrays, Rounding], dict[str, Any]]] = {
    "attention": _attention,
    "attention_packed": _packed,
    "attention_row_sums": _row_sums,
    "attention_backward": _backward,
}
