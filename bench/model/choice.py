"""What choosing by held-out predictions would have cost: regret over measured candidates, kernels apart from the fit.

For each group the candidate with the largest predicted gain is taken if the model is sure of it, as a launch does
(`tawa.plan.search.search`); otherwise stock Triton's. Predictions come from the fit that did not see the kernel, errors
of its regime from the other kernels.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.model.items import Item, groups_of
from tawa.machine.coefficients import ErrorInfo
from tawa.plan.cost.programs import stock_program
from tawa.plan.search.prediction import regime_of
from tawa.plan.thresholds import DOUBT

ErrorOf = Callable[[Sequence[float]], ErrorInfo]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The choice for one group. regret: its time over the least. over_stock: its rate over stock's, if measured."""

    kernel: str
    shape: str
    candidate: str
    regret: float
    over_stock: float | None


def choices(items: Sequence[Item], predicted: Mapping[int, float], error_of: ErrorOf, source: str) -> list[Chosen]:
    """The choices in all groups of one source. predicted: by `id` of the item. error_of: errors → those of a regime."""
    errors: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for group in groups_of(items):
        stock = next((it for it in group if it.stock), None)
        for it in group if stock is not None else ():
            if stock is not None and not it.stock:
                told = math.log(predicted[id(stock)] / predicted[id(it)])
                off = told - math.log(stock.point.median_us / it.point.median_us)
                errors[_regime(it, stock)].append((it.point.kernel, off))
    found: list[Chosen] = []
    for group in groups_of(items):
        own = [it for it in group if not it.stock]
        if group[0].point.source != source or not own:
            continue
        stock = next((it for it in group if it.stock), None)

        def gain(it: Item, stock: Item | None = stock) -> tuple[float, float]:
            info = error_of([off for kernel, off in errors[_regime(it, stock)] if kernel != it.point.kernel])
            of_stock = predicted[id(stock)] if stock is not None else 1.0
            return math.log(of_stock / predicted[id(it)]), DOUBT * info.deviation

        taken = max(own, key=lambda it: gain(it)[0])
        ahead, doubt = gain(taken)
        if stock is not None and ahead < doubt:
            taken = stock
        least = min(it.point.median_us for it in group)
        over = stock.point.median_us / taken.point.median_us if stock is not None else None
        point = taken.point
        found.append(Chosen(point.kernel, point.shape, point.candidate, point.median_us / least, over))
    return found


def summary(found: Sequence[Chosen]) -> dict[str, float]:
    """Geometric means and extremes, rounded."""
    over = [it.over_stock for it in found if it.over_stock is not None]
    return {
        "groups": len(found),
        "regret": round(statistics.geometric_mean(it.regret for it in found), 4),
        "worst": round(max(it.regret for it in found), 3),
        "over_stock": round(statistics.geometric_mean(over), 3),
        "slowest": round(min(over), 3),
        "slower": sum(it < 0.98 for it in over),
    }


def _regime(it: Item, stock: Item | None) -> str:
    """stock: what was measured beside it, if it was."""
    case = it.point.case
    beside = stock.program if stock is not None else stock_program(it.workload, case.num_warps, case.num_stages)
    return regime_of(it.workload, it.launch, it.program, beside)


__all__ = ["Chosen", "choices", "summary"]
