"""What the proofs and the simulator cost: ``python -m bench.verify``, no GPU.

Every specialised GEMM kernel of the matrix, and one attention kernel of each form, is checked at both levels, with the
effort of a compile (`fast`) and with that of ``tawa verify`` (`full`). ``--every`` takes all kernels of the matrix:
GEMM, attention, pointers and operations. The best of `--repeat` runs counts, each on a fresh module. Times are
processor times, on which other work on the machine has little influence. "compile" is what a compile adds: credits and
barriers, fast. One GEMM of 512 x 512 x 512 is simulated in each landing order. ``--only TEXT`` takes some kernels.

Results: ``bench/results/verify.json``; an error is the verdict of a check that did not prove its kernel. "proved" has
the number of kernels, of those that are proved at both levels, and of lines of the checks.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import tawa.verify
from bench.harness import Report, Row, Timing
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.triton.signature import Signature
from tawa.errors import UnsupportedKernel
from tawa.ir import Module, parse_module
from tawa.plan import PlanOptions
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.verdict import Checked, Proved, Verdict
from tawa.verify.witness import describe
from tests.cases.arrays import make_arrays, simulate_case
from tests.cases.attention.cases import CASES as EVERY_ATTENTION
from tests.cases.attention.cases import find as find_attention
from tests.cases.case import Specimen
from tests.cases.gemm.cases import SPECIALISED, find
from tests.cases.operations.cases import CASES as OPERATIONS
from tests.cases.pointers.cases import CASES as POINTERS

FAST_MEDIAN_MS, FAST_WORST_MS, FULL_WORST_MS, SIMULATION_WORST_MS = 6.0, 60.0, 2000.0, 5000.0
SOURCE = Path(tawa.verify.__file__).parent
SIMULATED = "tile_fp16_nn"
SIZE = 512
ATTENTION = (
    "two_loops_fp16_d64_full", "two_loops_fp16_d128_causal", "two_loops_window100", "two_loops_gqa",
    "two_loops_alibi_softcap_window", "one_loop_fp16_d128_causal", "one_loop_window128", "branch_fp16_d64_causal",
    "persistent_fp16_d64_full", "persistent_fp16_d64_causal", "persistent_gqa_window", "varlen_fp16_d64_full",
    "varlen_fp16_d64_causal", "varlen_window", "tutorial_fp16_d64_causal", "flex_d64", "dkdv_fp16_d64_causal",
    "dkdv_gqa", "dq_fp16_d64_causal", "dq_gqa",
)  # fmt: skip
"""Each form of attention, with the masks that change its loops."""


def levels(case: Specimen) -> tuple[str, str]:
    """The texts of the aref and of the barrier level."""
    names = case.kernel.arg_names
    constants = {(names.index(name),): value for name, value in case.constants().items()}
    signature = Signature(case.signature(), constants, case.attributes())
    request = Request(PlanOptions(enable_warp_specialization=True), verification="off")
    compiled = compile_kernel(case.kernel, signature, request, num_warps=case.num_warps, num_stages=case.num_stages)
    return compiled.asm["aref"], compiled.asm["barrier"]


def best_ms(check: Callable[..., Verdict], texts: tuple[str, ...], repeat: int) -> tuple[float, Verdict]:
    """The shortest of some runs, each on modules of its own, and the verdict."""
    times: list[float] = []
    verdict: Verdict | None = None
    for _ in range(repeat):
        modules: list[Module] = [parse_module(text) for text in texts]
        start = time.process_time()
        verdict = check(*modules)
        times.append((time.process_time() - start) * 1000)
    assert verdict is not None
    return min(times), verdict


def check_all(case: Specimen, repeat: int) -> dict[str, tuple[float, Verdict]]:
    """Milliseconds and verdict of each check of one kernel."""
    aref, barrier = levels(case)
    return {
        "credits fast": best_ms(lambda it: check_credits(it, effort="fast"), (aref,), repeat),
        "barriers fast": best_ms(lambda it: check_barriers(it, effort="fast"), (barrier,), repeat),
        "credits full": best_ms(check_credits, (aref,), 1),
        "barriers full": best_ms(check_barriers, (barrier,), 1),
        "refinement full": best_ms(check_refinement, (aref, barrier), 1),
    }


def simulate_ms(order: Any) -> float:
    """Milliseconds of one simulated GEMM of SIZE³ at the barrier level."""
    case = find(SIMULATED).with_sizes(M=SIZE, N=SIZE, K=SIZE)
    module, arrays = parse_module(levels(case)[1]), make_arrays(case)
    start = time.process_time()
    simulate_case(case, module, arrays, order)
    return (time.process_time() - start) * 1000


_TAKEN: list[Specimen] = []


def _checked(place: int, repeat: int) -> dict[str, tuple[float, Verdict]] | str:
    """The checks of a kernel; why it is declined."""
    try:
        return check_all(_TAKEN[place], repeat)
    except UnsupportedKernel as declined:
        return str(declined)


def main() -> int:
    """Times all checks and prints the medians and the worst."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--every", action="store_true", help="all kernels of the matrix")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    from triton import knobs

    knobs.compilation.always_compile = True
    report = Report("verify")
    times: dict[str, list[float]] = defaultdict(list)
    cases = [*SPECIALISED, *(EVERY_ATTENTION if arguments.every else map(find_attention, ATTENTION))]
    cases += [*POINTERS, *OPERATIONS] if arguments.every else []
    cases = [case for case in cases if case.expect.verdict == "specialised" and arguments.only in case.name]
    proved: list[str] = []
    _TAKEN[:] = cases  # kernels do not pickle; a forked process has them
    check = partial(_checked, repeat=arguments.repeat)
    with get_context("fork").Pool(arguments.processes) as pool:
        results = list(zip(cases, pool.imap(check, range(len(cases)), chunksize=1), strict=True))
    for case, found in results:
        if isinstance(found, str):
            print(f"{case.name:28} {found}")
            continue
        levels = ("credits full", "barriers full", "refinement full")
        proved += [case.name] if all(isinstance(found[name][1], Proved) for name in levels) else []
        for name, (ms, verdict) in found.items():
            times[name].append(ms)
            error = None if isinstance(verdict, Proved | Checked) else describe(verdict)
            report.add(replace(Row.timed({"kernel": case.name}, name, Timing.of([ms]), 0), error=error))
        times["compile"].append(sum(found[name][0] for name in ("credits fast", "barriers fast")))
        print(f"{case.name:28} " + "  ".join(f"{name} {ms:7.1f}" for name, (ms, _) in found.items()), flush=True)
    count = len(times["compile"])
    lines = sum(len(it.read_text().splitlines()) for it in SOURCE.rglob("*.py"))
    report.add(Row({"kernel": "all", "kernels": count, "proved": len(proved), "lines": lines}, "proved"))
    print(f"\n{count} kernels, {len(proved)} proved for all trip counts at both levels; milliseconds")
    for name, values in times.items():
        report.add(Row.timed({"kernel": "all"}, name, Timing.of(values), 0))
        report.add(Row.timed({"kernel": "worst"}, name, Timing.of([max(values)]), 0))
        print(f"  {name:20} median {statistics.median(values):8.1f}   worst {max(values):8.1f}")
    simulated = {order: simulate_ms(order) for order in ("eager", "late", "random")}
    for order, ms in simulated.items():
        report.add(Row.timed({"kernel": SIMULATED, "M = N = K": SIZE}, f"simulation {order}", Timing.of([ms]), 0))
        print(f"  simulation {order:9} {ms:8.0f}")
    print(report.save())
    full = [
        sum(parts)
        for parts in zip(*(times[f"{name} full"] for name in ("credits", "barriers", "refinement")), strict=True)
    ]
    wanted = {
        f"a compile: median <= {FAST_MEDIAN_MS:.0f} ms": statistics.median(times["compile"]) <= FAST_MEDIAN_MS,
        f"a compile: worst <= {FAST_WORST_MS:.0f} ms": max(times["compile"]) <= FAST_WORST_MS,
        f"full: worst <= {FULL_WORST_MS:.0f} ms": max(full) <= FULL_WORST_MS,
        f"simulation <= {SIMULATION_WORST_MS:.0f} ms": max(simulated.values()) <= SIMULATION_WORST_MS,
        "99 % proved for all trip counts at both levels": len(proved) >= 0.99 * count,
    }
    for text, reached in wanted.items():
        print(f"wanted: {text}: {'pass' if reached else 'FAIL'}")
    return 0 if all(wanted.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
