"""Times every GEMM case that specialises against stock Triton: ``python -m bench.gemm.matrix [--only NAME]``.

Same kernel, same configuration, Tawa in automatic mode with its own Plan: what a user gets by adding `tawa.jit`. The
question is whether Tawa is ever slower, not how fast it is. Results: ``bench/results/gemm_matrix.json``, with
``--all`` ``gemm_matrix_all.json``; ``error`` of a row is null or a text.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

from bench.harness import Report, Row, describe, time_round_robin, watchdog
from tests.cases.case import Specimen
from tests.cases.gemm.cases import CASES

STALL_S = 60.0
M, N, K = 4096, 4096, 2048
SLOWER = 0.985  # smaller ratios are reported as slower: the spread of a round-robin run is about 1%


def large(case: Specimen) -> Specimen:
    """The case on a problem that fills the GPU for a while."""
    sizes = {"M": M, "N": N, "K": K}
    if "Z" in case.sizes:
        sizes |= {"M": 2048, "N": 2048, "Z": 4}
    if "PROGRAMS" in case.sizes:
        sizes["PROGRAMS"] = 132
    if "K2" in case.sizes:
        sizes["K2"] = K
    return case.with_sizes(**sizes)


def bench_case(case: Specimen, options: dict[str, Any]) -> list[Row]:
    """Rows for stock Triton and for Tawa."""
    import torch

    import tawa
    from tests.cases import launch

    case = large(case)
    tensors = launch.make_tensors(case, seed=0)
    kernel = tawa.jit(case.kernel)
    compiled = launch.launch(case, kernel, tensors, **options)
    explanation = tawa.explain(compiled)
    torch.cuda.synchronize()
    calls: dict[str, Any] = {
        "stock Triton": lambda: launch.launch(case, case.kernel, tensors),
        "Tawa": lambda: launch.launch(case, kernel, tensors, **options),
    }
    timings, errors = time_round_robin(calls, rounds=9)
    about = {"name": case.name, **{name: case.sizes[name] for name in ("M", "N", "K")}, "applied": explanation.applied}
    if not explanation.applied:
        about["reason"] = explanation.reason
    flop = 2.0 * M * N * K
    rows = [Row.timed(about, name, timing, flop, None) for name, timing in timings.items()]
    return rows + [Row(about, name, error=text) for name, text in errors.items()]


def main() -> int:
    """Times the cases asked for and prints the ratios, worst first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--all", action="store_true", help="also what automatic mode declines as not expected to pay")
    arguments = parser.parse_args()
    from tests.cases import launch

    launch.allow_device_descriptors()
    start = time.monotonic()
    report = Report("gemm_matrix_all" if arguments.all else "gemm_matrix")
    ratios: list[tuple[float, str, str]] = []
    for case in CASES:
        if arguments.only not in case.name or case.expect.verdict == "declined" or case.reference in ("ragged", ""):
            continue
        if time.monotonic() - start > arguments.minutes * 60:
            print(f"{case.name}: skipped, out of time", flush=True)
            continue
        try:
            with watchdog(STALL_S, case.name):
                rows = bench_case(case, {"only_if_faster": False} if arguments.all else {})
        except Exception as error:
            rows = [Row({"name": case.name}, "Tawa", error=describe(error))]
            print(f"{case.name}: {describe(error)}", flush=True)
        report.add(*rows)
        times = {row.candidate: row.median_ms for row in rows if row.median_ms}
        if len(times) == 2:
            ratios.append((times["stock Triton"] / times["Tawa"], case.name, str(rows[0].case.get("reason", ""))))
    for ratio, name, reason in sorted(ratios):
        print(f"{ratio:6.3f}  {name}  {reason}")
    slower = [name for ratio, name, _ in ratios if ratio < SLOWER]
    print(f"{len(ratios)} cases, {len(slower)} slower than stock; {report.save()}", flush=True)
    return 1 if slower else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
