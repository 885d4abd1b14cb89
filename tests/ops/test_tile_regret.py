"""The tiles that products get, beside the times of all tiles of their tables in ``bench/results``."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.products.measuring import named
from tawa.ops.products.tile_choice import BATCHED, BATCHED_TF32, SCALED_BLOCKS, Tile, fastest
from tawa.plan.cost.tile_time import Device

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results"
H100 = Device(132, 3.352e6)


def measured(tile: Tile, times: dict[str, float]) -> float | None:
    """The time of a tile; of one that was not timed with its options, the best with others."""
    block = named(replace(tile, options=())).partition(",")[0]
    alike = [time for name, time in times.items() if name.startswith(f"{block},")]
    return times.get(named(tile)) or min(alike, default=None)


def regrets(name: str, choose: Any) -> list[float]:
    """The time of the chosen tile over that of the fastest one of its table, for each problem of a result file."""
    timed: dict[str, dict[str, float]] = defaultdict(dict)
    for row in json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]:
        if row["median_ms"]:
            timed[json.dumps(row["case"])][row["candidate"]] = row["median_ms"]
    found: list[float] = []
    for case, times in timed.items():
        table, chosen = choose(json.loads(case))
        known = {it: time for it in table if (time := measured(it, times)) is not None}
        if len(known) > 1:
            found.append(known[chosen] / min(known.values()))
    return found


def batched(case: dict[str, Any]) -> tuple[tuple[Tile, ...], Tile]:
    table, size = (BATCHED_TF32, 4) if case["dtype"] == "fp32" else (BATCHED, 2)
    return table, fastest(table, case["M"], case["N"], case["K"], size, H100, case["batches"])


def scaled(case: dict[str, Any]) -> tuple[tuple[Tile, ...], Tile]:
    table = () if case["fast"] else SCALED_BLOCKS  # fast sums are those of `tawa.ops.products.tiles`
    return table, fastest(SCALED_BLOCKS, case["M"], case["N"], case["K"], 1, H100, scaled=True)


@pytest.mark.parametrize(
    ("name", "choose", "problems", "mean", "worst"),
    [("batched_candidates", batched, 8, 1.004, 1.03), ("scaled_candidates", scaled, 6, 1.004, 1.03)],
)
def test_the_chosen_tiles_are_nearly_the_fastest_measured_ones(
    name: str, choose: Any, problems: int, mean: float, worst: float
) -> None:
    found = regrets(name, choose)
    assert len(found) >= problems
    assert math.exp(sum(map(math.log, found)) / len(found)) <= mean and max(found) <= worst
