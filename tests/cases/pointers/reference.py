"""What each pointer case must compute, written once for torch and for NumPy.

A reference is written over `tests.cases.numbers.Numbers`. Attention by pointers uses the references of
`tests.cases.attention`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from tests.cases.attention.problem import LOG2_E, Problem, number
from tests.cases.case import Specimen
from tests.cases.numbers import Arrays, Numbers, Reference, in_numpy, in_torch
from tests.cases.pointers.forms.reference import FORM_REFERENCES


def reference(case: Specimen, tensors: Mapping[str, Any], arithmetic: Any) -> dict[str, Any]:
    """The outputs of a case by name, in torch; see `tests.cases.gemm.reference`."""
    return in_torch(REFERENCES[case.reference], case, tensors, arithmetic)


def numpy_reference(
    case: Specimen, floats: Arrays, rounding: Callable[[Any, str], Any] | None = None
) -> dict[str, Any]:
    """The outputs of a case by name as float64 arrays; see `tests.cases.numbers.in_numpy`."""
    from tests.cases.attention import numpy_reference as attention

    if case.reference.startswith("attention"):
        return attention.numpy_reference(case, floats, rounding or (lambda x, dtype: x))
    return in_numpy(REFERENCES[case.reference], case, floats, rounding)


# --- products ---


def _a(case: Specimen, t: Arrays) -> Any:
    """A as M x K: stored in either order, or every STEP-th column of a wider matrix."""
    a = t["a"].T if case.tensors["a"].shape[0] == "K" else t["a"]
    step = case.sizes.get("STEP", 1)
    return a[:, : case.size("K") * step : step]


def _b(case: Specimen, t: Arrays, name: str = "b") -> Any:
    b = t[name].T if case.tensors[name].shape[0] == "N" else t[name]
    return b[: case.size("K")]


def _gemm(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    c = math.product(_a(case, t), _b(case, t))
    if case.constexprs.get("ACT"):
        c = math.lib.where(c >= 0, c, 0.01 * c)
    return {"c": c}


def _batched(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    b = t["b"].swapaxes(1, 2) if case.tensors["b"].shape[1] == "N" else t["b"]
    return {"c": math.lib.stack([math.product(t["a"][z], b[z]) for z in range(case.size("Z"))])}


def _weights(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    dtype, b, scale = case.tensors["a"].dtype, math.number(_b(case, t)), math.number(t["scale"])[None, :]
    if case.constexprs["SCALE_FIRST"]:
        return {"c": math.product(_a(case, t), math.operand(b * scale, dtype))}
    return {"c": math.product(_a(case, t), math.operand(b, dtype)) * scale}


def _int4(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    low, high = t["b"] & 15, (t["b"] >> 4) & 15
    k, n = case.size("K"), case.size("N")
    b = math.number(math.lib.stack((low, high), 1).reshape(k, n)) - 8
    scale = math.number(t["scale"])[math.count(k) // case.size("GROUP")]
    return {"c": math.product(_a(case, t), math.operand(b * scale, case.tensors["a"].dtype))}


def _packed(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    k, n = case.size("K"), case.size("N")
    rows = math.lib.stack([(t["b"] >> (4 * place)) & 15 for place in range(8)], 1)
    groups = math.count(k) // case.size("GROUP")
    zero, scale = (math.number(t[name])[groups] for name in ("zero", "scale"))
    b = (math.number(rows.reshape(-1, n)[:k]) - zero) * scale
    return {"c": math.product(_a(case, t), math.operand(b, case.tensors["a"].dtype))}


def _grouped(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    sizes, strides = ([int(x) for x in case.tensors[name].values] for name in ("sizes", "strides"))
    c = math.zeros(case.shape("c"))
    for g in range(len(sizes) // 3):
        m, n, k = sizes[3 * g : 3 * g + 3]
        places = [int(case.tensors[f"{name}_addresses"].values[g]) for name in "abc"]
        rows = (m, n if "transposed" in case.tags else k, m)
        lengths = (k, k if "transposed" in case.tags else n, n)
        at_a, at_b, at_c = (
            place + math.lib.arange(count)[:, None] * stride + math.lib.arange(length)
            for place, count, stride, length in zip(places, rows, strides[3 * g : 3 * g + 3], lengths, strict=True)
        )
        b = t["b"][at_b]
        c[at_c] = math.product(t["a"][at_a], b.T if "transposed" in case.tags else b)
    return {"c": c}


def _array(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    size = case.size("K*N")
    places = [int(x) // size for x in case.tensors["b_addresses"].values]
    return {"c": math.lib.stack([math.product(t["a"][z], t["b"][place]) for z, place in enumerate(places)])}


def _offsets(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    ends = [int(x) for x in case.tensors["offsets"].values]
    c = math.zeros(case.shape("c"))
    for e, (first, last) in enumerate(pairwise(ends)):
        c[first:last] = math.product(t["a"][first:last], t["b"][e])
    return {"c": c}


def _segments(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    ends = [0, *(int(x) for x in case.tensors["ends"].values)]
    c = math.zeros(case.shape("c"))
    for g, (first, last) in enumerate(pairwise(ends)):
        c[first:last] = math.product(t["a"][first:last], t["b"][g].T)
    return {"c": c}


def _experts(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    block, pairs = case.size("BM"), [int(x) for x in case.tensors["tokens"].values]
    c = math.zeros(case.shape("c"))
    for i, expert in enumerate(case.tensors["experts"].values):
        mine = [pair for pair in pairs[i * block : (i + 1) * block] if pair < case.size("TOKENS")]
        if mine and expert >= 0:
            rows = [pair // case.size("TOP_K") for pair in mine]
            c[mine] = math.product(t["a"][rows], t["b"][int(expert)].T)
    return {"c": c * math.number(t["weights"])[:, None] if case.constexprs["WEIGHTED"] else c}


def _gate_up(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    gate, up = math.product(_a(case, t), _b(case, t)), math.product(_a(case, t), _b(case, t, "u"))
    return {"c": gate / (1 + math.lib.exp(-gate)) * up}


def _gram(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    a, bm = t["a"], case.size("BM")
    c = math.zeros(case.shape("c"))
    for first in range(0, a.shape[0], bm):
        others = (first + math.count(bm)) % a.shape[0]
        c[first : first + bm] = math.product(a[first : first + bm], a[others].T)
    return {"c": c}


# --- states, pages ---


def _linear(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    dtype, step, scale = case.tensors["q"].dtype, case.size("BT"), number(case, "scale")
    o, states = math.zeros(case.shape("o")), math.zeros(case.shape("state"))
    for head in range(case.size("H")):
        q, k, v = (t[name][head] for name in "qkv")
        for first in range(0, case.size("S"), step):
            part = slice(first, first + step)
            times = math.count(len(q[part]))
            s = math.product(q[part], k[part].T)
            s = math.lib.where(times[:, None] >= times[None, :], s, 0.0)
            inner = math.product(math.operand(s, dtype), v[part])
            outer = math.product(q[part], math.operand(states[head], dtype))
            o[head, part] = (inner + outer) * scale
            states[head] += math.product(k[part].T, v[part])
    return {"o": o, "state": states}


def _linear_backwards(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    step, chunks = case.size("BT"), case.size("CHUNKS")
    gradients = math.zeros(case.shape("dh"))
    for head in range(case.size("H")):
        for chunk in range(chunks - 1, 0, -1):
            part = slice(chunk * step, (chunk + 1) * step)
            product = math.product(t["q"][head][part].T, t["do"][head][part])
            gradients[head, chunk - 1] = gradients[head, chunk] + product
    return {"dh": gradients}


def _chunk_output(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    dtype, step, o = case.tensors["q"].dtype, case.size("BT"), math.zeros(case.shape("o"))
    for head in range(case.size("H")):
        for chunk in range(case.size("CHUNKS")):
            part = slice(chunk * step, (chunk + 1) * step)
            q, k, v, g = (t[name][head][part] for name in "qkvg")
            times = math.count(len(q))
            s = math.product(q, k.T) * math.lib.exp2(g[:, None] - g[None, :])
            s = math.lib.where(times[:, None] >= times[None, :], s, 0.0)
            outer = math.product(q, t["h"][head][chunk]) * math.lib.exp2(g)[:, None]
            o[head, part] = outer + math.product(math.operand(s, dtype), v)
    return {"o": o}


def _states(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    step, dtype = case.size("BT"), case.tensors["do"].dtype
    found = {name: math.zeros(case.shape(name)) for name in ("dq", "dk")}
    for head in range(case.size("H")):
        for chunk in range(case.size("CHUNKS")):
            part = slice(chunk * step, (chunk + 1) * step)
            for name, rows, states in (("dq", "do", "h"), ("dk", "v", "dh")):
                state = math.operand(t[states][head][chunk], dtype)
                found[name][head, part] = math.product(t[rows][head][part], state.T)
    return found


def _paged(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    problem, page, dtype = Problem.of(case), case.size("PAGE"), case.tensors["q"].dtype
    o = math.zeros(case.shape("o"))
    pages = [int(x) for x in case.tensors["pages"].values]
    for b, length in enumerate(int(x) for x in case.tensors["lengths"].values):
        table = pages[b * case.size("PAGES") : (b + 1) * case.size("PAGES")][: -(-length // page)]
        rows, keys = math.count(problem.queries)[:, None], math.count(length)[None, :]
        for h in range(problem.heads):
            k, v = (math.lib.stack([t[name][at, h // problem.group] for at in table]) for name in "kv")
            k, v = (x.reshape(-1, problem.head_dim)[:length] for x in (k, v))
            s = math.product(t["q"][b, h], k.T) * (problem.scale * LOG2_E)
            s = math.lib.where(keys <= rows + (length - problem.queries), s, float("-inf"))
            p = math.lib.exp2(s - math.lib.amax(s, 1)[:, None])
            o[b, h] = math.product(math.operand(p, dtype), v) / p.sum(1)[:, None]
    return {"o": o}


def _lengths(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    o, scale, dtype = math.zeros(case.shape("o")), number(case, "scale") * LOG2_E, case.tensors["q"].dtype
    for b, length in enumerate(int(x) for x in case.tensors["lengths"].values):
        rows = math.count(length)
        for h in range(case.size("H") if length else 0):
            q, k, v = (t[name][b, h, :length] for name in "qkv")
            s = math.lib.where(rows[None, :] <= rows[:, None], math.product(q, k.T) * scale, float("-inf"))
            p = math.lib.exp2(s - math.lib.amax(s, 1)[:, None])
            o[b, h, :length] = math.product(math.operand(p, dtype), v) / p.sum(1)[:, None]
    return {"o": o}


# --- the safety list ---


def _adds_to_c(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    return {"c": math.number(t["c0"]) + math.product(_a(case, t), _b(case, t))}


def _scan(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    c = math.product(_a(case, t), _b(case, t))
    bn = case.size("BN")
    return {"c": math.lib.cumsum(c.reshape(c.shape[0], -1, bn), 2).reshape(c.shape)}


def _fill_one(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    """A counts as 1 past its end; B is read there: BK does not divide K, and B has rows up to the next multiple."""
    k, padded = case.size("K"), t["b"].shape[0]
    rest = math.number(t["b"][k:padded]).sum(0)
    return {"c": math.product(t["a"][:, :k], t["b"][:k]) + rest[None, :]}


def _kept(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    a = math.lib.where(t["keep"][:, : case.size("K")] > 0, math.number(_a(case, t)), 0.0)
    return {"c": math.product(math.operand(a, case.tensors["a"].dtype), _b(case, t))}


def _listed(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    """Blocks of K in the order of a list that ends with a negative number."""
    bk, a, b = case.size("BK"), _a(case, t), _b(case, t)
    c = math.zeros(case.shape("c"))
    for block in case.tensors["list"].values:
        if block < 0:
            break
        part = slice(int(block) * bk, (int(block) + 1) * bk)
        c = c + math.product(a[:, part], b[part])
    return {"c": c}


def _left_out(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    """Only the first ROWS rows; columns of tiles on a list are skipped, or their first columns of A."""
    c, rows, bn = math.zeros(case.shape("c")), case.size("ROWS"), case.size("BN")
    first = case.size("BK") if "meets" in case.tags else case.size("K")
    for at, skip in enumerate(case.tensors["skip"].values):
        part, begin = slice(at * bn, (at + 1) * bn), first if skip else 0
        c[:rows, part] = math.product(t["a"][:rows, begin:], t["b"][begin:, part])
    return {"c": c}


# --- edges ---


def _column_sums(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    """Sums over each tile's rows, including those that wrap around."""
    product, bm, m = math.product(_a(case, t), _b(case, t)), case.size("BM"), case.size("M")
    sums = [product[(tile * bm + math.count(bm)) % m].sum(0) for tile in range(case.size("TILES"))]
    return {"c": math.lib.stack(sums)}


def _shifted(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    """A begins SHIFT elements into lines of LINE."""
    first, m, k = case.size("SHIFT"), case.size("M"), case.size("K")
    return {"c": math.product(t["a"][:m, first : first + k], _b(case, t))}


def _reads_on(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    return {"c": math.product(t["a"], t["b"])}


def _windows(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    step, m, k = case.size("STEP"), case.size("M"), case.size("K")
    places = math.count(m)[:, None] * step + math.count(k)[None, :]
    return {"c": math.product(t["a"][places], _b(case, t))}


REFERENCES: dict[str, Reference] = {
    "pointer_gemm": _gemm,
    "pointer_batched": _batched,
    "pointer_weights": _weights,
    "pointer_int4": _int4,
    "pointer_packed": _packed,
    "pointer_grouped": _grouped,
    "pointer_array": _array,
    "pointer_offsets": _offsets,
    "pointer_segments": _segments,
    "pointer_experts": _experts,
    "pointer_gate_up": _gate_up,
    "pointer_gram": _gram,
    "pointer_chunk_output": _chunk_output,
    "pointer_linear": _linear,
    "pointer_linear_backwards": _linear_backwards,
    "pointer_states": _states,
    "pointer_paged": _paged,
    "pointer_lengths": _lengths,
    "pointer_adds_to_c": _adds_to_c,
    "pointer_scan": _scan,
    "pointer_fill_one": _fill_one,
    "pointer_kept": _kept,
    "pointer_listed": _listed,
    "pointer_left_out": _left_out,
    "pointer_column_sums": _column_sums,
    "pointer_shifted": _shifted,
    "pointer_reads_on": _reads_on,
    "pointer_windows": _windows,
    **FORM_REFERENCES,
}
