"""Compile times over stock: how answers become rows, and rows a summary."""

from __future__ import annotations

from typing import Any

from bench.compile_ratio import CASES, find_case, jobs, rows_of, summarise

JOB = {"of": "gemm: a", "modes": ["stock", "automatic"], "corpus": False}


def kernel(name: str, seconds: list[float], applied: bool = True, runs: int = 1) -> dict[str, Any]:
    reason = "" if applied else "the dot is not in a loop"
    return {"kernel": name, "seconds": seconds, "cpu": seconds, "applied": applied, "reason": reason, "runs": runs}


def answer(ours: list[dict[str, Any]]) -> dict[str, Any]:
    stock = [kernel("k", [1.0, 1.5], applied=False, runs=0), kernel("l", [2.0], applied=False, runs=0)]
    return {"status": "done", "found": {"stock": stock, "automatic": ours}}


def test_a_ratio_is_that_of_the_shortest_rounds() -> None:
    rows = rows_of(JOB, answer([kernel("k", [4.0, 1.8]), kernel("l", [2.1], applied=False, runs=0)]))
    assert [row.case.get("ratio") for row in rows] == [None, None, 1.8, 1.05]
    assert rows[-1].case["reason"] == "the dot is not in a loop" and rows[-1].median_ms == 2100.0


def test_kernels_that_are_not_the_same_are_not_compared() -> None:
    rows = rows_of(JOB, answer([kernel("k", [4.0])]))
    assert all("ratio" not in row.case for row in rows)
    failed = rows_of(JOB, {"status": "hung", "message": "silent"})
    assert failed[0].error == "hung: silent" and summarise([*rows, *failed]) == []


def test_declined_kernels_are_summed_up_apart_and_judged_by_their_own_limit() -> None:
    rows = rows_of(JOB, answer([kernel("k", [2.9], runs=2), kernel("l", [2.1], applied=False, runs=0)]))
    declined, specialised = summarise(rows)
    assert (declined.applied, declined.good, specialised.applied, specialised.good) == (False, True, True, False)
    assert specialised.row().case["worst_kernel"] == "gemm: a: k" and specialised.row().case["most_runs"] == 2
    assert "worst  2.90" in str(specialised)


def test_every_case_exists_and_some_can_be_chosen() -> None:
    for name in CASES:
        assert find_case(name).name == name.partition(": ")[2]
    assert [job["of"] for job in jobs("", ["dkdv_4warps"], 1, 1)] == ["attention: dkdv_4warps"]
