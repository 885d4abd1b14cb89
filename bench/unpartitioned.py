"""Times kernels without partitions: ``python -m bench.unpartitioned``.

The two kernels of flash-linear-attention that add terms of single rows within a chunk, in the backward pass: B 4,
T 2048, 16 heads of 128. Each number of warps is timed as stock Triton compiles it and under the Plans below, whose
results must have stock Triton's bits. ``PYTHONPATH`` has a folder that ``python -m bench.corpus fetch`` filled. Kernels
are compiled by several processes first. Results: ``bench/results/unpartitioned.json``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from bench.harness import Report, Row, describe, time_round_robin

B, T, H, D, CHUNK, ROWS = 4, 2048, 16, 128, 64, 16
WARPS = (1, 2, 4, 8)
STOCK = "stock Triton"
_LATE = [{"prefetched": False}]
PLANS: Mapping[str, Mapping[str, Any]] = {
    "stock Triton": {"form": "stock"},
    "conversions out of loops": {"form": "unpartitioned", "operands": _LATE},
    "and rows one iteration ahead": {"form": "unpartitioned", "operands": [{"prefetched": True}]},
    "as the planner decides": {"form": "unpartitioned"},
}


def _launches(device: str) -> dict[str, tuple[Any, dict[str, Any], tuple[int, ...], tuple[str, ...]]]:
    """Each kernel with its arguments, its grid, and the names of its outputs. Off a GPU, tensors are small."""
    import torch
    from fla.ops.gla.chunk import chunk_gla_bwd_kernel_intra
    from fla.ops.kda.chunk_intra import chunk_kda_bwd_kernel_intra

    def made(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(*(shape if device == "cuda" else (CHUNK,)), device=device).to(dtype)

    def tile(dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return made(B, T, H, D, dtype=dtype)

    def gates() -> torch.Tensor:
        return torch.nn.functional.logsigmoid(tile()).cumsum(1) * 0.05 if device == "cuda" else tile()

    def scores() -> torch.Tensor:
        return made(B, T, H, CHUNK)

    half = torch.float16
    shape = {"T": T, "H": H, "K": D, "BT": CHUNK, "BC": ROWS, "NC": CHUNK // ROWS, "IS_VARLEN": False}
    shape |= {"cu_seqlens": None, "chunk_indices": None}
    gla = {"q": tile(half), "k": tile(half), "g": gates(), "dA": scores(), "dq": tile(), "dk": tile(), "BK": 64}
    kda = {
        "q": tile(half), "k": tile(half), "g": gates(), "beta": made(B, T, H), "dAqk": scores(), "dAkk": scores(),
        "dq": tile(), "dq2": tile(), "dk": tile(), "dk2": tile(), "dg": tile(), "dg2": tile(),
        "db": made(D // 32, B, T, H), "B": B, "HV": H, "BK": 32, "SAFE_GATE": False, "GATE_SHIFT": 2.885,
        "USE_GATHER": False, "USE_GRAPH": False,
    }  # fmt: skip
    blocks = T // ROWS
    of_gla = (D // 64 * blocks, B * H, 1), ("dq", "dk")
    of_kda = (D // 32 * blocks, B * H, 1), ("dq2", "dk2", "dg2", "db")
    return {
        "chunk_gla_bwd_kernel_intra": (chunk_gla_bwd_kernel_intra, {**gla, **shape}, *of_gla),
        "chunk_kda_bwd_kernel_intra": (chunk_kda_bwd_kernel_intra, {**kda, **shape}, *of_kda),
    }


def _compiled(kernel: Any, arguments: Mapping[str, Any], num_warps: int, plan: Mapping[str, Any]) -> Any:
    """The kernel under a Plan, not launched."""
    import tawa
    from tawa.bridge.driver.request import activate
    from tawa.runtime.requests import make_request
    from tawa.runtime.settings import Settings

    while not hasattr(kernel, "device_caches"):  # below heuristics and tuners
        kernel = kernel.fn
    tawa.install(start="ready")
    with activate(make_request({"plan": dict(plan)}, None, Settings.from_environment())):
        return kernel.warmup(**arguments, grid=(1,), num_warps=num_warps, num_stages=2)


def _compile_part(part: int, parts: int) -> None:
    """Compiles every `parts`-th kernel, for the cache."""
    from bench.corpus.without_gpu import pretend

    pretend()
    jobs = [(name, warps, plan) for name in _launches("cpu") for warps in WARPS for plan in PLANS.values()]
    for name, warps, plan in jobs[part::parts]:
        kernel, arguments, _, _ = _launches("cpu")[name]
        _compiled(kernel, arguments, warps, plan)


def _time(report: Report, name: str) -> None:
    import torch

    kernel, arguments, grid, outputs = _launches("cuda")[name]
    while not hasattr(kernel, "arg_names"):
        kernel = kernel.fn
    values = [arguments[it] for it in kernel.arg_names]
    for warps in WARPS:
        case, ways, bits = {"kernel": name, "num_warps": warps}, dict[str, Any](), list[Any]()
        for words, plan in PLANS.items():
            try:
                made = _compiled(kernel, arguments, warps, plan)
                for it in outputs:
                    arguments[it].fill_(float("nan"))
                made[grid](*values)
                found = [arguments[it].view(torch.int32).clone() for it in outputs]
                bits = bits or found
                assert all(map(torch.equal, found, bits)), "the bits are not stock Triton's"
                ways[words] = lambda made=made: made[grid](*values)
            except Exception as error:
                report.add(Row(case, words, error=describe(error)))
        timings, errors = time_round_robin(ways)
        report.add(*(Row.timed(case, words, it, 0) for words, it in timings.items()))
        report.add(*(Row(case, words, error=text) for words, text in errors.items()))
        stock = timings[STOCK].median_ms
        print(name, warps, ", ".join(f"{it}: {stock / timings[it].median_ms:.3f}" for it in timings), flush=True)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser("python -m bench.unpartitioned", description=__doc__)
    parser.add_argument("--compile", nargs=2, type=int, metavar=("PART", "PARTS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.compile:
        _compile_part(*given.compile)
        return
    parts = min(16, os.cpu_count() or 1)
    command = [sys.executable, "-m", "bench.unpartitioned", "--compile"]
    started = [subprocess.Popen([*command, str(it), str(parts)]) for it in range(parts)]
    for it in started:
        it.wait()
    report = Report("unpartitioned")
    for name in _launches("cpu"):
        _time(report, name)
    report.note_clocks()
    report.save()


if __name__ == "__main__":
    main()
