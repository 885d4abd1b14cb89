"""What the attention cases must compute; see `tests.cases.numbers`."""

from __future__ import annotations

from typing import Any

from tests.cases.attention.problem import LOG2_E, number
from tests.cases.case import Specimen
from tests.cases.numbers import Arrays, Numbers, Reference


def _softmax(math: Numbers, s: Any, v: Any, dtype: str) -> tuple[Any, Any]:
    """softmax(S) @ V with S in base 2, and the logarithms of the sums."""
    most = math.lib.amax(s, 1)[:, None]
    p = math.lib.exp2(s - most)
    total = p.sum(1)
    return math.product(math.operand(p, dtype), v) / total[:, None], most[:, 0] + math.lib.log2(total)


def _from_pages(case: Specimen, t: Arrays, b: int, count: int) -> list[int]:
    """The pages of the first `count` keys of a sequence."""
    del t
    table = [int(x) for x in case.tensors["table"].values]
    first = b * case.size("PAGES")
    return table[first : first + -(-count // case.size("PAGE"))]


def _attention_prefill(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    o, scale, dtype = math.zeros(case.shape("o")), number(case, "scale") * LOG2_E, case.tensors["q"].dtype
    starts, lengths = ([int(x) for x in case.tensors[name].values] for name in ("starts", "lengths"))
    dim = case.size("D")
    for b, length in enumerate(lengths):
        own = slice(starts[b], starts[b + 1])
        cached = length - (own.stop - own.start)
        pages = _from_pages(case, t, b, cached)
        for h in range(case.size("H")):
            head = h // case.size("GROUP")
            s = [math.product(t["q"][own, h], t["k"][own, head].T) * scale]
            rows = math.count(own.stop - own.start)
            s[0] = math.lib.where(rows[:, None] >= rows[None, :], s[0], float("-inf"))
            v = [t["v"][own, head]]
            if cached:
                k = math.lib.stack([t["k_pages"][page, head].swapaxes(0, 1).reshape(-1, dim) for page in pages])
                old = math.lib.stack([t["v_pages"][page, head].T for page in pages]).reshape(-1, dim)[:cached]
                s.insert(0, math.product(t["q"][own, h], k.reshape(-1, dim)[:cached].T) * scale)
                v.insert(0, old)
            o[own, h], _ = _softmax(math, math.lib.concatenate(s, 1), math.lib.concatenate(v, 0), dtype)
    return {"o": o}


def _attention_pages(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    o, scale, dtype = math.zeros(case.shape("o")), number(case, "scale") * LOG2_E, case.tensors["q"].dtype
    starts, lengths = ([int(x) for x in case.tensors[name].values] for name in ("starts", "lengths"))
    for b, length in enumerate(lengths):
        own, pages = slice(starts[b], starts[b + 1]), _from_pages(case, t, b, length)
        rows, keys = math.count(own.stop - own.start), math.count(length)
        seen = keys[None, :] <= rows[:, None] + (length - len(rows))
        for h in range(case.size("HEADS")):
            head = h // case.size("GROUP")
            k, v = (math.lib.stack([t[x][page, :, head] for page in pages]).reshape(-1, case.size("D")) for x in "kv")
            s = math.lib.where(seen, math.product(t["q"][own, h], k[:length].T) * scale, float("-inf"))
            o[own, h], _ = _softmax(math, s, v[:length], dtype)
    return {"o": o}


def _attention_int8(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    o = math.zeros(case.shape("o"))
    rows, keys = math.count(case.size("SQ")), math.count(case.size("SK"))
    for h in range(case.size("H")):
        head = h // case.size("GROUP")
        of_rows, of_keys = math.number(t["qs"])[h], math.number(t["ks"])[head]
        scales = of_rows[rows // case.size("BM")][:, None] * of_keys[keys // case.size("BN")][None, :]
        s = math.number(t["q"][h]) @ math.number(t["k"][head]).T * scales
        if case.constexprs["CAUSAL"]:
            s = math.lib.where(keys[None, :] <= rows[:, None], s, float("-inf"))
        o[h], _ = _softmax(math, s, t["v"][head], "fp16")
    return {"o": o}


# --- lists of blocks ---


def _listed_keys(case: Specimen, math: Numbers, t: int, head: int) -> Any:
    """How often each key is listed for a token, and 0 for later keys."""
    size, count = case.constexprs["BN"], case.size("COUNT")
    first = (t * case.size("HK") + head) * count
    many = math.zeros((case.size("T"),))
    for block in case.tensors["blocks"].values[first : first + count]:
        if block >= 0:
            many[int(block) * size : min((int(block) + 1) * size, t + 1)] += 1
    return many


def _sparse_forward(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    found, group = {name: math.zeros(case.shape(name)) for name in ("o", "lse")}, case.size("GROUP")
    scale, dtype = number(case, "scale") * LOG2_E, case.tensors["q"].dtype
    for token in range(case.size("T")):
        for head in range(case.size("HK")):
            own = slice(head * group, (head + 1) * group)
            seen = _listed_keys(case, math, token, head)[None, :] > 0
            s = math.lib.where(seen, math.product(t["q"][token, own], t["k"][:, head].T) * scale, float("-inf"))
            found["o"][token, own], found["lse"][token, own] = _softmax(math, s, t["v"][:, head], dtype)
    return found


def _gradients(
    case: Specimen, t: Arrays, math: Numbers, at: Any, head: int, weight: Any, bias: Any = 0.0
) -> tuple[Any, Any, Any]:
    """Part of dQ, dK and dV of rows `at`, from all keys of a head; weight: how often a pair counts. bias: of scores."""
    scale, dtype = number(case, "scale"), case.tensors["q"].dtype
    q, do, k, v = t["q"][at], t["do"][at], t["k"][head], t["v"][head]
    lse, delta = (math.number(t[name][at])[:, None] for name in ("lse", "delta"))
    s, slope, cap = math.product(q, k.T) * scale, 1.0, float(case.constexprs.get("CAP") or 0.0)
    if cap:
        s = math.lib.tanh(s / cap)
        s, slope = s * cap, 1.0 - s * s
    p = math.lib.exp2((s + bias) * LOG2_E - lse) * weight
    ds = math.operand(p * (math.product(do, v.T) - delta) * slope, dtype)
    dv = math.product(math.operand(p, dtype).T, do)
    return math.product(ds, k) * scale, math.product(ds.T, q) * scale, dv


def _by_head(t: Arrays) -> Arrays:
    return {**t, "k": t["k"].swapaxes(0, 1), "v": t["v"].swapaxes(0, 1)}


def _sparse_gradient_queries(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    dq, group, known = math.zeros(case.shape("dq")), case.size("GROUP"), _by_head(t)
    for token in range(case.size("T")):
        for head in range(case.size("HK")):
            own = slice(head * group, (head + 1) * group)
            many = _listed_keys(case, math, token, head)[None, :]
            dq[token, own], _, _ = _gradients(case, known, math, (token, own), head, many)
    return {"dq": dq}


def _sparse_gradient_keys(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    found, known, size = (
        {name: math.zeros(case.shape(name)) for name in ("dk", "dv")},
        _by_head(t),
        case.constexprs["BN"],
    )
    starts, tokens = ([int(x) for x in case.tensors[name].values] for name in ("starts", "tokens"))
    count, every = case.size("T"), math.count(case.size("T"))
    seen = math.zeros((count, count))
    for block in range(len(starts) - 1):
        rows = tokens[starts[block] : starts[block + 1]]
        seen[rows, block * size : (block + 1) * size] = 1.0
    seen = seen * (every[None, :] <= every[:, None])
    for h in range(case.size("H")):
        head = h // case.size("GROUP")
        _, dk, dv = _gradients(case, known, math, (slice(None), h), head, seen)
        found["dk"][:, head] += dk
        found["dv"][:, head] += dv
    return found


def _flex_gradients(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    found = {name: math.zeros(case.shape(name)) for name in ("dq", "dk", "dv")}
    rows, keys = math.count(case.size("SQ")), math.count(case.size("SK"))
    seen = (keys[None, :] <= rows[:, None]) & (keys[None, :] > rows[:, None] - case.size("WINDOW"))
    if "documents" in t:
        seen = seen & (t["documents"][:, None] == t["documents"][None, :])
    distance = math.number(abs(rows[:, None] - keys[None, :])) * bool(case.constexprs["ALIBI"])
    for b in range(case.size("B")):
        known = {**t, "k": t["k"][b], "v": t["v"][b]}
        for h in range(case.size("H")):
            head, bias = h // case.size("GROUP"), distance * -(2.0 ** (-0.5 * (h + 1)))
            found["dq"][b, h], dk, dv = _gradients(case, known, math, (b, h), head, math.number(seen), bias)
            found["dk"][b, head] += dk
            found["dv"][b, head] += dv
    return found


REFERENCES: dict[str, Reference] = {
    "attention_prefill": _attention_prefill,
    "attention_pages": _attention_pages,
    "attention_int8": _attention_int8,
    "sparse_forward": _sparse_forward,
    "sparse_gradient_queries": _sparse_gradient_queries,
    "sparse_gradient_keys": _sparse_gradient_keys,
    "flex_gradients": _flex_gradients,
}
