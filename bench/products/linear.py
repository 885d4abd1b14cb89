"""Linear layers of language models: `tawa.ops.linear` beside cuBLAS and stock Triton.

    python -m bench.products.linear [--tokens 1,16,...] [--models llama8,...] [--candidates]

Each layer is called alternately on several copies of its weights, which together do not fit into the L2: in a model, a
layer finds its weights in DRAM. Each result is compared with float64 first. `--candidates` also times the tiles that
the model of time finds nearly as fast as the one that it chooses, so that its regret is known.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from bench.harness import Report, Row, describe, time_round_robin

TOKENS = (1, 16, 64, 128, 256, 1024, 8192)
MODELS: dict[str, tuple[tuple[str, int, int], ...]] = {
    "Llama-3 8B": (("qkv", 6144, 4096), ("o", 4096, 4096), ("gate_up", 28672, 4096), ("down", 4096, 14336)),
    "Llama-3 70B": (("qkv", 10240, 8192), ("o", 8192, 8192), ("gate_up", 57344, 8192), ("down", 8192, 28672)),
    "Qwen3 30B-A3B": (("qkv", 5120, 2048), ("o", 2048, 4096), ("router", 128, 2048)),
    "DeepSeek-V3": (
        ("q_a, kv_a", 2112, 7168), ("q_b", 24576, 1536), ("kv_b", 32768, 512), ("o", 7168, 16384),
        ("shared gate_up", 4096, 7168), ("shared down", 7168, 2048),
    ),
}  # fmt: skip
"""Rows and columns of the weights. The experts are products of groups (`bench.products.grouped`)."""
COLD_BYTES = 160_000_000
OUR, CUBLAS, STOCK = "Tawa", "cuBLAS", "stock Triton"


def problems(models: list[str], tokens: list[int]) -> Iterator[dict[str, Any]]:
    """All layers at all numbers of tokens; layers with equal sizes once."""
    seen = set[tuple[int, int, int]]()
    for count in tokens:
        for model in models:
            for layer, rows, columns in MODELS[model]:
                if (count, rows, columns) not in seen:
                    seen.add((count, rows, columns))
                    yield {"model": model, "layer": layer, "tokens": count, "N": rows, "K": columns}


def near(problem: dict[str, Any], most: int, bits: int = 16) -> list[Any]:
    """The tiles with the least predicted times, best first; the first one with shares once more, with atomics.

    bits: of an element of an operand.
    """
    import torch

    from tawa.ops.calls.devices import device_of
    from tawa.ops.products.tiles import LEAST_STEPS, predicted, tiles

    M, N, K = problem["tokens"], problem["N"], problem["K"]
    device = device_of(torch.device("cuda"))
    known = [it for it in tiles(bits, False) if it.split == 1 or LEAST_STEPS * it.split * it.BK <= K]
    known = [it for it in known if max(16, 2 * (M if it.swapped else N)) >= it.BN and it.split <= 8]
    best = sorted(known, key=lambda it: predicted(it, M, N, K, bits // 8, device))[:most]
    return best + [replace(it, ordered=False) for it in best if it.split > 1][:1]


def candidates(problem: dict[str, Any], extra: int) -> dict[str, Callable[[Any, Any], Any]]:
    """Functions of X and the weight."""
    import torch

    from tawa.ops import linear
    from tawa.ops.products import matmul_launch as launching

    calls: dict[str, Callable[[Any, Any], Any]] = {
        CUBLAS: torch.nn.functional.linear,
        OUR: linear,
        STOCK: in_stock(problem),
    }
    for tile in near(problem, extra):
        made: dict[int, Any] = {}

        def call(x: Any, weight: Any, tile: Any = tile, made: dict[int, Any] = made) -> Any:
            if 0 not in made:
                made[0] = launching.Product(x, weight.mT, None, "none", False, tile)
            return made[0](x, weight.mT)

        calls[str(tile)] = call
    return calls


def in_stock(problem: dict[str, Any]) -> Callable[[Any, Any], Any]:
    """The same kernel with the same tile, compiled by stock Triton."""
    import tawa

    made: dict[int, Any] = {}

    def call(x: Any, weight: Any) -> Any:
        from tawa.ops.products import matmul_launch as launching

        with tawa.scope(enable_warp_specialization=False):
            if 0 not in made:
                tile = launching.tile_of(x, weight.mT, False)
                deep = replace(tile, num_stages=min(tile.num_stages, 4))
                made[0] = launching.Product(x, weight.mT, None, "none", False, deep)
            return made[0](x, weight.mT)

    return call


def excess(found: Any, x: Any, weight: Any) -> float:
    """The largest error, divided by the allowed one; infinite if there is a NaN."""
    import torch

    if not bool(found.isfinite().all()):
        return float("inf")
    rows = slice(0, 256)
    exact = x[rows].double() @ weight.double().mT
    peer = torch.nn.functional.linear(x[rows], weight).double()
    return ((found[rows].double() - exact).abs().max() / (2 * (peer - exact).abs().max())).item()


def bench_problem(problem: dict[str, Any], extra: int) -> list[Row]:
    """The rows of one problem."""
    import torch

    tokens, N, K = problem["tokens"], problem["N"], problem["K"]
    copies = max(1, min(12, -(-COLD_BYTES // (N * K * 2))))
    weights = [torch.randn(N, K, device="cuda", dtype=torch.bfloat16) for _ in range(copies)]
    x = torch.randn(tokens, K, device="cuda", dtype=torch.bfloat16)
    rows, fit = list[Row](), dict[str, Callable[[], Any]]()
    for name, call in candidates(problem, extra).items():
        try:
            error = excess(call(x, weights[0]), x, weights[0])
        except Exception as failure:
            rows.append(Row(problem, name, error=describe(failure)))
            continue
        if error > 1:
            rows.append(Row(problem, name, error=f"wrong result: {error:.3g} times the allowed error"))
            continue
        copies = itertools.cycle(weights)
        fit[name] = lambda call=call, copies=copies: call(x, next(copies))
    timings, failures = time_round_robin(fit, rounds=10, burst_ms=2.0, rest_s=0.005)
    for name, timing in timings.items():
        rows.append(Row.timed(problem, name, timing, 2.0 * tokens * N * K))
    rows += [Row(problem, name, error=text) for name, text in failures.items()]
    return rows


def warm(problem_and_extra: tuple[dict[str, Any], int]) -> None:
    """Compiles the kernels of a problem in another process."""
    import torch

    problem, extra = problem_and_extra
    x = torch.zeros(problem["tokens"], problem["K"], device="cuda", dtype=torch.bfloat16)
    weight = torch.zeros(problem["N"], problem["K"], device="cuda", dtype=torch.bfloat16)
    for call in candidates(problem, extra).values():
        try:
            call(x, weight)
        except Exception as failure:
            print(problem, describe(failure), flush=True)


def main() -> int:
    """Runs the bench."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", default=",".join(map(str, TOKENS)))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--candidates", type=int, default=0, help="how many other tiles are timed")
    parser.add_argument("--name", default="linear")
    parser.add_argument("--processes", type=int, default=14)
    parser.add_argument("--minutes", type=float, default=8.0)
    given = parser.parse_args()
    listed = list(problems(given.models.split(","), [int(it) for it in given.tokens.split(",")]))
    begun = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        for _ in pool.imap_unordered(warm, [(it, given.candidates) for it in listed]):
            pass
    print(f"compiled in {time.monotonic() - begun:.0f} s", flush=True)
    report = Report(given.name)
    for problem in listed:
        if time.monotonic() - begun > given.minutes * 60:
            print("out of time", flush=True)
            break
        rows = bench_problem(problem, given.candidates)
        report.rows += rows
        report.save()
        times = {row.candidate: row.median_ms for row in rows if row.median_ms}
        base = times.get(CUBLAS, 0.0)
        print(
            f"{problem['tokens']:5d} x {problem['N']} x {problem['K']}: "
            + ", ".join(f"{name} {base / it:.3f}" for name, it in sorted(times.items(), key=lambda it: it[1])[:5])
            + "".join(f"; {row.candidate}: {row.error}" for row in rows if row.error),
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
