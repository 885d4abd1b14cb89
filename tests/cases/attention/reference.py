"""What each attention case must compute, in torch: in float64, and in the precision of the kernels.

`Exact` works in float64. `SamePrecision` is PyTorch with the same inputs: products by the tensor cores with float32
sums, softmax in float32, the weights (relative to the maximum of the row) and dS rounded to the element type of their
dot, one cast of each output. The tolerance is twice its error. Rows are processed in chunks, so that long sequences
fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from tests.cases.arithmetic import Arithmetic, Tensors
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

CHUNK = 2048
UNIT = 16


def reference(case: Specimen, tensors: Tensors, arithmetic: Arithmetic) -> dict[str, torch.Tensor]:
    """The outputs of a case by name. `Exact` leaves them in float64, otherwise they have the output's element type."""
    found = REFERENCES[case.reference](case, Problem.of(case), tensors, arithmetic)
    return {
        name: (value if arithmetic.dtype == torch.float64 else value.to(tensors[name].dtype)).reshape(case.shape(name))
        for name, value in found.items()
        if name in case.tensors
    }


def one_head(
    problem: Problem,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    slope: torch.Tensor | float,
    diagonal: int,
    math: Arithmetic,
    bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and base-2 logarithm of the sums of one head; 0 and -inf for a row that sees no key."""
    parts = [_chunk(problem, q, k, v, slope, diagonal, math, bias, part) for part in _chunks(q)]
    return torch.cat([o for o, _ in parts]), torch.cat([lse for _, lse in parts])


def _chunk(
    problem: Problem,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    slope: torch.Tensor | float,
    diagonal: int,
    math: Arithmetic,
    bias: torch.Tensor | None,
    part: slice,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`one_head` for some of the rows."""
    rows, keys = _numbers(part, q), _numbers(slice(0, k.shape[0]), k).t()
    s = problem.scores(_product(math, q[part], k.t()), rows, keys, slope, torch.tanh, diagonal)
    s = s if bias is None else s + bias[part].to(s.dtype) * LOG2_E
    s = s.masked_fill(~problem.visible(rows, keys, diagonal), float("-inf"))
    most = s.amax(dim=1, keepdim=True)
    most = most.masked_fill(most.isinf(), 0.0)
    p = torch.exp2(s - most)
    total = p.sum(dim=1, keepdim=True)
    lse = (most + torch.log2(total))[:, 0]
    return _product(math, _rounded(p, v, math), v) / total.masked_fill(total == 0, 1.0), lse


def _product(math: Arithmetic, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product in the precision of `math`; eight-bit operands are zero-padded to multiples of 16, for PyTorch."""
    if math.dtype == torch.float64 or a.element_size() > 1:
        return math.matmul(a, b)
    inner, columns = -(-a.shape[1] // UNIT) * UNIT, -(-b.shape[1] // UNIT) * UNIT
    return math.matmul(_padded(a, a.shape[0], inner), _padded(b, inner, columns))[:, : b.shape[1]]


def _padded(x: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    if x.shape == (rows, columns):
        return x
    whole = torch.zeros((rows, columns), device=x.device, dtype=x.dtype)
    whole[: x.shape[0], : x.shape[1]] = x
    return whole


def _chunks(q: torch.Tensor) -> Iterator[slice]:
    for first in range(0, q.shape[0], CHUNK):
        yield slice(first, min(first + CHUNK, q.shape[0]))


def _numbers(part: slice, like: torch.Tensor) -> torch.Tensor:
    """The numbers of some rows as a column."""
    return torch.arange(part.start, part.stop, device=like.device)[:, None]


def _rounded(x: torch.Tensor, like: torch.Tensor, math: Arithmetic) -> torch.Tensor:
    """`x` as an operand of a dot with `like`: in its element type, in float64 as it is."""
    return x if math.dtype == torch.float64 else x.to(like.dtype)


def _slope(t: Tensors, problem: Problem, math: Arithmetic, h: int) -> torch.Tensor | float:
    return t["slopes"][h].to(math.dtype) if problem.alibi else 0.0


def _values(problem: Problem, t: Tensors) -> torch.Tensor:
    """V as (B, HK, SK, D)."""
    if not problem.v_transposed:
        return t["v"].reshape(problem.batches, problem.key_heads, problem.keys, -1)
    v = t["v"].reshape(problem.batches, problem.key_heads, problem.head_dim, -1)
    if problem.v_reordered:  # place 4q + 2j + c has key 8j + 2q + c
        v = v.reshape(*v.shape[:3], -1, 4, 2, 2).transpose(4, 5).reshape(v.shape)
    return v[..., : problem.keys].transpose(2, 3)


def _attention(case: Specimen, problem: Problem, t: Tensors, math: Arithmetic) -> dict[str, torch.Tensor]:
    q = t["q"].reshape(problem.batches, problem.heads, problem.queries, problem.head_dim)
    k = t["k"].reshape(problem.batches, problem.key_heads, problem.keys, problem.head_dim)
    v = _values(problem, t)
    o = torch.empty((*q.shape[:3], v.shape[3]), dtype=math.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=math.dtype, device=q.device)
    for b in range(problem.batches):
        for h in range(problem.heads):
            of, slope = h // problem.group, _slope(t, problem, math, h)
            of_scores, of_values = factors_of(t, b, of)
            scaled = replace(problem, scale=problem.scale * of_scores)
            bias = t["bias"][h] if "bias" in t else None
            o[b, h], lse[b, h] = one_head(scaled, q[b, h], k[b, of], v[b, of], slope, problem.diagonal, math, bias)
            o[b, h] *= of_values
    return {"o": o, "lse": lse}


def _packed(case: Specimen, problem: Problem, t: Tensors, math: Arithmetic) -> dict[str, torch.Tensor]:
    q, k = t["q"], t["k"]
    v = t["v"].permute(2, 0, 1) if problem.v_transposed else t["v"]
    o = torch.empty((*q.shape[:2], v.shape[2]), dtype=math.dtype, device=q.device)
    lse = torch.empty((problem.heads, q.shape[0]), dtype=math.dtype, device=q.device)
    cu_q, cu_k = t["cu_q"].tolist(), t["cu_k"].tolist()
    for b in range(problem.batches):
        rows, keys = slice(cu_q[b], cu_q[b + 1]), slice(cu_k[b], cu_k[b + 1])
        count, begin = cu_k[b + 1] - cu_k[b], first_column(cu_k[b], b) if problem.v_transposed else cu_k[b]
        values = slice(begin, begin + count)
        diagonal = count - (rows.stop - rows.start)
        for h in range(problem.heads):
            of = h // problem.group
            o[rows, h], lse[h, rows] = one_head(problem, q[rows, h], k[keys, of], v[values, of], 0.0, diagonal, math)
    return {"o": o, "lse": lse}


def _gradient_rows(case: Specimen, problem: Problem, t: Tensors, math: Arithmetic) -> dict[str, torch.Tensor]:
    do = t["do"].to(math.dtype)
    rows = (t["o"].to(math.dtype) * do).sum(dim=3)
    rows = rows - t["dlse"] if "dlse" in t else rows
    padding = (0, case.size("SP") - problem.queries)
    lse = torch.nn.functional.pad(t["lse"], padding, value=float("inf"))
    found = {"lse_rows": lse, "delta": torch.nn.functional.pad(rows, padding)}
    if "steps" in t:
        largest = t["largest"].to(math.dtype).reshape(2, problem.batches, -1, case.size("TILES")).amax(dim=3)
        key, value = largest.repeat_interleave(problem.group, dim=2)[..., None]
        found["steps"] = steps_of_rows(torch.nn.functional.pad(do, (0, 0, *padding)), found["delta"], key, value)
    return {**found, "sums": torch.zeros_like(t["sums"])} if "sums" in t else found


def _largest_of_keys(case: Specimen, problem: Problem, t: Tensors, math: Arithmetic) -> dict[str, torch.Tensor]:
    rows = case.size("BN")
    padded = (torch.nn.functional.pad(t[name].to(math.dtype), (0, 0, 0, -problem.keys % rows)) for name in "kv")
    k, v = (it.unflatten(2, (-1, rows)) for it in padded)
    both = torch.stack([k.abs().amax(dim=(3, 4)), (v * v).sum(dim=4).sqrt().amax(dim=3)])
    return {"largest": both.reshape(case.shape("largest"))}


def _dq_of_sums(case: Specimen, problem: Problem, t: Tensors, math: Arithmetic) -> dict[str, torch.Tensor]:
    rows = out_of_order(case, t["sums"].to(math.dtype))
    dq = rows.reshape(problem.batches, problem.heads, case.size("SP"), case.size("D"))
    dq = dq / t["steps"][..., None] if "steps" in t else dq
    return {"dq": dq[:, :, : problem.queries, : problem.head_dim] * problem.scale}


def _sums_of(case: Specimen, scaled: torch.Tensor, steps: torch.Tensor | float = 1.0) -> torch.Tensor:
    """dQ / scale of all rows of the workspace (B, H, SP, DIM) as the kernel adds it up. steps: (B, H, SP, 1)."""
    return into_order(case, torch.nn.functional.pad(scaled * steps, (0, case.size("D") - scaled.shape[3])))


def _gradients(
    problem: Problem, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, lse: torch.Tensor,
    delta: torch.Tensor, slope: torch.Tensor | float, diagonal: int, math: Arithmetic,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """dQ / scale, dK and dV of one head."""
    keys = _numbers(slice(0, k.shape[0]), k).t()
    dq, dk, dv = (torch.zeros(x.shape, dtype=math.dtype, device=x.device) for x in (q, k, v))
    for part in _chunks(q):
        of_lse, of_delta = (x[part].to(math.dtype)[:, None] for x in (lse, delta))
        products, rows = _product(math, q[part], k.t()), _numbers(part, q)
        s = problem.scores(products, rows, keys, slope, torch.tanh, diagonal)
        p = torch.exp2(s - of_lse).masked_fill(~problem.visible(rows, keys, diagonal), 0.0)
        ds = p * (_product(math, do[part], v.t()) - of_delta) * problem.steepness(products, torch.tanh)
        ds = _rounded(ds, q, math)
        dq[part] = _product(math, ds, k)
        dk += _product(math, ds.t(), q[part]) * problem.scale
        dv += _product(math, _rounded(p, do, math).t(), do[part])
    return dq, dk, dv


def _backward(case: Specimen, problem: Problem, t: Tensors, math: Arithmetic) -> dict[str, torch.Tensor]:
    block = case.size("BM")
    of_blocks = -(-problem.queries // block) * block  # sums of dQ have whole blocks
    q, do = (torch.nn.functional.pad(t[name], (0, 0, 0, of_blocks - problem.queries)) for name in ("q", "do"))
    k, v = t["k"], t["v"]
    scaled = torch.zeros((*q.shape[:2], case.size("SP"), q.shape[3]), dtype=math.dtype, device=q.device)
    dk, dv = (torch.zeros(x.shape, dtype=math.dtype, device=x.device) for x in (k, v))
    for b in range(problem.batches):
        for h in range(problem.heads):
            of, slope = h // problem.group, _slope(t, problem, math, h)
            found = _gradients(problem, q[b, h], k[b, of], v[b, of], do[b, h], t["lse"][b, h], t["delta"][b, h], slope,
                               problem.diagonal, math)  # fmt: skip
            scaled[b, h, :of_blocks] = found[0]
            dk[b, of] += found[1]
            dv[b, of] += found[2]
    sums = {"sums": _sums_of(case, scaled, t["steps"][..., None] if "steps" in t else 1.0)} if "sums" in t else {}
    return {"dq": scaled[:, :, : problem.queries] * problem.scale, "dk": dk, "dv": dv, **sums}


def _packed_backward(case: Specimen, problem: Problem, t: Tensors, math: Arithmetic) -> dict[str, torch.Tensor]:
    block = case.size("BM")
    q, k, v, do = (t[name].transpose(0, 1) for name in ("q", "k", "v", "do"))
    dq, dk, dv = (torch.zeros(x.shape, dtype=math.dtype, device=x.device) for x in (q, k, v))
    size = problem.heads, case.size("SP"), problem.head_dim
    scaled = torch.zeros(size, dtype=math.dtype, device=q.device)
    for b, (rows, keys) in enumerate(packed_rows(t["cu_q"].tolist(), t["cu_k"].tolist())):
        count, start = rows.stop - rows.start, padded_start(rows.start, b)
        of_blocks = -(-count // block) * block
        there, more = slice(start, start + of_blocks), (0, 0, 0, of_blocks - count)
        for h in range(problem.heads):
            of = h // problem.group
            one, of_o = (torch.nn.functional.pad(x[h, rows], more) for x in (q, do))
            found = _gradients(problem, one, k[of, keys], v[of, keys], of_o, t["lse"][h, there], t["delta"][h, there],
                               0.0, keys.stop - keys.start - count, math)  # fmt: skip
            scaled[h, there] = found[0]
            dq[h, rows] = found[0][:count] * problem.scale
            dk[of, keys] += found[1]
            dv[of, keys] += found[2]
    sums = {"sums": _sums_of(case, scaled[None])} if "sums" in t else {}
    return {**{name: it.transpose(0, 1) for name, it in (("dq", dq), ("dk", dk), ("dv", dv))}, **sums}


REFERENCES: dict[str, Callable[[Specimen, Problem, Tensors, Arithmetic], dict[str, torch.Tensor]]] = {
    "attention": _attention,
    "attention_packed": _packed,
    "attention_gradient_rows": _gradient_rows,
    "attention_largest_of_keys": _largest_of_keys,
    "attention_dq_of_sums": _dq_of_sums,
    "attention_backward": _backward,
    "attention_packed_backward": _packed_backward,
}
