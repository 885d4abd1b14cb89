"""What the kernels of the forms must compute, over `tests.cases.numbers.Numbers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.cases.attention.problem import number
from tests.cases.case import Specimen

Arrays = Mapping[str, Any]


def _differences(case: Specimen, t: Arrays, math: Any) -> Arrays:
    o, columns = math.zeros(case.shape("o")), case.size("BN")
    for batch in range(case.size("B")):
        for head in range(case.size("H")):
            scores = math.product(t["q"][batch][head], t["k"][batch][head].T)
            for first in range(0, case.size("S"), columns):
                part = scores[:, first : first + columns]
                o[batch, head, :, : part.shape[1]] += part
    return {"o": o}


def _chunk_states(case: Specimen, t: Arrays, math: Any) -> Arrays:
    state, step = math.zeros(case.shape("state")), case.size("CHUNK")
    for chunk in range(case.size("CHUNKS")):
        part = slice(chunk * step, (chunk + 1) * step)
        state[chunk] = math.product(t["x"][part].T, t["b"][part])
    return {"state": state}


def _masks_as_numbers(case: Specimen, t: Arrays, math: Any) -> Arrays:
    scores = math.product(t["q"], t["k"].T) * number(case, "scale")
    p = 2.0 ** (scores - scores.max())
    dtype = case.tensors["v"].dtype
    return {"o": math.product(math.operand(p, dtype), t["v"]) / p.sum(1)[:, None]}


def _packed_heads(case: Specimen, t: Arrays, math: Any) -> Arrays:
    o, block, heads = math.zeros(case.shape("o")), case.size("BT"), case.size("G")
    for at, first in enumerate(range(0, case.size("T"), block)):
        q = t["q"][first : first + block, :heads].reshape(-1, case.size("D"))
        o[: len(q)] += math.product(q, t["k"][at].T)
    return {"o": o}


def _reshaped_places(case: Specimen, t: Arrays, math: Any) -> Arrays:
    c, rows = math.zeros(case.shape("c")), case.size("BM")
    for at, tiles in enumerate(t["a"]):
        for a, b in zip(tiles, t["b"], strict=True):
            c[at * rows : (at + 1) * rows] += math.product(a, b)
    return {"c": c}


def _flipped_rows(case: Specimen, t: Arrays, math: Any) -> Arrays:
    state, step = math.zeros(case.shape("state")), case.size("L")
    for first in range(0, case.size("S"), step):
        part = slice(first, first + step)
        gates = math.number(t["gate"][first + 1 : first + step])
        scaled = [math.number(t["v"][first + at]) * 2.0 ** gates[at:].sum() for at in range(step)]
        state += math.product(t["k"][part].T, math.operand(math.lib.stack(scaled), case.tensors["v"].dtype))
    return {"state": state}


FORM_REFERENCES = {
    "form_differences": _differences,
    "form_chunk_states": _chunk_states,
    "form_masks_as_numbers": _masks_as_numbers,
    "form_packed_heads": _packed_heads,
    "form_reshaped_places": _reshaped_places,
    "form_flipped_rows": _flipped_rows,
}
