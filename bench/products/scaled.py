"""Times products in 8-bit floating point with scales: ``python -m bench.products.scaled [--only TEXT] [--candidates]``.

e4m3, bf16 output. "blocks": 1 x 128 of A and 128 x 128 of B, as in DeepSeek-V3, on shapes of its layers and on squares;
"rows": one scale for each row of A and column of B, with and without fast sums; "tensor". Candidates:
`tawa.ops.scaled_mm`, PyTorch's `torch._scaled_mm`, and the same kernel in stock Triton, in several tiles. DeepGEMM has
no wheel; its README states at most 1550 TFLOPS on an H800.

Results: ``bench/results/scaled.json``, or ``scaled_candidates.json`` with ``--candidates``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from bench.products.measuring import ROWS, Bench, Calls, in_stock, main, named, on_first_call, pinned, share_of
from tawa.ops.calls.tables import plan
from tawa.ops.products.tile_choice import CHAINED, FROM_COUNTER, GROUPS, IN_ONE_RING, SCALED_BLOCKS, Tile
from tawa.ops.products.tiles import Tile as Product

KINDS = {"blocks": (2, 3), "rows": (1, 1), "tensor": (0, 0)}
LEAST, LEAST_FAST = 2e-3, 1e-2
"""Of the largest value: the tensor cores add up 8-bit products in fewer bits than float32; fast sums are all such."""


@dataclass(frozen=True, slots=True)
class Problem:
    """C (M, N); fast: sums stay in the tensor cores."""

    kind: str
    M: int
    N: int
    K: int
    fast: bool = False

    @property
    def flop(self) -> float:
        """Operations."""
        return 2.0 * self.M * self.N * self.K

    def __str__(self) -> str:
        """As ``--only`` finds it."""
        return f"{self.kind}{' fast' if self.fast else ''} {self.M}x{self.N}x{self.K}"


PROBLEMS = (
    Problem("blocks", 4096, 7168, 2048),
    Problem("blocks", 4096, 4096, 7168),
    Problem("blocks", 4096, 7168, 16384),
    Problem("blocks", 4096, 24576, 1536),
    Problem("blocks", 4096, 4096, 4096),
    Problem("blocks", 8192, 8192, 8192),
    Problem("blocks", 128, 7168, 16384),
    Problem("blocks", 64, 4096, 7168),
    Problem("rows", 4096, 4096, 4096, fast=True),
    Problem("rows", 8192, 8192, 8192, fast=True),
    Problem("rows", 8192, 8192, 8192),
    Problem("rows", 128, 8192, 8192, fast=True),
    Problem("tensor", 128, 4096, 14336, fast=True),
    Problem("tensor", 128, 14336, 4096, fast=True),
    Problem("tensor", 16, 4096, 14336, fast=True),
    Problem("tensor", 8192, 8192, 8192, fast=True),
)

_SQUARE = Tile(128, 128, 128, 8, 4)
_SLICES = {"stores": [{"slices": 2}]}
STOCK_BLOCKS = (
    in_stock(_SQUARE, 8, 3), in_stock(_SQUARE, 8, 4), in_stock(_SQUARE, 4, 3), in_stock(_SQUARE, 4, 4),
    in_stock(Tile(64, 128, 128, 4, 4)), in_stock(Tile(64, 64, 128, 4, 4)),
)  # fmt: skip
STOCK_FAST = (
    Product(False, 128, 256, 0, 128, 8, 3), Product(False, 128, 128, 0, 128, 8, 3),
    Product(False, 128, 128, 0, 128, 4, 3), Product(False, 64, 128, 0, 128, 4, 4), Product(False, 64, 64, 0, 128, 4, 4),
)  # fmt: skip
BLOCKS = pinned(
    replace(_SQUARE, options=(plan(**FROM_COUNTER),)),
    replace(_SQUARE, num_stages=5, options=(plan(**FROM_COUNTER, **IN_ONE_RING),)),
    replace(_SQUARE, options=(plan(**FROM_COUNTER, **CHAINED),)),
    replace(_SQUARE, num_stages=5, options=(plan(**FROM_COUNTER, **IN_ONE_RING, loops=[{"chain": 2}]),)),
    replace(_SQUARE, num_stages=5, options=(plan(**GROUPS, **IN_ONE_RING, **CHAINED),)),
    replace(_SQUARE, num_stages=6, options=(plan(**FROM_COUNTER, **IN_ONE_RING, **CHAINED, **_SLICES),)),
    replace(_SQUARE, options=(plan(**FROM_COUNTER), ("ping_pong", True))),
    replace(_SQUARE, options=(plan(form="persistent", groups=1),)),
    Tile(64, 128, 128, 4, 3),
    Tile(64, 128, 128, 4, 6),
    Tile(64, 64, 128, 4, 6),
)
"""Candidates beside those of the table, for the products that are added in float32."""
NEAR = 6
"""Candidates for fast sums: so many of the tiles with the least predicted times."""


def calls_of(problem: Problem, every: bool) -> tuple[Calls, Callable[[Any], float]]:
    """The candidates, and the check of a result."""
    import torch

    import tawa
    from bench.products.linear import near
    from tawa.ops import scaled_mm
    from tawa.ops.products.scaled_launch import FastScaled, ScaledMM
    from tests.ops.expected_quantised import random_scale, spread

    M, N, K = problem.M, problem.N, problem.K
    kinds, out = KINDS[problem.kind], torch.bfloat16
    numbers = torch.Generator(device="cuda").manual_seed(0)
    a, b = (torch.randn(rows, K, generator=numbers, device="cuda").to(torch.float8_e4m3fn) for rows in (M, N))
    scale_a, of_b = random_scale(kinds[0], M, K, "cuda"), random_scale(kinds[1], N, K, "cuda")
    if problem.kind == "blocks":  # as torch._scaled_mm takes them: the rows of A innermost
        scale_a = scale_a.t().contiguous().t()
    scale_b = of_b.t() if of_b.dim() == 2 else of_b
    arguments = a, b.t(), scale_a, scale_b
    rows = torch.randint(0, M, (ROWS,), generator=numbers, device="cuda")
    of_rows = scale_a if scale_a.dim() == 0 else scale_a[rows]
    exact = (a[rows].double() * spread(of_rows, ROWS, K)) @ (b.double() * spread(of_b, N, K)).t()
    calls: Calls = {
        "Tawa": lambda: scaled_mm(*arguments, use_fast_accum=problem.fast),
        "PyTorch": lambda: torch._scaled_mm(*arguments, out_dtype=out, use_fast_accum=problem.fast),
    }

    def add(tile: Tile, way: str) -> None:
        calls[named(tile, way)] = on_first_call(lambda: ScaledMM(*arguments, None, out, tile), *arguments, None)

    def add_fast(tile: Product, way: str) -> None:
        def call() -> Any:
            with tawa.scope(enable_warp_specialization=False) if way == "stock" else nullcontext():
                return made()

        made = on_first_call(lambda: FastScaled(*arguments, out, tile), *arguments, None)
        calls[f"{way} {tile}"] = call

    if problem.fast:
        for tile in STOCK_FAST:
            add_fast(tile, "stock")
        for tile in near({"tokens": M, "N": N, "K": K}, NEAR, 8) if every else ():
            add_fast(tile, "Tawa")
    else:
        for tile in STOCK_BLOCKS:
            add(tile, "stock")
        for tile in (*SCALED_BLOCKS, *BLOCKS) if every else ():
            if max(64, M) >= tile.BM:
                add(tile, "Tawa")
    least = LEAST_FAST if problem.fast else LEAST
    return calls, lambda c: share_of(c[rows], exact, least)


if __name__ == "__main__":
    raise SystemExit(main(Bench("scaled", PROBLEMS, calls_of), __doc__))
