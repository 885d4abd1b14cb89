"""Answers of processes as rows, and rows as a table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.harness import Row, Timing
from bench.regret.report import geometric
from bench.workers import Answer

STOCK, OURS = "stock", "Tawa"
Key = tuple[str, str, str]
"""Of an answer: workload, candidate, and ``first`` or ``second`` for a process with empty caches, or with its own."""


def rows_of(answers: Mapping[Key, Sequence[Answer]]) -> list[Row]:
    """A row for each key: `median_ms` is the time of the first launch over its processes; the rest is in the case."""
    return [_row(key, found, answers) for key, found in answers.items()]


def _row(key: Key, found: Sequence[Answer], answers: Mapping[Key, Sequence[Answer]]) -> Row:
    workload, candidate, process = key
    case: dict[str, Any] = {"workload": workload, "process": process}
    right = [it for it in found if it["status"] == "ok"]
    wrong = "; ".join(f"{it['status']}: {it.get('message', '')}" for it in found if it["status"] != "ok")
    if not right:
        return Row(case, candidate, error=wrong)
    stock = _whole(answers.get((workload, STOCK, "first"), ()))
    timing = Timing.of([it["first_s"] * 1e3 for it in right])
    case["processes"] = len(right)
    for it in right:
        if "import_s" in it:
            case.setdefault("import_ms", round(it["import_s"] * 1e3, 1))
    first = answers.get((workload, STOCK, process), ())
    if candidate != STOCK and (times := [it["first_s"] for it in first if it["status"] == "ok"]):
        case["over_stock"] = _short(timing.median_ms / 1e3 / statistics.median(times))
    if whole := _whole(right):
        case |= _told(whole, stock)
    learned = _whole(answers.get((workload, candidate, "first"), ()))
    if notes := [it["note"] for it in right if "note" in it]:
        case["note"] = notes[0]
    if process == "second" and candidate != STOCK and "kernels" in right[0] and learned and "kernels" in learned:
        case["begins_learned"] = right[0]["kernels"] == learned["kernels"]
    row = Row.timed(case, candidate, timing, 0.0)
    return Row(row.case, candidate, row.median_ms, row.p10_ms, row.p90_ms, None, wrong or None)


def _whole(found: Iterable[Answer]) -> Answer | None:
    """The answer of the process that went on after its first launch."""
    return next((it for it in found if "host" in it), None)


def _told(it: Answer, stock: Answer | None) -> dict[str, Any]:
    """What a whole process measured. stock: the same of stock Triton."""
    told: dict[str, Any] = {"host_us": _rounded(it["host"]), "gpu_ms": _short(it["gpu_ms"])}
    if "ready_s" in it:
        told |= {"ready": it["ready"], "ready_s": _short(it["ready_s"]), "meanwhile_calls": it["meanwhile_calls"]}
        told |= {"meanwhile_host_us": _rounded(it["meanwhile"])}
        told |= {
            "learning_calls": it["learning_calls"],
            "learning_s": _short(it["learning_s"]),
            "learned": it["learned"],
        }
    if stock is None or stock is it:
        return told
    told["gain"] = _short(stock["gpu_ms"] / it["gpu_ms"])
    told["host_over_stock"] = _short(it["host"]["mean"] / stock["host"]["mean"])
    if "kernels" in it and "kernels" in stock:
        told["is_stock"] = it["kernels"] == stock["kernels"]
    if "meanwhile" in it:
        told["meanwhile_over_stock"] = _short(it["meanwhile"]["mean"] / stock["host"]["mean"])
    if it.get("summed_calls"):
        best = min(it["gpu_ms"], stock["gpu_ms"])
        told |= {"summed_calls": it["summed_calls"],
                 "summed_over_best": _short(it["summed_ms"] / (it["summed_calls"] * best))}  # fmt: skip
    return told


def _rounded(host: Mapping[str, float]) -> dict[str, float]:
    return {name: round(us, 1) for name, us in host.items()}


def _short(value: float) -> float:
    return float(f"{value:.4g}")


COLUMNS = {
    "over_stock": "first", "ready_s": "ready s", "meanwhile_calls": "calls", "meanwhile_over_stock": "host then",
    "learning_calls": "learning", "host_over_stock": "host after", "gain": "gain", "summed_over_best": "sum/best",
}  # fmt: skip
"""Fields of a row of Tawa's first process and their titles."""


def lines_of(rows: Sequence[Row]) -> list[str]:
    """The table: a line for each workload, and the means."""
    ours = [row for row in rows if row.candidate == OURS and row.case["process"] == "first"]
    second = {row.case["workload"]: row for row in rows if row.candidate == OURS and row.case["process"] == "second"}
    stock = {row.case["workload"]: row for row in rows if row.candidate == STOCK and row.case["process"] == "first"}
    head = f"{'':32} {'stock ms':>9} " + " ".join(f"{title:>10}" for title in COLUMNS.values())
    lines = [f"{head} {'second':>8} {'learned':>8}"]
    for row in ours:
        name = row.case["workload"]
        if row.median_ms is None:
            lines.append(f"{name:32} {row.error}")
            continue
        theirs = stock[name].median_ms if name in stock else None
        cells = " ".join(f"{row.case.get(field, '-')!s:>10}" for field in COLUMNS)
        after = second[name].case if name in second else {}
        begins = {True: "yes", False: "no", None: "-"}[after.get("begins_learned")]
        told = f"{after.get('over_stock', '-')!s:>8} {begins:>8} {row.error or ''}".rstrip()
        lines.append(f"{name:32} {theirs or 0:9.1f} {cells} {told}")
    for title, them in (("first", ours), ("second", list(second.values()))):
        ratios = [row.case["over_stock"] for row in them if "over_stock" in row.case]
        if ratios:
            lines.append(f"first launch of the {title} process over stock Triton's: geometric mean "
                         f"{geometric(ratios):.3f}, worst {max(ratios):.3f}")  # fmt: skip
    for field, title in COLUMNS.items():
        values = [row.case[field] for row in ours if field in row.case]
        if values and field != "over_stock":
            lines.append(
                f"{title}: median {statistics.median(values):.4g}, worst {max(values):.4g}, least {min(values):.4g}"
            )
    return lines
