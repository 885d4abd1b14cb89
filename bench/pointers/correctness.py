"""Runs every pointer case on a GPU and compares it with float64: ``python -m bench.pointers.correctness``.

For each case of `tests.cases.pointers.cases` and `tests.cases.operations.cases`, inputs are random and outputs are
full of NaN. The kernel is specialised wherever that is legal: as planned, with D = 2 and P = 1 asked for, and made
persistent on two SMs (asked for, or since there are more programs than SMs). Products also run with trip counts around
the depth of the pipeline, persistent ones also on other numbers of programs. Each is run four times, each time in other
memory, and once by stock Triton.

A problem passes if the bits are the same every time, every element of the output and no other is written, the error is
at most twice that of PyTorch in the same precision (`tests.cases.check`), and the case is specialised, or left to stock
Triton, as its `Expectation` says.

Cases run in several processes under a watchdog (`bench.workers`). Results: ``bench/results/pointers_correctness.json``;
the ``error`` of a row is the error divided by the allowed error (at most 1 passes), or a text. ``--only NAME`` takes
some cases.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bench.case_jobs import CaseBench, on_processors
from bench.harness import describe
from tests.cases.case import Specimen
from tests.cases.operations.cases import CASES as OPERATIONS
from tests.cases.pointers.cases import CASES as POINTERS

RUNS = 4
PROGRAMS = (2, 12)
TRIPS = (0, 1, 2, 3, 4, 7)
WAYS: dict[str, dict[str, Any]] = {
    "planned": {},
    "shallow": {"aref_depth": 2, "mma_depth": 1},
    "persistent": {"persistent": True},
    "two SMs": {"persistent": None},
}
CASES = (*POINTERS, *OPERATIONS)
PROCESSORS = 2  # few, so that a persistent kernel needs several rounds for each of these problems


def problems(case: Specimen) -> Iterator[tuple[str, Specimen]]:
    """The case's own problem; other trip counts, other numbers of programs."""
    yield "own", case
    if "persistent" in case.tags:
        for count in PROGRAMS:
            constexprs = {**case.constexprs, "PROGRAMS": count}
            yield f"{count} programs", replace(case.with_sizes(PROGRAMS=count), constexprs=constexprs)
    if case.reference == "pointer_gemm" and "stride_am" in case.arguments and not case.constexprs.get("EVEN_K"):
        for trips in TRIPS:
            yield f"{trips} trips", case.with_sizes(K=trips * case.size("BK"))


def check(case: Specimen, options: dict[str, Any]) -> dict[str, Any]:
    """Runs one problem and judges it."""
    import torch

    import tawa
    from tawa.errors import PlanError, ResourceError
    from tests.cases import launch
    from tests.cases.check import judge_all

    kernel = tawa.jit(case.kernel)
    placed: list[dict[str, Any]] = []

    def run(function: Any, **more: Any) -> tuple[Any, dict[str, Any]]:
        placed.append(launch.make_tensors(case, seed=zlib.crc32(case.name.encode())))
        compiled = launch.launch(case, function, placed[-1], **more)
        torch.cuda.synchronize()
        return compiled, {name: placed[-1][name].clone() for name in launch.outputs(case)}

    outputs: list[dict[str, Any]] = []
    compiled: Any = None
    for _ in range(RUNS):
        try:
            with on_processors(PROCESSORS if "persistent" in options else None):
                compiled, output = run(kernel, only_if_faster=False, **options)
        except (PlanError, ResourceError) as error:
            return {"status": "ok", "declined": describe(error)}
        outputs.append(output)
    answer, faults = describe_compiled(case, compiled, bool(options))
    if case.reference:
        stock = None
        try:
            _, stock = run(case.kernel)
        except RuntimeError as error:
            if "PassManager" not in str(error):
                raise
            answer["stock"] = "Triton 3.6.0 cannot compile it"
        verdict = judge_all(case, placed[-1], outputs, stock)
        answer |= {"ratio": min(verdict.ratio, 1e9), "stock_bits": verdict.same_bits_as_stock}
        faults += verdict.faults
    answer["status"] = "failed" if faults else "ok"
    return {**answer, "message": "; ".join(faults)} if faults else answer


def describe_compiled(case: Specimen, compiled: Any, pinned: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What Tawa made of a kernel, and what is wrong with it. pinned: D and P were asked for, so it may be declined."""
    record = compiled.metadata.tawa
    verdict = "specialised" if record["applied"] else "declined"
    answer: dict[str, Any] = {"specialised": record["applied"], "registers": compiled.n_regs,
                              "spills": compiled.n_spills}  # fmt: skip
    if record["applied"]:
        answer["D"] = [ring["depth"] for ring in record["plan"]["rings"]]
        answer["groups"] = sum(part["role"] == "consumer" for part in record["plan"]["partitions"])
    else:
        answer["declined"] = record["reason"]
    wrong = case.expect.verdict not in (verdict, "either") and not (pinned and verdict == "declined")
    return answer, ((f"{verdict}, not {case.expect.verdict}: {record['reason']}",) if wrong else ())


BENCH = CaseBench("bench.pointers.correctness", "pointers_correctness", __doc__ or "", CASES, WAYS, problems, check)

if __name__ == "__main__":
    raise SystemExit(BENCH.main())
