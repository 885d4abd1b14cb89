"""The table of docs/proof.md: how often the checks were right, from the result files of benches without a GPU.

Of a wrong program, refuted is the right verdict, and proved a wrong one; of a right program, the reverse. Checked and
unknown say nothing of all runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bench.harness import Row

Case = Mapping[str, Any]
_WRONG, _RIGHT = ("refuted", "proved"), ("proved", "refuted")
"""The verdict that programs should get, and the one that they must not get."""


def table(rows: Callable[[str], Sequence[Row]]) -> list[str]:
    """One line for each kind of program. rows: those of the result file with this name."""

    def cases(name: str, candidate: str, **wanted: object) -> list[Case]:
        found = [it.case for it in rows(name) if it.candidate == candidate]
        return [case for case in found if all(case.get(key) == value for key, value in wanted.items())]

    mutants = cases("mutations", "check")
    wrong_mutants = sum(_sum(mutants, fate) for fate in ("refuted", "unknown", "checked", "missed"))
    refuted = _sum(cases("foreign", "all kernels"), "refuted")
    odd = [str(it.error) for it in rows("foreign") if it.candidate == "not refuted" and it.error is not None]
    (kernels,) = cases("verify", "proved")
    bad = {it.case["kernel"] for it in rows("verify") if str(it.error).startswith("refuted")}
    late, harmless = (cases("reviewed_mutants", f"{it} programs") for it in ("faulty", "right"))
    by_hand, by_hand_right = (cases("protocols", f"{it} programs") for it in ("faulty", "right"))
    faulty, right = (cases("predicates", "verdicts", truth=it) for it in ("faulty", "right"))
    stock = cases("stock_verdicts", "final")
    return [
        "| programs | how many | right verdict | no verdict on all runs | wrong verdict |",
        "|---|---|---|---|---|",
        _line("wrong, by one edit (`bench.mutations`)", wrong_mutants, _sum(mutants, "refuted"),
              _sum(mutants, "missed")),
        _programs("wrong, faults that show late (`bench.reviewed`)", late, _WRONG),
        _programs("wrong, random conditions (`bench.predicates`)", faulty, _WRONG),
        _line("wrong, faults in kernels of others (`bench.foreign`)", refuted + len(odd), refuted,
              sum(it.startswith("proved") for it in odd)),
        _programs("wrong, written by hand (`bench.protocols`)", by_hand, _WRONG),
        _programs("right, harmless edits (`bench.reviewed`)", harmless, _RIGHT),
        _programs("right, written by hand (`bench.protocols`)", by_hand_right, _RIGHT),
        _programs("right, random conditions (`bench.predicates`)", right, _RIGHT),
        _programs("right, stock Triton's final TTGIR (`bench.stock_verdicts`)", stock, _RIGHT),
        _line("right, kernels of Tawa, at both levels (`bench.verify`)", kernels["kernels"], kernels["proved"],
              len(bad)),
    ]  # fmt: skip


def source_lines(rows: Sequence[Row]) -> str:
    """How many lines the checks had."""
    return next(str(row.case["lines"]) for row in rows if row.candidate == "proved")


def _programs(what: str, cases: Sequence[Case], verdicts: tuple[str, str]) -> str:
    number = _sum(cases, "modules" if "modules" in cases[0] else "programs")
    return _line(what, number, *(_sum(cases, verdict) for verdict in verdicts))


def _line(what: str, number: int, right: int, wrong: int) -> str:
    return f"| {what} | {number} | {right} | {number - right - wrong} | {wrong} |"


def _sum(cases: Iterable[Case], key: str) -> int:
    return sum(int(case.get(key, 0)) for case in cases)
