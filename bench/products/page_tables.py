"""The tables of products on the pages, from their result files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bench.harness import RESULTS, Row, read
from bench.report import BEST_STOCK, TAWA, by_case

Case = Mapping[str, Any]


def grouped() -> list[str]:
    """Products of groups of rows."""

    def sizes(case: Case) -> str:
        form = "rows" if case["kind"] == "rows" else "sums over rows"
        return f"{form}, {case['skew']} | {case['T']} | {case['N']} × {case['K']}"

    return _table("form, groups | rows | N × K", "grouped", sizes, {"PyTorch": "PyTorch"})


def moe() -> list[str]:
    """Mixtures of experts."""
    names = {"qwen3": "Qwen3 30B-A3B", "mixtral": "Mixtral 8x7B", "deepseek": "DeepSeek-V3, an eighth"}

    def sizes(case: Case) -> str:
        return f"{names[case['layer']]} | {case['tokens']}"

    return _table("layer | tokens", "moe", sizes, {"Tawa, choices sorted before": "sorted before"})


def scaled() -> list[str]:
    """Products with scales."""

    def sizes(case: Case) -> str:
        return f"{case['kind']}{', fast sums' if case['fast'] else ''} | {case['M']} × {case['N']} × {case['K']}"

    return _table("scales | M × N × K", "scaled", sizes, {"PyTorch": "PyTorch"})


def batched() -> list[str]:
    """Products of batches."""

    def sizes(case: Case) -> str:
        return f"{case['dtype']} {case['transposed']} | {case['batches']} × {case['M']} × {case['N']} × {case['K']}"

    return _table("type, layout | B × M × N × K", "batched", sizes, {"cuBLAS": "cuBLAS"})


def _table(head: str, file: str, sizes: Callable[[Case], str], others: dict[str, str]) -> list[str]:
    """A line for each case: times, rates, and how much faster Tawa is. others: candidates, and their columns."""
    compared = {**others, BEST_STOCK: BEST_STOCK}
    columns = [*head.split(" | "), "µs", "TFLOP/s", *(f"× {title}" for title in compared.values())]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for rows in by_case(read(RESULTS / f"{file}.json")[1]):
        mine = rows[TAWA]
        ratios = " | ".join(_ratio(rows.get(name), mine) for name in compared)
        first = f"{sizes(mine.case)} | {1000 * (mine.median_ms or 0):.0f} | {mine.tflops or 0:.0f}"
        lines.append(f"| {first} | {ratios} |")
    return lines


def _ratio(other: Row | None, mine: Row) -> str:
    return f"{(other.median_ms or 0) / (mine.median_ms or 1):.2f}" if other else ""
