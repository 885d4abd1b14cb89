"""What the cases with states must compute; see `tests.cases.numbers`."""

from __future__ import annotations

from collections.abc import Iterator

from tests.cases.attention.problem import number
from tests.cases.case import Specimen
from tests.cases.numbers import Arrays, Numbers, Reference


def _chunks(case: Specimen, heads: str) -> Iterator[tuple[int, int, int, slice]]:
    """Batch, chunk, head or group, and the rows of the chunk."""
    step = case.size("CHUNK")
    for b in range(case.size("B")):
        for c in range(case.size("CHUNKS")):
            for h in range(case.size(heads)):
                yield b, c, h, slice(c * step, min((c + 1) * step, case.size("S")))


def _chunk_products(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    """Tiles above the diagonal stay zero."""
    out, chunk = math.zeros(case.shape("cb")), case.size("CHUNK")
    for b, c, g, rows in _chunks(case, "G"):
        product = math.product(t["c"][b, rows, g], t["b"][b, rows, g].T)
        if case.constexprs["SEQUENCES"]:
            of = t["sequence"][b, rows]
            product = math.lib.where(of[:, None] == of[None, :], product, 0.0)
        out[b, c, g, : len(product), : len(product)] = product
    bm, bn, lines = case.size("BM"), case.size("BN"), math.count(chunk)
    stored = (lines[:, None] // bm + 1) * bm > lines[None, :] // bn * bn
    return {"cb": math.lib.where(stored, out, 0.0)}


def _chunk_states(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    out, dtype = math.zeros(case.shape("states")), case.tensors["x"].dtype
    for b, c, h, rows in _chunks(case, "H"):
        decay, count = math.number(t["decay"][b, c, h]), rows.stop - rows.start
        difference = decay[-1] - decay[:count]
        scale = math.lib.exp(math.lib.where(difference < 0, difference, 0.0)) * math.number(t["dt"][b, c, h, :count])
        if case.constexprs["SEQUENCES"]:
            of = t["sequence"][b, rows]
            scale = math.lib.where(of == of[-1], scale, 0.0)
        gated = math.number(t["b"][b, rows, h // case.size("HEADS")]) * scale[:, None]
        out[b, c, h] = math.product(t["x"][b, rows, h].T, math.operand(gated, dtype))
    return {"states": out}


def _chunk_scan(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    out, dtype = math.zeros(case.shape("out")), case.tensors["x"].dtype
    for b, c, h, rows in _chunks(case, "H"):
        g, count = h // case.size("HEADS"), rows.stop - rows.start
        decay, dt = (math.number(t[name][b, c, h, :count]) for name in ("decay", "dt"))
        scale = math.lib.exp(decay)
        if case.constexprs["SEQUENCES"]:
            of = t["sequence"][b]
            scale = math.lib.where(of[rows] == (of[rows.start - 1] if c else 0), scale, 0.0)
        state = math.operand(math.number(t["states"][b, c, h]), dtype)
        outer = math.product(t["c"][b, rows, g], state.T) * scale[:, None]
        lines = math.count(count)
        below = lines[:, None] >= lines[None, :]
        gates = math.lib.exp(math.lib.where(below, decay[:, None] - decay[None, :], 0.0)) * dt[None, :]
        cb = math.lib.where(below, math.number(t["cb"][b, c, g, :count, :count]) * gates, 0.0)
        x = t["x"][b, rows, h]
        found = outer + math.product(math.operand(cb, dtype), x) + math.number(x) * math.number(t["d"])[h]
        if case.constexprs["GATED"]:
            gate = math.number(t["z"][b, rows, h])
            found = found * gate / (1 + math.lib.exp(-gate))
        out[b, rows, h] = found
    return {"out": out}


# --- mLSTM ---


def _steps(case: Specimen) -> Iterator[tuple[int, int, slice]]:
    """Head, chunk, and the rows of the chunk."""
    for head in range(case.size("HEADS")):
        for c in range(case.size("S") // case.size("L")):
            yield head, c, slice(c * case.size("L"), (c + 1) * case.size("L"))


def _mlstm_states(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    found, dtype = {name: math.zeros(case.shape(name)) for name in ("states", "norms", "m")}, case.tensors["k"].dtype
    for head, c, rows in _steps(case):
        b, i = (math.number(t[name][head, rows]) for name in "bi")
        before, a = found["m"][head, c], b[-1] - b + i
        after = max(b[-1] + before, a.max())
        gated = math.operand(math.number(t["k"][head, rows]).T * math.lib.exp(a - after)[None, :], dtype)
        decay = math.lib.exp(b[-1] + before - after)
        found["m"][head, c + 1] = after
        added = math.product(gated, t["v"][head, rows])
        found["states"][head, c + 1] = decay * found["states"][head, c] + added
        found["norms"][head, c + 1] = decay * found["norms"][head, c] + math.number(gated).sum(1)
    return found


def _mlstm_outputs(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    found, dtype = {name: math.zeros(case.shape(name)) for name in ("o", "n", "stabiliser")}, case.tensors["q"].dtype
    lines, scale = math.count(case.size("L")), number(case, "scale")
    for head, c, rows in _steps(case):
        b, i, m = (math.number(x) for x in (t["b"][head, rows], t["i"][head, rows], t["m"][head, c]))
        gates = b[:, None] - b[None, :] + i[None, :]
        gates = math.lib.where(lines[:, None] >= lines[None, :], gates, float("-inf"))
        stabiliser = math.lib.maximum(math.lib.amax(gates, 1), b + m)
        outer = math.lib.exp(b + m - stabiliser)
        q = math.number(t["q"][head, rows]) * outer[:, None] * scale
        state = math.operand(math.number(t["states"][head, c]), dtype)
        gated = (
            math.product(t["q"][head, rows], t["k"][head, rows].T) * scale * math.lib.exp(gates - stabiliser[:, None])
        )
        total = math.product(math.operand(q, dtype), state) + math.product(
            math.operand(gated, dtype), t["v"][head, rows]
        )
        norm = (q * math.number(t["norms"][head, c])[None, :]).sum(1) + gated.sum(1)
        n = math.lib.maximum(math.lib.abs(norm), math.lib.exp(-stabiliser))
        found["o"][head, rows] = total / (n[:, None] + 1e-6)
        found["n"][head, rows], found["stabiliser"][head, rows] = n, stabiliser
    return found


def _mlstm_state_gradients(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    found, dtype, scale = math.zeros(case.shape("gradients")), case.tensors["q"].dtype, number(case, "scale")
    for head, c, rows in reversed(list(_steps(case))):
        b, stabiliser, n = (math.number(t[name][head, rows]) for name in ("b", "stabiliser", "n"))
        before, after = (math.number(t["m"][head, at]) for at in (c, c + 1))
        q = math.number(t["q"][head, rows]).T * math.lib.exp(b + before - stabiliser)[None, :] * scale
        do = math.number(t["do"][head, rows]) / (n[:, None] + 1e-6)
        added = math.product(math.operand(q, dtype), math.operand(do, dtype))
        found[head, c] = math.lib.exp(b[-1] + before - after) * found[head, c + 1] + added
    return {"gradients": found}


def _mlstm_gradients(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    found, dtype = {name: math.zeros(case.shape(name)) for name in ("dq", "dk", "dv")}, case.tensors["q"].dtype
    lines, scale, width = math.count(case.size("L")), number(case, "scale"), case.size("BM")
    for head, c, rows in _steps(case):
        b, i, stabiliser, n = (math.number(t[name][head, rows]) for name in ("b", "i", "stabiliser", "n"))
        before, after = (math.number(t["m"][head, at]) for at in (c, c + 1))
        gates = b[:, None] - b[None, :] + i[None, :] - stabiliser[:, None]
        inner = math.lib.where(lines[:, None] >= lines[None, :], math.lib.exp(gates), 0.0)
        to_state, from_state = math.lib.exp(b[-1] - b + i - after), math.lib.exp(b + before - stabiliser)
        v, do = t["v"][head, rows], t["do"][head, rows]
        state, gradient = (
            math.operand(math.number(x), dtype) for x in (t["states"][head, c], t["gradients"][head, c + 1])
        )
        divided = math.operand(math.number(do) / (n[:, None] + 1e-6), dtype)
        ds = math.operand(math.product(divided, v.T) * inner, dtype)
        dq = math.product(do, state.T) * scale * (from_state / (n + 1e-6))[:, None]
        dk = math.product(v, gradient.T) * to_state[:, None]
        found["dq"][head, rows] = dq + math.product(ds, t["k"][head, rows]) * scale
        found["dk"][head, rows] = dk + math.product(ds.T, t["q"][head, rows]) * scale
        for part in range(case.size("PARTS")):
            own = slice(part * width, (part + 1) * width)
            q, k = (t[name][head, rows, own] for name in "qk")
            s = math.operand(math.product(q, k.T) * scale * inner, dtype)
            gated = math.operand(math.number(k) * to_state[:, None], dtype)
            found["dv"][part, head, rows] = math.product(s.T, divided) + math.product(gated, gradient[own])
    return found


REFERENCES: dict[str, Reference] = {
    "chunk_products": _chunk_products,
    "chunk_states": _chunk_states,
    "chunk_scan": _chunk_scan,
    "mlstm_states": _mlstm_states,
    "mlstm_outputs": _mlstm_outputs,
    "mlstm_state_gradients": _mlstm_state_gradients,
    "mlstm_gradients": _mlstm_gradients,
}
