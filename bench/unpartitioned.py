"""Times kernels without partitions: ``python -m bench.unpartitioned``; ``--only NAME``: some of them.

Kernels of flash-linear-attention (GLA and KDA), B 4, T 2048, 16 heads of 128: terms of single rows within a chunk, with
and without dots; triangular inverses; chunks with tiles before and behind their loop, or a dot before it, at some sizes
of blocks. Each number of warps is timed as stock Triton compiles it and under the Plans below, whose results must have
stock Triton's bits. ``PYTHONPATH`` has a folder that ``python -m bench.corpus fetch`` filled. Kernels are compiled by
several processes first. Results: ``bench/results/unpartitioned.json``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bench.harness import Report, Row, describe, time_round_robin
from tawa.errors import PlanError

B, T, H, D, CHUNK, ROWS = 4, 2048, 16, 128, 64, 16
STOCK = "stock Triton"
PLANS: Mapping[str, Mapping[str, Any]] = {
    "stock Triton": {"form": "stock"},
    "conversions out of loops": {"form": "unpartitioned", "operands": [{"prefetched": False}], "unrolled": False},
    "and rows one iteration ahead": {"form": "unpartitioned", "operands": [{"prefetched": True}], "unrolled": False},
    "and masked rows unrolled": {"form": "unpartitioned", "operands": [{"prefetched": False}], "unrolled": True},
    "as the planner decides": {"form": "unpartitioned"},
    "and two warps": {"form": "unpartitioned", "num_warps": 2},
    "and four warps": {"form": "unpartitioned", "num_warps": 4},
}


@dataclass(frozen=True, slots=True)
class _Launch:
    """A kernel with its arguments, its grid, the names of its outputs, the numbers of warps, its stages and blocks."""

    kernel: Any
    arguments: dict[str, Any]
    grid: tuple[int, ...]
    outputs: tuple[str, ...]
    warps: tuple[int, ...] = (1, 2, 4, 8)
    stages: int = 2
    blocks: str = ""

    @property
    def name(self) -> str:
        """The kernel, and the sizes of its blocks."""
        return f"{_function(self.kernel).__name__} {self.blocks}".strip()


def _launches(device: str) -> dict[str, _Launch]:
    """The launches. Off a GPU, tensors are small."""
    import torch
    from fla.ops.gla.chunk import (
        chunk_gla_bwd_kernel_dv,
        chunk_gla_bwd_kernel_inter,
        chunk_gla_bwd_kernel_intra,
        chunk_gla_fwd_A_kernel_intra_sub_intra,
        chunk_gla_fwd_kernel_o,
    )
    from fla.ops.kda.chunk_bwd import chunk_kda_bwd_kernel_wy_dqkg_fused
    from fla.ops.kda.chunk_intra import chunk_kda_bwd_kernel_intra, chunk_kda_fwd_kernel_inter_solve_fused
    from fla.ops.kda.chunk_intra_token_parallel import chunk_kda_fwd_kernel_intra_token_parallel

    def made(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(*(shape if device == "cuda" else (CHUNK,)), device=device).to(dtype)

    def tile(dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return made(B, T, H, D, dtype=dtype)

    def gates() -> torch.Tensor:
        return torch.nn.functional.logsigmoid(tile()).cumsum(1) * 0.05 if device == "cuda" else tile()

    def scores(columns: int = CHUNK, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return made(B, T, H, columns, dtype=dtype)

    def states(dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return made(B, T // CHUNK, H, D, D, dtype=dtype)

    half, chunks = torch.float16, T // CHUNK
    all_equal = {"cu_seqlens": None, "IS_VARLEN": False, "T": T}
    shape = {**all_equal, "chunk_indices": None, "H": H, "K": D, "BT": CHUNK, "BC": ROWS}
    every = {**shape, "NC": CHUNK // ROWS}
    inputs = {"q": tile(half), "k": tile(half), "g": gates()}
    gla = {**inputs, "dA": scores(), "dq": tile(), "dk": tile(), "BK": 64}
    kda = {
        **inputs, "beta": made(B, T, H), "dAqk": scores(), "dAkk": scores(), "dq": tile(), "dq2": tile(),
        "dk": tile(), "dk2": tile(), "dg": tile(), "dg2": tile(), "db": made(D // 32, B, T, H), "B": B, "HV": H,
        "BK": 32, "SAFE_GATE": False, "GATE_SHIFT": 2.885, "USE_GATHER": False, "USE_GRAPH": False,
    }  # fmt: skip
    scored = {**inputs, "A": scores(), "scale": 0.1, "BK": D}
    solved = {
        **inputs, "beta": made(B, T, H), "Aqk": scores(dtype=half), "Akkd": scores(ROWS) * 0.1,
        "Akk": scores(dtype=half), "scale": 0.1, "HV": H, "BK": 32, "USE_SAFE_GATE": False, "USE_GRAPH": False,
    }  # fmt: skip
    tokens = {
        **inputs, **all_equal, "beta": made(B, T, H), "Aqk": scores(dtype=half), "Akk": scores(ROWS), "scale": 0.1,
        "N": B, "H": H, "HV": H, "K": D, "BK": D, "BT": CHUNK, "BC": ROWS, "BH": 8, "USE_GRAPH": False,
    }  # fmt: skip
    blocks = T // ROWS
    valued = {**shape, "V": D}
    del valued["BC"]
    inter = {
        **valued, **inputs, "v": tile(half), "h": states(), "do": tile(half), "dh": states(), "dq": tile(),
        "dk": tile(), "dq2": tile(), "dk2": tile(), "dg": tile(), "scale": 0.1, "STATE_V_FIRST": False,
    }  # fmt: skip
    of_values = {
        **valued, "k": inputs["k"], "g": inputs["g"], "A": scores(), "do": tile(half), "dh": states(), "dv": tile(half),
        "STATE_V_FIRST": False,
    }  # fmt: skip
    output = {
        **valued, "q": inputs["q"], "g": inputs["g"], "v": tile(half), "h": states(half), "o": tile(half),
        "A": scores(), "scale": 0.1, "HV": H, "STATE_V_FIRST": False, "USE_GRAPH": False,
    }  # fmt: skip
    fused = {
        **valued, **inputs, "v": tile(half), "v_new": tile(half), "beta": made(B, T, H), "A": scores(dtype=half),
        "h": states(half), "do": tile(half), "dh": states(half), "dq": tile(), "dk": tile(), "dv": tile(half),
        "dv2": tile(half), "dg": tile(), "db": made(B, T, H), "dA": scores(), "scale": 0.1, "HV": H,
        "STATE_V_FIRST": False, "USE_GRAPH": False,
    }  # fmt: skip

    def of_blocks(
        kernel: Any, arguments: dict[str, Any], outputs: tuple[str, ...], keys: int, values: int, *warps: int
    ) -> _Launch:
        """A launch with blocks of BK and BV. A program has a chunk, and a block of what it computes if only one has."""
        of_a_chunk = 1 if "db" in outputs else D // (values if outputs[0] in ("o", "dv") else keys)
        sizes = {"BK": keys, "BV": values}
        words = f"BK={keys} BV={values}"
        return _Launch(kernel, {**arguments, **sizes}, (of_a_chunk * chunks, B * H, 1), outputs, warps, 2, words)

    found = (
        _Launch(chunk_gla_bwd_kernel_intra, {**gla, **every}, (D // 64 * blocks, B * H, 1), ("dq", "dk")),
        _Launch(
            chunk_kda_bwd_kernel_intra, {**kda, **every}, (D // 32 * blocks, B * H, 1), ("dq2", "dk2", "dg2", "db")
        ),
        _Launch(
            chunk_gla_fwd_A_kernel_intra_sub_intra, {**scored, **shape}, (chunks, CHUNK // ROWS, B * H), ("A",)
        ),
        _Launch(chunk_kda_fwd_kernel_intra_token_parallel, tokens, (B * T, H // 8, 1), ("Aqk", "Akk"), (2, 4), 3),
        _Launch(
            chunk_kda_fwd_kernel_inter_solve_fused, {**solved, **every}, (chunks, B * H, 1), ("Aqk", "Akk"), (1, 2), 3
        ),
        of_blocks(chunk_gla_bwd_kernel_inter, inter, ("dq2", "dk2", "dg"), 64, 64, 4),
        of_blocks(chunk_gla_bwd_kernel_inter, inter, ("dq2", "dk2", "dg"), 32, 64, 4, 8),
        of_blocks(chunk_gla_bwd_kernel_dv, of_values, ("dv",), 64, 64, 4, 8),
        of_blocks(chunk_gla_bwd_kernel_dv, of_values, ("dv",), 64, 128, 8),
        of_blocks(chunk_gla_fwd_kernel_o, output, ("o",), 64, 64, 4, 8),
        of_blocks(chunk_kda_bwd_kernel_wy_dqkg_fused, fused, ("dq", "dk", "dv2", "dg", "db", "dA"), 64, 64, 4),
        of_blocks(chunk_kda_bwd_kernel_wy_dqkg_fused, fused, ("dq", "dk", "dv2", "dg", "db", "dA"), 32, 64, 2),
        of_blocks(chunk_kda_bwd_kernel_wy_dqkg_fused, fused, ("dq", "dk", "dv2", "dg", "db", "dA"), 64, 128, 4),
    )  # fmt: skip
    return {it.name: it for it in found}


def _function(kernel: Any) -> Any:
    """A kernel below its heuristics and tuners."""
    while not hasattr(kernel, "device_caches"):
        kernel = kernel.fn
    return kernel


def _compiled(launch: _Launch, num_warps: int, plan: Mapping[str, Any]) -> Any:
    """The kernel under a Plan, not launched. Raises PlanError if the Plan changes nothing."""
    import tawa
    from tawa.bridge.driver.request import activate
    from tawa.runtime.requests import make_request
    from tawa.runtime.settings import Settings

    tawa.install(start="ready")
    function = _function(launch.kernel)
    with activate(make_request({"plan": dict(plan)}, None, Settings.from_environment())):
        return function.warmup(**launch.arguments, grid=(1,), num_warps=num_warps, num_stages=launch.stages)


def _compile_part(part: int, parts: int, only: list[str]) -> None:
    """Compiles every `parts`-th kernel, for the cache."""
    from bench.corpus.without_gpu import pretend

    pretend()
    launches = _wanted("cpu", only).values()
    for launch, warps, plan in [(it, warps, plan) for it in launches for warps in it.warps for plan in PLANS.values()][
        part::parts
    ]:
        with suppress(PlanError):
            _compiled(launch, warps, plan)


def _wanted(device: str, only: list[str]) -> dict[str, _Launch]:
    return {name: it for name, it in _launches(device).items() if not only or any(part in name for part in only)}


def _time(report: Report, name: str, launch: _Launch) -> None:
    import torch

    arguments = launch.arguments
    values = [arguments[it] for it in _function(launch.kernel).arg_names]
    for warps in launch.warps:
        case = {"kernel": name, "num_warps": warps, "date": report.about["date"]}
        ways, bits = dict[str, Any](), list[Any]()
        for words, plan in PLANS.items():
            try:
                made = _compiled(launch, warps, plan)
                for it in launch.outputs:
                    arguments[it].fill_(float("nan"))
                made[launch.grid](*values)
                found = [arguments[it].view(torch.uint8).clone() for it in launch.outputs]
                bits = bits or found
                assert all(map(torch.equal, found, bits)), "the bits are not stock Triton's"
                ways[words] = lambda made=made: made[launch.grid](*values)
            except PlanError:
                continue
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
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="parts of names of kernels")
    parser.add_argument("--compile", nargs=2, type=int, metavar=("PART", "PARTS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.compile:
        part, parts = given.compile
        _compile_part(part, parts, given.only)
        return
    parts = min(16, os.cpu_count() or 1)
    only = ["--only", *given.only] if given.only else []
    command = [sys.executable, "-m", "bench.unpartitioned", *only, "--compile"]
    started = [subprocess.Popen([*command, str(it), str(parts)]) for it in range(parts)]
    for it in started:
        it.wait()
    report, launches = Report("unpartitioned"), _wanted("cuda", given.only)
    report.rows = [it for it in report.earlier_rows() if it.case["kernel"] not in launches]
    for name, launch in launches.items():
        _time(report, name, launch)
    report.note_clocks()
    report.save()


if __name__ == "__main__":
    main()
