"""What the products with a scale for each block, and a loss with its linear layer, must compute; see
`tests.cases.numbers`.
"""

from __future__ import annotations

from typing import Any

from tests.cases.attention.problem import LOG2_E
from tests.cases.case import Number, Specimen
from tests.cases.numbers import Arrays, Numbers, Reference


def _product(case: Specimen, math: Numbers, a: Any, b: Any, a_scale: Any, b_scale: Any) -> Any:
    """A @ B^T with a scale for each block of 128 along K, and along the rows of B."""
    group, columns = case.size("GROUP"), math.count(case.size("N")) // case.size("GROUP")
    c = math.zeros((len(a), case.size("N")))
    for g, k in enumerate(range(0, case.size("K"), group)):
        scale = math.number(a_scale)[:, g, None] * math.number(b_scale)[columns, g][None, :]
        c = c + math.product(a[:, k : k + group], b[:, k : k + group].T) * scale
    return c


def _gemm_scaled(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    return {"c": _product(case, math, t["a"], t["b"], t["as"], t["bs"])}


def _experts_scaled(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    """Pairs of an expert on another machine get zeros."""
    step, pairs = case.size("BM"), [int(x) for x in case.tensors["tokens"].values]
    c = math.zeros(case.shape("c"))
    for i, owner in enumerate(case.tensors["experts"].values):
        mine, expert = [pair for pair in pairs[i * step : (i + 1) * step] if pair < case.size("TOKENS")], int(owner)
        if mine and expert >= 0:
            rows = [pair // case.size("TOP_K") for pair in mine]
            c[mine] = _product(case, math, t["a"][rows], t["b"][expert], t["as"][rows], t["bs"][expert])
    return {"c": c * math.number(t["weights"])[:, None]}


def _linear_loss_gradients(case: Specimen, t: Arrays, math: Numbers) -> Arrays:
    given = case.arguments["scale"]
    assert isinstance(given, Number) and isinstance(given.value, float)
    logits, scale = math.product(t["x"], t["w"].T), given.value
    p = math.lib.exp2(logits * (scale * LOG2_E) - math.number(t["lse"])[:, None])
    hit = math.count(case.size("N"))[None, :] == t["target"][:, None]
    d = math.operand((p - math.number(hit)) * scale, case.tensors["x"].dtype)
    return {"dx": math.product(d, t["w"]), "dw": math.product(d.T, t["x"])}


REFERENCES: dict[str, Reference] = {
    "linear_loss_gradients": _linear_loss_gradients,
    "gemm_scaled": _gemm_scaled,
    "experts_scaled": _experts_scaled,
}
