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

from tests.cases.attention.problem import (
    LOG2_E,
    Problem,
    factors_of,
    first_column,
    into_order,
    out_of_order,
    packed_rows,
    padded_start,
    steps_of_rows,
)
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


def _gradient_rows(case: Specimen, problem: Problem, floats: Arrays, rounding: Rounding) -> dict[str, Any]:
    rows = (floats["o"] * floats["do"]).sum(axis=3) - floats.get("dlse", 0.0)
    padding = ((0, 0), (0, 0), (0, case.size("SP") - problem.queries))
    lse = np.pad(floats["lse"], padding, constant_values=np.inf)
    found = {"lse_rows": lse, "delta": np.pad(rows, padding)}
    if "steps" in case.tensors:
        do = np.pad(floats["do"], (*padding, (0, 0)))
        key, value = floats["largest"].reshape(2, problem.batches, -1, case.size("TILES")).max(axis=3)
        key, value = (np.repeat(it, problem.group, axis=1)[:, :, None] for it in (key, value))
        found["steps"] = steps_of_rows(do, found["delta"], key, value)
    return {**found, "sums": np.zeros(case.shape("sums"))} if "sums" in case.tensors else found


def _largest_of_keys(case: Specimen, problem: Problem, floats: Arrays, rounding: Rounding) -> dict[str, Any]:
    rows = case.size("BN")
    padding = ((0, 0), (0, 0), (0, -problem.keys % rows), (0, 0))
    k, v = (np.pad(floats[name], padding).reshape(*floats[name].shape[:2], -1, rows, problem.head_dim) for name in "kv")
    both = np.stack([abs(k).max(axis=(3, 4)), np.sqrt((v * v).sum(axis=4)).max(axis=3)])
    return {"largest": both.reshape(case.shape("largest"))}


def _dq_of_sums(case: Specimen, problem: Problem, floats: Arrays, rounding: Rounding) -> dict[str, Any]:
    dq = out_of_order(case, floats["sums"]).reshape(problem.batches, problem.heads, case.size("SP"), case.size("D"))
    dq = dq / floats["steps"][..., None] if "steps" in floats else dq
    return {"dq": dq[:, :, : problem.queries, : problem.head_dim] * problem.scale}


def _sums_of(case: Specimen, scaled: Any, steps: Any = 1.0) -> Any:
    """dQ / scale of all rows of the workspace (B, H, SP, DIM) as the kernel adds it up. steps: (B, H, SP, 1)."""
    return into_order(case, np.pad(scaled * steps, ((0, 0), (0, 0), (0, 0), (0, case.size("D") - scaled.shape[3]))))


def _gradients(
    problem: Problem, q: Any, k: Any, v: Any, do: Any, lse: Any, delta: Any, slope: float, diagonal: int,
    round_weights: Callable[[Any], Any], owned: bool = False,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """dQ / scale, dK and dV of one head. lse, delta: columns. owned: dS is computed from P as the dots read it."""
    rows, keys = np.arange(q.shape[0])[:, None], np.arange(k.shape[0])[None, :]
    products = q @ k.T
    s = problem.scores(products, rows, keys, slope, np.tanh, diagonal) - lse
    p = np.where(problem.visible(rows, keys, diagonal), np.exp2(s), 0.0)
    p = round_weights(p) if owned else p
    ds = round_weights(p * (do @ v.T - delta) * problem.steepness(products, np.tanh))
    return ds @ k, ds.T @ q * problem.scale, round_weights(p).T @ do


def _backward(case: Specimen, problem: Problem, floats: Arrays, rounding: Rounding) -> dict[str, Any]:
    block = case.size("BM")
    of_blocks = -(-problem.queries // block) * block  # a sum of dQ has rows beyond the last query, too
    padding = ((0, 0), (0, 0), (0, of_blocks - problem.queries), (0, 0))
    q, do = (np.pad(floats[name], padding) for name in ("q", "do"))
    k, v = (floats[name] for name in ("k", "v"))
    scaled, dk, dv = np.zeros((*q.shape[:2], case.size("SP"), q.shape[3])), np.zeros(k.shape), np.zeros(v.shape)
    dtype = case.tensors["q"].dtype
    lse, delta = (floats[name][:, :, :of_blocks, None] for name in ("lse", "delta"))
    for b in range(problem.batches):
        for h in range(problem.heads):
            of = h // problem.group
            found = _gradients(problem, q[b, h], k[b, of], v[b, of], do[b, h], lse[b, h], delta[b, h],
                               _slope(floats, problem, h), problem.diagonal, lambda x: rounding(x, dtype),
                               bool(case.constexprs.get("OWNED")))  # fmt: skip
            scaled[b, h, :of_blocks] = found[0]
            dk[b, of] += found[1]
            dv[b, of] += found[2]
    steps = floats["steps"][..., None] if "steps" in floats else 1.0
    sums = {"sums": _sums_of(case, scaled, steps)} if "sums" in case.tensors else {}
    return {"dq": scaled[:, :, : problem.queries] * problem.scale, "dk": dk, "dv": dv, **sums}


def _packed_backward(case: Specimen, problem: Problem, floats: Arrays, rounding: Rounding) -> dict[str, Any]:
    block, dtype = case.size("BM"), case.tensors["q"].dtype
    q, k, v, do = (floats[name].transpose(1, 0, 2) for name in ("q", "k", "v", "do"))
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    scaled = np.zeros((problem.heads, case.size("SP"), problem.head_dim))
    for b, (rows, keys) in enumerate(packed_rows(floats["cu_q"], floats["cu_k"])):
        count, start = rows.stop - rows.start, padded_start(rows.start, b)
        of_blocks = -(-count // block) * block
        there, padding = slice(start, start + of_blocks), ((0, of_blocks - count), (0, 0))
        for h in range(problem.heads):
            of = h // problem.group
            found = _gradients(problem, np.pad(q[h, rows], padding), k[of, keys], v[of, keys],
                               np.pad(do[h, rows], padding), floats["lse"][h, there, None],
                               floats["delta"][h, there, None], 0.0, keys.stop - keys.start - count,
                               lambda x: rounding(x, dtype))  # fmt: skip
            scaled[h, there] = found[0]
            dq[h, rows] = found[0][:count] * problem.scale
            dk[of, keys] += found[1]
            dv[of, keys] += found[2]
    sums = {"sums": _sums_of(case, scaled[None])} if "sums" in case.tensors else {}
    return {**{name: it.transpose(1, 0, 2) for name, it in (("dq", dq), ("dk", dk), ("dv", dv))}, **sums}


_REFERENCES: dict[str, Callable[[Specimen, Problem, Arrays, Rounding], dict[str, Any]]] = {
    "attention": _attention,
    "attention_packed": _packed,
    "attention_gradient_rows": _gradient_rows,
    "attention_largest_of_keys": _largest_of_keys,
    "attention_dq_of_sums": _dq_of_sums,
    "attention_backward": _backward,
    "attention_packed_backward": _packed_backward,
}
