"""Times kernels beside the backward pass of attention without one mechanism each: ``python -m bench.mechanisms``.

What the backward pass of attention needed serves other kernels, too: the backward pass of a linear layer fused with its
cross-entropy loss, a persistent GEMM with few iterations in a tile, block-scaled fp8. Candidates: stock Triton; Tawa's
first choice among its forms; the same with one mechanism less, or with a warp that stores, as a Plan can say. A form
that cannot do without a mechanism has an error.

Each candidate is checked against float64, on outputs full of NaN or sums that start at zero; then all run round-robin.
Results: ``bench/results/mechanisms.json``; rows of kernels that are not timed anew stay.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.harness import Report, Row, describe, time_round_robin, watchdog
from bench.workers import Answer, Job, run_jobs, serve_jobs
from tests.cases.case import Specimen
from tests.cases.gemm import cases as gemm
from tests.cases.operations import cases as operations
from tests.cases.operations.product_builders import linear_loss_case

STALL_S = 150.0
STOCK, OURS = "stock Triton", "Tawa"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A specimen on a problem of a size that is worth timing. rows: the arguments that are rows of numbers of a tile.

    flop: its operations, by names of sizes.
    """

    specimen: Specimen
    sizes: Mapping[str, int]
    flop: Callable[[Mapping[str, int]], float]
    rows: tuple[str, ...] = ()

    @property
    def case(self) -> Specimen:
        """The specimen on that problem."""
        return self.specimen.with_sizes(**self.sizes)


KERNELS = {
    "linear layer with its loss, backward": Kernel(
        linear_loss_case("linear_loss", tile=(128, 128, 64), warps=8, M=4096, N=32000, K=2048),
        {"M": 4096, "N": 32000, "K": 2048},
        lambda it: 6.0 * it["M"] * it["N"] * it["K"],
    ),
    "persistent GEMM, 8 iterations in a tile": Kernel(
        gemm.find("persistent_8warps"),
        {"M": 8192, "N": 8192, "K": 512, "PROGRAMS": 132},
        lambda it: 2.0 * it["M"] * it["N"] * it["K"],
    ),
    "block-scaled fp8 GEMM": Kernel(
        operations.find("scaled_128x128"),
        {"M": 4096, "N": 4096, "K": 4096, "NG": 32, "KG": 32},
        lambda it: 2.0 * it["M"] * it["N"] * it["K"],
        ("as_ptr",),
    ),
}
PLANS: dict[str, dict[str, Any]] = {
    "without waits by dataflow": {"loops": [{"stages": 0}]},
    "without staged stores": {"stores": [{"staged": False}]},
    "without a warp that stores": {"stores": [{"store_warp": False}]},
    "with a warp that stores": {"stores": [{"store_warp": True}]},
}


def asked(kernel: Kernel) -> dict[str, dict[str, Any]]:
    """The candidates of Tawa by name, and what each asks of its Plan."""
    rows = {"operands": [{"argument": name, "loop": 0, "path": "pointers"} for name in kernel.rows]}
    return {OURS: {}, **PLANS, **({"without rows in the ring of their tile": rows} if kernel.rows else {})}


def make_call(kernel: Kernel, name: str, tensors: Mapping[str, Any]) -> Callable[[], Any]:
    """A launch of a candidate."""
    import tawa
    from tests.cases import launch

    case = kernel.case
    bound, options = launch.bind(case, tensors), case.options()
    if name == STOCK:
        return lambda: case.kernel[case.launch_grid()](**bound, **options)
    run: Any = tawa.jit(case.kernel)
    pinned = {"enable_warp_specialization": True, "plan": asked(kernel)[name]}
    return lambda: run[case.launch_grid()](**bound, **options, **pinned)


def compile_all(names: list[str]) -> None:
    """Compiles in parallel, into Triton's cache; what fails says so when it is timed."""
    jobs = [{"kernel": name, "candidate": it} for name in names for it in (STOCK, *asked(KERNELS[name]))]
    run_jobs("bench.mechanisms", jobs, lambda job, answer: None, min(len(jobs), os.cpu_count() or 1), STALL_S)


def compile_one(job: Job) -> Answer:
    """The worker's side: one launch."""
    from tests.cases import launch

    kernel = KERNELS[job["kernel"]]
    make_call(kernel, job["candidate"], launch.make_tensors(kernel.case, seed=0))()
    return {"status": "ok"}


def bench_kernel(name: str) -> list[Row]:
    """The rows of one kernel."""
    import torch

    from tests.cases import launch
    from tests.cases.check import judge_all

    kernel = KERNELS[name]
    case, about = kernel.case, {"kernel": name, **kernel.sizes}
    tensors = launch.make_tensors(case, seed=0)
    fit, rows = dict[str, Callable[[], Any]](), list[Row]()
    for candidate in (STOCK, *asked(kernel)):
        call = make_call(kernel, candidate, tensors)
        try:
            launch.poison(case, tensors)
            call()
            torch.cuda.synchronize()
            verdict = judge_all(case, tensors, [{it: tensors[it].clone() for it in launch.outputs(case)}])
        except Exception as error:  # a Plan that cannot be carried out
            rows.append(Row(about, candidate, error=describe(error)))
            continue
        if verdict.faults:
            rows.append(Row(about, candidate, error="; ".join(verdict.faults)))
        else:
            fit[candidate] = call
    timings, failures = time_round_robin(fit)
    rows += [Row.timed(about, it, timing, kernel.flop(kernel.sizes)) for it, timing in timings.items()]
    return rows + [Row(about, it, error=text) for it, text in failures.items()]


def main() -> int:
    """Times the kernels asked for; returns 1 if Tawa's first choice was wrong or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="of the names of kernels")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        serve_jobs(compile_one)
        return 0
    names = [it for it in KERNELS if any(text in it for text in arguments.only)]
    report, sound = Report("mechanisms"), True
    report.rows = report.earlier_rows()
    compile_all(names)
    for name in names:
        with watchdog(STALL_S, name):
            rows = bench_kernel(name)
        report.rows = [it for it in report.rows if it.case["kernel"] != name]
        report.add(*rows)
        report.save()
        sound &= any(row.candidate == OURS and row.tflops for row in rows)
        print(f"{name}: " + "  ".join(f"{row.candidate} {row.tflops or row.error}" for row in rows), flush=True)
    report.note_clocks()
    report.save()
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
