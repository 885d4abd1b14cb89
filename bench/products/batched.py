"""Times products of batches of matrices: ``python -m bench.products.batched [--only TEXT] [--candidates]``.

Candidates: `tawa.ops.batched_mm`, cuBLAS (`torch.bmm`), and the same kernel in stock Triton, in several tiles. All
multiply float32 in tf32.

Results: ``bench/results/batched.json``, or ``batched_candidates.json`` with ``--candidates``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bench.products.measuring import ROWS, Bench, Calls, in_stock, main, named, on_first_call, pinned, share_of
from tawa.ops.calls.tables import plan
from tawa.ops.products.tile_choice import BATCHED, BATCHED_TF32, FROM_COUNTER, GROUPS, IN_SLICES, Tile

LEAST = {"bf16": 1e-3, "fp16": 1e-3, "fp32": 2e-3}
"""Of the largest value; tf32 rounds float32 to 10 bits."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Batches of C (M, N). transposed: "nn", "nt", "tn", "tt": whether K of A, and N of B, is not innermost."""

    batches: int
    M: int
    N: int
    K: int
    dtype: str = "bf16"
    transposed: str = "nn"

    @property
    def flop(self) -> float:
        """Operations."""
        return 2.0 * self.batches * self.M * self.N * self.K

    def __str__(self) -> str:
        """As ``--only`` finds it."""
        return f"{self.dtype} {self.transposed} {self.batches}x{self.M}x{self.N}x{self.K}"


PROBLEMS = (
    Problem(64, 1024, 1024, 1024),
    Problem(64, 1024, 1024, 1024, "fp16"),
    Problem(64, 1024, 1024, 1024, transposed="nt"),
    Problem(64, 1024, 1024, 1024, transposed="tn"),
    Problem(64, 1024, 1024, 1024, "fp32", "nt"),
    Problem(8, 2048, 2048, 2048),
    Problem(16, 4096, 4096, 128),
    Problem(256, 256, 256, 256),
    Problem(512, 128, 128, 512),
)

_WIDE, _SQUARE, _TF32 = Tile(128, 256, 64, 8, 4), Tile(128, 128, 64, 8, 4), Tile(128, 128, 32, 8, 4)
STOCK_16 = (
    in_stock(_WIDE, 8, 3), in_stock(_WIDE, 8, 4), in_stock(_SQUARE, 8, 3), in_stock(_SQUARE, 4, 3),
    in_stock(Tile(64, 128, 64, 4, 4)), in_stock(Tile(64, 64, 64, 4, 4)),
)  # fmt: skip
STOCK_32 = (in_stock(_TF32, 8, 3), in_stock(_TF32, 4, 3), in_stock(Tile(128, 256, 32, 8, 3)),
            in_stock(Tile(64, 64, 32, 4, 4)))  # fmt: skip
OTHERS_16 = pinned(
    _WIDE,
    replace(_WIDE, options=(plan(**FROM_COUNTER),)),
    replace(_WIDE, options=(plan(**GROUPS),)),
    replace(_WIDE, options=(plan(**GROUPS, **IN_SLICES),)),
    replace(_WIDE, options=(plan(form="persistent", groups=1),)),
    replace(_WIDE, options=(plan(form="persistent", groups=1, **IN_SLICES),)),
    replace(_WIDE, BM=256, BN=128, options=(plan(**FROM_COUNTER),)),
    _SQUARE,
    replace(_SQUARE, num_stages=5, options=(plan(**FROM_COUNTER),)),
    replace(_SQUARE, options=(plan(**GROUPS),)),
    Tile(64, 128, 64, 4, 3),
    Tile(64, 64, 64, 4, 3),
)
OTHERS_32 = pinned(
    _TF32,
    replace(_TF32, options=(plan(**FROM_COUNTER),)),
    replace(_TF32, options=(plan(**GROUPS, **IN_SLICES),)),
    Tile(128, 256, 32, 8, 3, options=(plan(**FROM_COUNTER, stores=[{"slices": 8}]),)),
    Tile(128, 256, 32, 8, 3),
    Tile(64, 128, 32, 4, 4),
)


def calls_of(problem: Problem, every: bool) -> tuple[Calls, Callable[[Any], float]]:
    """The candidates, and the check of a result."""
    import torch

    from tawa.ops import batched_mm
    from tawa.ops.products.batched_launch import BatchedMM

    torch.backends.cuda.matmul.allow_tf32 = True
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[problem.dtype]
    numbers = torch.Generator(device="cuda").manual_seed(0)

    def random(rows: int, columns: int, flip: bool) -> Any:
        shape = (problem.batches, columns, rows) if flip else (problem.batches, rows, columns)
        made = torch.randn(shape, generator=numbers, device="cuda").to(dtype)
        return made.mT if flip else made

    a = random(problem.M, problem.K, problem.transposed[0] == "t")
    b = random(problem.K, problem.N, problem.transposed[1] == "t")
    rows = torch.randint(0, problem.M, (ROWS,), generator=numbers, device="cuda")
    some = [0, problem.batches // 2, problem.batches - 1]
    exact = a[some][:, rows].double() @ b[some].double()
    calls: Calls = {"Tawa": lambda: batched_mm(a, b), "cuBLAS": lambda: torch.bmm(a, b)}

    def add(tile: Tile, way: str) -> None:
        calls[named(tile, way)] = on_first_call(lambda: BatchedMM(a, b, tile), a, b)

    wide = problem.dtype == "fp32"
    for tile in STOCK_32 if wide else STOCK_16:
        add(tile, "stock")
    if every:
        for tile in (*BATCHED_TF32, *OTHERS_32) if wide else (*BATCHED, *OTHERS_16):
            add(tile, "Tawa")
    return calls, lambda c: share_of(c[some][:, rows], exact, LEAST[problem.dtype])


if __name__ == "__main__":
    raise SystemExit(main(Bench("batched", PROBLEMS, calls_of), __doc__))
