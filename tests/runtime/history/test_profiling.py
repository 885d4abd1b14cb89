from __future__ import annotations

import tawa
from tawa.runtime.history.profiling import profiled, read_profile


def test_a_profile_is_read_over_all_callers() -> None:
    leaf = {"frame": {"name": "gemm"}, "metrics": {"time (ns)": 2_000_000, "count": 3}, "children": []}
    other = {"frame": {"name": "cublas"}, "metrics": {"time (ns)": 500_000, "count": 1}, "children": []}
    scope = {"frame": {"name": "train"}, "metrics": {}, "children": [leaf, other]}
    root = {"frame": {"name": "ROOT"}, "metrics": {}, "children": [scope, leaf]}
    assert read_profile([root, {"CUDA": {}}]) == ({"gemm": 4.0, "cublas": 0.5}, {"gemm": 6, "cublas": 1})


def test_where_no_profiler_starts_the_block_runs_and_the_reason_is_noted() -> None:
    ran = []
    with profiled():
        ran.append(True)
    assert ran
    assert tawa.report().note
