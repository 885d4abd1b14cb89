"""Times Plans of one GEMM kernel beside each other: ``python -m bench.gemm.plans [tile_order|groups|split_k]``.

    tile_order    the orders of the tiles of a persistent form, 8192 x 8192 and two other shapes
    groups        two programs as the groups of a CTA, one in its epilogue while the other computes, beside the default
    split_k       programs that share a tile's sum, where there are fewer tiles than SMs

The kernel takes descriptors and has a grid of two axes (`tests.cases.gemm.kernel.gemm_plus_equals`). Each candidate is
checked on rows of its first launch against float64, with at most twice the error of PyTorch; then all run round-robin.
A candidate that fails leaves the others alone. Results: ``bench/results/gemm_NAME.json``, written after each problem.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.harness import Report, Row, describe, finite, time_round_robin, watchdog

STALL_S = 150.0
ROWS = 256
"""Rows of the result that are checked."""


@dataclass(frozen=True, slots=True)
class Problem:
    """C (M, N) = A (M, K) @ B (K, N) in fp16, in tiles of BM x BN x BK; warps of the launch."""

    M: int
    N: int
    K: int
    tile: tuple[int, int, int] = (128, 256, 64)
    warps: int = 8

    def __str__(self) -> str:
        """As ``--only`` finds it."""
        return f"{self.M}x{self.N}x{self.K} in {'x'.join(map(str, self.tile))}"


PERSISTENT = {"form": "persistent"}
ORDERS: dict[str, dict[str, Any]] = {
    "launch": {"tile_order": "launch"},
    "grouped": {"tile_order": "grouped"},
    **{f"grouped, G = {group}": {"tile_order": "grouped", "tile_group": group} for group in (4, 8, 16, 32)},
    "hilbert": {"tile_order": "hilbert"},
    "l2_halves": {"tile_order": "l2_halves"},
    "l2_halves, G = 8": {"tile_order": "l2_halves", "tile_group": 8},
    "grouped, from a counter": {"tile_order": "grouped", "tiles": "dynamic"},
    "hilbert, from a counter": {"tile_order": "hilbert", "tiles": "dynamic"},
}
PROGRAMS = {**PERSISTENT, "groups": 2, "split": "programs"}
Plans = Mapping[str, dict[str, Any] | None]
"""What is pinned, by candidate; None: stock Triton."""


def plans_of(what: str, problem: Problem) -> Plans:
    """The candidates of a problem."""
    match what:
        case "tile_order":
            return {"stock Triton": None, **{name: {**PERSISTENT, **pins} for name, pins in ORDERS.items()}}
        case "groups":
            return {
                "stock Triton": None,
                "default": {},
                "persistent": PERSISTENT,
                "two programs, 4 warps each": PROGRAMS,
                "two programs, as written": {"groups": 2, "split": "programs"},
            }
        case "split_k":
            most = max(1, problem.K // problem.tile[2])
            splits = [it for it in (2, 3, 4, 6, 8, 16) if it <= most]
            return {"stock Triton": None, "default": {}, **{f"split_k={it}": {"split_k": it} for it in splits}}
    raise ValueError(what)


PROBLEMS: dict[str, tuple[Problem, ...]] = {
    "tile_order": (
        Problem(8192, 8192, 8192),
        Problem(8192, 8192, 2048),
        Problem(16384, 4096, 4096),
        Problem(4096, 28672, 4096),
    ),
    "groups": (
        Problem(8192, 8192, 512, (128, 128, 64), 4),
        Problem(8192, 8192, 4096, (128, 128, 64), 4),
        Problem(8192, 8192, 512, (64, 256, 64), 4),
        Problem(8192, 8192, 4096, (64, 256, 64), 4),
    ),
    "split_k": (
        Problem(16, 4096, 4096, (64, 128, 64), 4),
        Problem(64, 4096, 14336, (64, 128, 64), 4),
        Problem(256, 1024, 16384, (128, 128, 64), 4),
        Problem(512, 2048, 8192, (128, 256, 64), 8),
    ),
}


def make_tensors(problem: Problem) -> tuple[Any, Any]:
    """A (M, K) and B (K, N)."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(0)
    sizes = (problem.M, problem.K), (problem.K, problem.N)
    a, b = (torch.randn(it, generator=generator, device="cuda").half() for it in sizes)
    return a, b


def make_call(problem: Problem, tensors: tuple[Any, Any], pins: dict[str, Any] | None) -> Callable[[], Any]:
    """A callable that launches one candidate and returns C."""
    import torch
    from triton.tools.tensor_descriptor import TensorDescriptor

    import tawa
    from tests.cases.gemm.kernel import gemm_plus_equals

    (a, b), (bm, bn, bk) = tensors, problem.tile
    c = torch.full((problem.M, problem.N), float("nan"), device="cuda", dtype=a.dtype)
    blocks = (a, [bm, bk]), (b, [bk, bn]), (c, [bm, bn])
    described = [TensorDescriptor.from_tensor(tensor, block) for tensor, block in blocks]
    grid = -(-problem.M // bm), -(-problem.N // bn)
    more: dict[str, Any] = {"enable_warp_specialization": False}
    if pins is not None:
        more = {"plan": {**pins, "launches": {"choice": "always"}}} if pins else {"only_if_faster": False}
        more |= {"precision": "relaxed"} if "split_k" in pins else {}
    kernel: Any = tawa.jit(gemm_plus_equals)

    def call() -> Any:
        kernel[grid](*described, problem.K, BM=bm, BN=bn, BK=bk, num_warps=problem.warps, num_stages=3, **more)
        return c

    return call


def excess(tensors: tuple[Any, Any], c: Any) -> float:
    """The largest error of some rows, divided by the allowed one; infinite if C has a NaN."""
    import torch

    a, b = tensors
    if not bool(c.isfinite().all()):
        return float("inf")
    step = max(1, len(a) // ROWS)
    exact = a[::step].double() @ b.double()
    reduced = torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    try:
        peer = (a[::step] @ b).double()
    finally:
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = reduced
    allowed = 2 * (peer - exact).abs().max().item()
    return (c[::step].double() - exact).abs().max().item() / allowed


def bench_problem(what: str, problem: Problem) -> list[Row]:
    """The rows of one problem."""
    tensors = make_tensors(problem)
    about = {"M": problem.M, "N": problem.N, "K": problem.K, "tile": list(problem.tile), "dtype": "fp16"}
    rows, fit, errors = list[Row](), dict[str, Callable[[], Any]](), dict[str, float]()
    for name, pins in plans_of(what, problem).items():
        try:
            call = make_call(problem, tensors, pins)
            errors[name] = excess(tensors, call())
        except Exception as error:  # a Plan that the kernel does not take
            rows.append(Row(about, name, error=describe(error)))
            continue
        if errors[name] <= 1:
            fit[name] = call
        else:
            rows.append(Row(about, name, error=f"wrong result: {errors[name]:.3g} times the allowed error"))
    a, b = tensors
    fit["cuBLAS"] = lambda: a @ b
    errors["cuBLAS"] = 0.0
    timings, failures = time_round_robin(fit, rounds=12)
    flop = 2.0 * problem.M * problem.N * problem.K
    rows += [Row.timed(about, name, it, flop, finite(errors[name])) for name, it in timings.items()]
    return rows + [Row(about, name, error=text) for name, text in failures.items()]


def line_of(problem: Problem, rows: list[Row]) -> str:
    """Lines about a problem: microseconds and TFLOP/s, or why there are none."""
    told = (
        f"  {row.candidate:32} {row.median_ms * 1e3:9.1f} us {row.tflops:8.1f} TFLOP/s" if row.median_ms and row.tflops
        else f"  {row.candidate:32} {row.error}" for row in rows
    )  # fmt: skip
    return "\n".join([str(problem), *told])


def main() -> int:
    """Times what is asked for; returns 1 if a candidate was wrong or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="what to time; everything without")
    parser.add_argument("--only", default="", metavar="TEXT", help="problems with this in their names")
    arguments = parser.parse_args()
    unknown = set(arguments.what) - set(PROBLEMS)
    if unknown:
        parser.error(f"nothing named {', '.join(sorted(unknown))}: there are {', '.join(PROBLEMS)}")
    sound = True
    for what in arguments.what or PROBLEMS:
        report = Report(f"gemm_{what}")
        for problem in (it for it in PROBLEMS[what] if arguments.only in str(it)):
            with watchdog(STALL_S, f"{what}: {problem}"):
                rows = bench_problem(what, problem)
            report.add(*rows)
            report.save()
            sound = sound and all(row.median_ms is not None for row in rows)
            print(line_of(problem, rows), flush=True)
        report.note_clocks()
        print(report.save(), flush=True)
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
