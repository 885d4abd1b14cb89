"""The table of verdicts in docs/proof.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.harness import Row
from bench.verdict_table import source_lines, table

COUNTS = {"checked": 2, "unknown": 1}
MUTANTS = {"made": 9, "refuted": 5, "unknown": 1, "checked": 1, "missed": 1, "equivalent": 2}
RESULTS: Mapping[str, Sequence[Row]] = {
    "mutations": [Row(MUTANTS, "check"), Row({}, "unbroken")],
    "foreign": [
        Row({"refuted": 7}, "all kernels"),
        Row({"refuted": 5}, "fault"),
        Row({}, "not refuted", error="proved: no known reason"),
        Row({}, "not refuted", error="checked: no known reason"),
        Row({}, "not refuted"),
    ],
    "reviewed_mutants": [
        Row({"programs": 10, "proved": 3, "refuted": 4, **COUNTS}, "faulty programs"),
        Row({"programs": 10, "proved": 6, "refuted": 1, **COUNTS}, "right programs"),
    ],
    "protocols": [
        Row({"programs": 6, "proved": 1, "refuted": 2, **COUNTS}, "faulty programs"),
        Row({"programs": 6, "proved": 3, "refuted": 0, **COUNTS}, "right programs"),
    ],
    "predicates": [
        Row({"truth": "faulty", "programs": 8, "proved": 0, "refuted": 5, **COUNTS}, "verdicts"),
        Row({"truth": "right", "programs": 8, "proved": 5, "refuted": 0, **COUNTS}, "verdicts"),
    ],
    "stock_verdicts": [
        Row({"modules": 5, "proved": 1, "refuted": 1, **COUNTS}, "final"),
        Row({"modules": 5, "proved": 0, "refuted": 5}, "before fences"),
    ],
    "verify": [
        Row({"kernel": "all", "kernels": 4, "proved": 2, "lines": 7000}, "proved"),
        *(Row({"kernel": "one"}, f"barriers {it}", error="refuted: deadlock") for it in ("fast", "full")),
        Row({"kernel": "two"}, "barriers full", error="unknown: an operation"),
    ],
}


def test_a_wrong_program_must_be_refuted_and_a_right_one_proved() -> None:
    counted = [[int(cell) for cell in line.split("|")[2:-1]] for line in table(RESULTS.__getitem__)[2:]]
    assert counted == [
        [8, 5, 2, 1],
        [10, 4, 3, 3],
        [8, 5, 3, 0],
        [9, 7, 1, 1],
        [6, 2, 3, 1],
        [10, 6, 3, 1],
        [6, 3, 3, 0],
        [8, 5, 3, 0],
        [5, 1, 3, 1],
        [4, 2, 1, 1],
    ]
    assert source_lines(RESULTS["verify"]) == "7000"
