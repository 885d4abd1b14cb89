"""Times products of groups of rows: ``python -m bench.products.grouped [--only TEXT] [--candidates]``.

64 groups, as experts have them, of equal sizes or skewed. Candidates: `tawa.ops.grouped_mm`, PyTorch's `_grouped_mm`
(CUTLASS), and the same kernel in stock Triton, in several tiles.

Results: ``bench/results/grouped.json``, or ``grouped_candidates.json`` with ``--candidates``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bench.products.measuring import Bench, Calls, in_stock, main, named, on_first_call, pinned, share_of
from tawa.ops.calls.tables import plan
from tawa.ops.grouped.tiles import GROUPED, OUTER, TWO_GROUPS
from tawa.ops.products.tile_choice import FROM_COUNTER, GROUPS, Tile

LEAST = 1e-3
"""Of the largest value."""
EXPERTS = 64


@dataclass(frozen=True, slots=True)
class Problem:
    """T rows in groups. kind: "rows" (T, K) @ (G, K, N), or "sums" (K, T) @ (T, N). skew: of the groups' sizes."""

    T: int
    N: int
    K: int
    skew: str = "even"
    kind: str = "rows"

    @property
    def flop(self) -> float:
        """Operations."""
        return 2.0 * self.T * self.N * self.K

    def __str__(self) -> str:
        """As ``--only`` finds it."""
        return f"{self.kind} {self.skew} {self.T}x{self.N}x{self.K}"


PROBLEMS = (
    *(Problem(T, 1536, 2048, skew) for T in (256, 1024, 4096, 16384) for skew in ("even", "skewed")),
    *(Problem(T, 4096, 7168, skew) for T in (256, 4096, 16384) for skew in ("even", "skewed")),
    *(Problem(T, 1536, 2048, skew, "sums") for T in (4096, 16384) for skew in ("even", "skewed")),
)
_SQUARE = Tile(128, 128, 64, 8, 4)
STOCK = (
    in_stock(_SQUARE, 8, 3), in_stock(_SQUARE, 4, 3), in_stock(Tile(128, 256, 64, 8, 3)),
    in_stock(Tile(64, 128, 64, 4, 4)), in_stock(Tile(64, 128, 128, 4, 3)),
)  # fmt: skip
OTHERS = pinned(
    replace(_SQUARE, num_stages=3, options=TWO_GROUPS),
    Tile(64, 256, 64, 4, 4),
    Tile(128, 256, 64, 8, 3, options=TWO_GROUPS),
    Tile(64, 128, 128, 4, 3),
    Tile(64, 64, 128, 4, 3, per_sm=2),
)
OTHERS_OF_SUMS = pinned(
    replace(_SQUARE, options=(plan(**GROUPS),)),
    replace(_SQUARE, options=(plan(**FROM_COUNTER),)),
    Tile(128, 256, 64, 8, 3, options=TWO_GROUPS),
)


def sizes_of(problem: Problem) -> list[int]:
    """The sizes of groups; skewed: the first has an eighth of all rows, the last few none."""
    if problem.skew == "even":
        return [problem.T // EXPERTS] * EXPERTS
    left, sizes = problem.T, list[int]()
    for _ in range(EXPERTS):
        sizes.append(min(left, -(-left // 8)) if left > EXPERTS else min(left, 1))
        left -= sizes[-1]
    sizes[0] += left
    return sizes


def calls_of(problem: Problem, every: bool) -> tuple[Calls, Callable[[Any], float]]:
    """The candidates, and the check of a result."""
    import torch

    from tawa.ops import grouped_mm
    from tawa.ops.grouped.launch import Outer, Rows
    from tests.ops.expected_grouped import ends_of

    numbers = torch.Generator(device="cuda").manual_seed(0)
    sizes, sums = sizes_of(problem), problem.kind == "sums"
    ends = ends_of(sizes, "cuda")

    def random(*shape: int) -> Any:
        return torch.randn(shape, generator=numbers, device="cuda", dtype=torch.bfloat16)

    a = random(problem.T, problem.K)
    if sums:
        a, b = a.mT, random(problem.T, problem.N)
        groups = [0, 1, EXPERTS - 1]
        starts = [sum(sizes[:group]) for group in groups]
        exact = torch.stack([
            a[:64, start : start + sizes[group]].double() @ b[start : start + sizes[group]].double()
            for group, start in zip(groups, starts, strict=True)
        ])  # fmt: skip
    else:
        b = random(EXPERTS, problem.N, problem.K).mT
        rows = torch.randint(0, problem.T, (64,), generator=numbers, device="cuda")
        owners = torch.searchsorted(ends, rows, right=True)
        exact = torch.bmm(a[rows].double().unsqueeze(1), b[owners].double()).squeeze(1)
    calls: Calls = {
        "Tawa": lambda: grouped_mm(a, b, ends),
        "PyTorch": lambda: torch._grouped_mm(a, b, offs=ends),
    }

    def add(tile: Tile, way: str) -> None:
        calls[named(tile, way)] = on_first_call(
            lambda: Outer(a, b, EXPERTS, tile) if sums else Rows(a, b, tile), a, b, ends
        )

    for tile in STOCK:
        add(tile, "stock")
    if every:
        for tile in (*OUTER, *OTHERS_OF_SUMS) if sums else (*GROUPED, *OTHERS):
            add(tile, "Tawa")
    return calls, lambda c: share_of(c[groups][:, :64] if sums else c[rows], exact, LEAST)


if __name__ == "__main__":
    raise SystemExit(main(Bench("grouped", PROBLEMS, calls_of), __doc__))
