"""What each step brings: ``python -m bench.gemm.ablation [--ks 16384,4096] [--minutes 8]``.

fp16 GEMM, 8192 x 8192 x K, B row-major. The steps are those of the paper's ablation: no specialisation (without and
with Triton's software pipeline), a specialised small tile with 4 consumer warps, the same with 8 cooperative ones, a
large tile, persistent. Every specialised step is timed with D = 1...4 and P = 0...2 (D >= P + 1), and is represented by
its best (D, P).

Results: ``bench/results/ablation.json``; heat maps and steps: ``docs/images/ablation_K.png``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.gemm.candidates import Configuration, Family, cublas_calls, make_call, make_operands, sampled_error
from bench.gemm.timing import LARGEST_ERROR, STALL_S, M, N, check_all
from bench.harness import ROOT, Report, Row, describe, finite, time_round_robin, watchdog

IMAGES = ROOT / "docs" / "images"
DEPTHS, MMA_DEPTHS = (1, 2, 3, 4), (0, 1, 2)
GRIDS = {
    "small tile, 4 warps": Configuration("tawa", "tile", 128, 128, 64, 4),
    "small tile, 8 warps": Configuration("tawa", "tile", 128, 128, 64, 8),
    "large tile, 8 warps": Configuration("tawa", "tile", 128, 256, 64, 8),
    "persistent": Configuration("tawa", "split", 128, 256, 64, 8),
}
PLAIN = {
    "no specialisation, no pipeline": Configuration("stock", "tile", 128, 128, 64, 4, num_stages=1),
    "no specialisation, software pipeline": Configuration("stock", "tile", 128, 128, 64, 4, num_stages=3),
}


def variants() -> dict[str, Configuration]:
    """All candidates by name; a cell of the D x P grid is ``NAME D=.. P=..``."""
    cells = {
        f"{name} D={depth} P={mma_depth}": replace(base, D=depth, P=mma_depth)
        for name, base in GRIDS.items()
        for depth in DEPTHS
        for mma_depth in MMA_DEPTHS
        if depth > mma_depth
    }
    return {**PLAIN, **cells}


def bench(report: Report, fit: set[Configuration], k: int) -> None:
    """Times all variants of one K round-robin and checks each result."""
    import torch

    operands = make_operands("fp16", False, M, N, k)
    chosen = {name: configuration for name, configuration in variants().items() if configuration in fit}
    calls = {**cublas_calls(operands), **{name: make_call(c, operands) for name, c in chosen.items()}}
    timings, errors = time_round_robin(calls, rounds=12, rest_s=0.01)
    for name, timing in timings.items():
        operands.c.fill_(float("nan"))
        calls[name]()
        torch.cuda.synchronize()
        error = sampled_error(operands)
        case: dict[str, Any] = {"M": M, "N": N, "K": k, "dtype": "fp16", "step": name.split(" D=")[0]}
        if name in chosen:
            configuration = chosen[name]
            case |= {"D": configuration.D, "P": configuration.P, "configuration": configuration.label}
        if error > LARGEST_ERROR["fp16"]:
            report.add(Row(case, name, error=f"wrong result: relative error {error:.2e}"))
        else:
            report.add(Row.timed(case, name, timing, 2.0 * M * N * k, finite(error)))
    report.add(*(Row({"M": M, "N": N, "K": k}, name, error=text) for name, text in errors.items()))


def print_tables(rows: list[Row], k: int) -> None:
    """The steps and the D x P tables of one K, in TFLOP/s."""
    print(f"\nK = {k}")
    for step, rate in best_by_step(rows, k).items():
        print(f"  {step:38} {rate:7.1f}")
    for name in GRIDS:
        print(f"  {name}:  " + "".join(f"{'P=' + str(p):>8}" for p in MMA_DEPTHS))
        for depth, line in zip(DEPTHS, grid_of(rows, k, name), strict=True):
            print(f"    D={depth}" + " " * len(name) + "".join(f"{rate:8.1f}" if rate else "       -" for rate in line))


def best_by_step(rows: list[Row], k: int) -> dict[str, float]:
    """The best rate of each step, in the order of the steps."""
    best: dict[str, float] = {}
    for step in (*PLAIN, *GRIDS, "cuBLAS"):
        rates = [row.tflops for row in rows if row.case.get("K") == k and row.case.get("step") == step and row.tflops]
        if rates:
            best[step] = max(rates)
    return best


def grid_of(rows: list[Row], k: int, name: str) -> list[list[float]]:
    """Rates by D (rows) and P (columns); 0 where there is none."""
    rates = {
        (row.case["D"], row.case["P"]): row.tflops
        for row in rows
        if row.case.get("K") == k and row.case.get("step") == name and row.tflops
    }
    return [[rates.get((depth, mma_depth)) or 0.0 for mma_depth in MMA_DEPTHS] for depth in DEPTHS]


def draw(rows: list[Row], k: int, device: str) -> Path:
    """Heat maps and the bar chart of the steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(GRIDS) + 1, figsize=(13.5, 3.4), width_ratios=[1] * len(GRIDS) + [1.4], layout="constrained"
    )
    everything = [rate for name in GRIDS for line in grid_of(rows, k, name) for rate in line if rate]
    low, high = (min(everything), max(everything)) if everything else (0.0, 1.0)
    for axis, name in zip(axes, GRIDS, strict=False):
        grid = grid_of(rows, k, name)
        axis.imshow(
            [[rate or float("nan") for rate in line] for line in grid],
            vmin=low,
            vmax=high,
            cmap="viridis",
            aspect="auto",
        )
        for y, line in enumerate(grid):
            for x, rate in enumerate(line):
                dark = rate < (low + high) / 2
                axis.text(
                    x,
                    y,
                    f"{rate:.0f}" if rate else "–",
                    ha="center",
                    va="center",
                    color="white" if rate and dark else "black",
                )
        axis.set_xticks(range(len(MMA_DEPTHS)), [f"P={p}" for p in MMA_DEPTHS])
        axis.set_yticks(range(len(DEPTHS)), [f"D={d}" for d in DEPTHS] if axis is axes[0] else [""] * len(DEPTHS))
        axis.set_title(name, fontsize=10)
    best = best_by_step(rows, k)
    axes[-1].barh(
        [name.replace(", ", ",\n") for name in best],
        list(best.values()),
        color=["#b0b0b0"] * len(PLAIN) + ["#35618f"] * len(GRIDS) + ["#d9a441"],
    )
    axes[-1].invert_yaxis()
    for y, rate in enumerate(best.values()):
        axes[-1].text(rate, y, f" {rate:.0f}", va="center", fontsize=8)
    axes[-1].tick_params(axis="y", labelsize=7)
    axes[-1].set_xlim(0, 1.25 * max(best.values(), default=1.0))
    axes[-1].set_title("best of each step", fontsize=10)
    figure.suptitle(f"fp16 GEMM 8192 × 8192 × {k}, {device}, TFLOP/s", fontsize=11)
    IMAGES.mkdir(parents=True, exist_ok=True)
    path = IMAGES / f"ablation_{k}.png"
    figure.savefig(path, dpi=130)
    return path


def main() -> int:
    """Checks all variants, times them, prints and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ks", default="16384,4096")
    parser.add_argument("--minutes", type=float, default=8.0, help="begin no K after this")
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--draw-only", action="store_true", help="draw bench/results/ablation.json again")
    arguments = parser.parse_args()
    ks = [int(k) for k in arguments.ks.split(",")]
    if arguments.draw_only:
        return draw_again(ks)
    start = time.monotonic()
    report = Report("ablation")
    family = Family("ablation", "ablation", "fp16", False, tuple(variants().values()))
    fit, unfit = check_all(family, arguments.processes)
    names = {configuration: name for name, configuration in variants().items()}
    report.add(
        *(
            Row({"step": names[c].split(" D=")[0], "D": c.D, "P": c.P}, names[c], error=text)
            for c, text in unfit.items()
        )
    )
    for k in ks:
        if time.monotonic() - start > arguments.minutes * 60:
            print(f"K={k}: skipped, out of time")
            continue
        try:
            with watchdog(2 * STALL_S, f"K={k}"):
                bench(report, set(fit), k)
            report.note_clocks()
            print_tables(report.rows, k)
            print(draw(report.rows, k, str(report.about["device"])), flush=True)
        except Exception as error:
            print(f"K={k}: {describe(error)}", flush=True)
    print(f"{report.save()}  {time.monotonic() - start:.0f} s", flush=True)
    return 0


def draw_again(ks: list[int]) -> int:
    """Prints the tables and draws the images of the result file."""
    from bench.harness import RESULTS, read

    about, rows = read(RESULTS / "ablation.json")
    for k in ks:
        print_tables(rows, k)
        print(draw(rows, k, str(about["device"])))
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
