"""Times mixtures of experts: ``python -m bench.products.moe [--only TEXT] [--candidates]``.

Shapes of Qwen3-30B-A3B, Mixtral 8x7B, and DeepSeek-V3 over eight GPUs. Candidates: `tawa.ops.moe`; the same with
choices that are sorted before its time begins; and a fused kernel as serving engines have it, in stock Triton and
several configurations (`bench.peers.fused_moe`), whose choices are sorted before its time begins, too.

Results: ``bench/results/moe.json``, or ``moe_candidates.json`` with ``--candidates``: also other tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.peers.fused_moe import CONFIGS, fused_moe
from bench.products.measuring import Bench, Calls, main, named, on_first_call, share_of
from tawa.ops.grouped.tiles import GROUPED, TWO_GROUPS, Pair
from tawa.ops.products.tile_choice import Tile

SORTED = "Tawa, choices sorted before"
_HIGH, _LOW = Tile(128, 128, 64, 8, 4, options=TWO_GROUPS), Tile(64, 128, 64, 4, 4)
PAIRS = (
    *(Pair(_HIGH, GROUPED[1], moved) for moved in (False, True)),
    Pair(_LOW, Tile(64, 128, 128, 4, 3), False),
    Pair(_HIGH, _HIGH, False),
    *(Pair(_LOW, _LOW, moved) for moved in (False, True)),
    Pair(_LOW, Tile(64, 256, 64, 4, 4), False),
)
"""Tiles of both products."""
LEAST = 1.5e-2
"""Of the largest value: each of three roundings to bfloat16 costs up to 4e-3."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A layer, and its tokens."""

    layer: str
    tokens: int
    experts: int
    choices: int
    hidden: int
    inner: int

    @property
    def flop(self) -> float:
        """Operations."""
        return 6.0 * self.tokens * self.choices * self.hidden * self.inner

    def __str__(self) -> str:
        """As ``--only`` finds it."""
        return f"{self.layer} {self.tokens}"


PROBLEMS = (
    *(Problem("qwen3", tokens, 128, 8, 2048, 768) for tokens in (16, 64, 256, 1024, 4096, 16384)),
    *(Problem("mixtral", tokens, 8, 2, 4096, 14336) for tokens in (16, 256, 4096)),
    *(Problem("deepseek", tokens, 256, 8, 7168, 256) for tokens in (16, 256, 4096)),
)


def calls_of(problem: Problem, every: bool) -> tuple[Calls, Callable[[Any], float]]:
    """The candidates, and the check of a result."""
    import torch

    from tawa.ops import moe
    from tawa.ops.grouped.moe_launch import Mixture
    from tests.ops.expected_grouped import of_moe, random_choices

    numbers = torch.Generator(device="cuda").manual_seed(0)

    def random(*shape: int) -> Any:
        made = torch.randn(shape, generator=numbers, device="cuda", dtype=torch.bfloat16)
        return made.mul_(shape[-1] ** -0.5)

    E, H, wide = problem.experts, problem.hidden, problem.inner
    x, gate_up, down = random(problem.tokens, H), random(E, 2 * wide, H), random(E, H, wide)
    x.mul_(H**0.5)
    weights, experts = random_choices(problem.tokens, problem.choices, E, "cuda")
    rows = slice(0, 16)
    exact = of_moe(x[rows], gate_up, down, weights[rows], experts[rows])
    mixed = Mixture(x, gate_up, down, experts)
    by_expert = mixed.sort(experts)
    calls: Calls = {
        "Tawa": lambda: moe(x, gate_up, down, weights, experts),
        SORTED: lambda: mixed.of_sorted(x, gate_up, down, weights, by_expert),
    }
    for pair in PAIRS if every else ():
        calls[f"{named(pair.first)}; {named(pair.second, '')}{', rows moved' * pair.moved}"] = on_first_call(
            lambda pair=pair: Mixture(x, gate_up, down, experts, pair), x, gate_up, down, weights, experts
        )
    for config in CONFIGS:
        if problem.tokens * problem.choices / E > 4 * config[0] and config[0] < 64 and not every:
            continue  # far too small
        name = "stock fused kernel {}x{}x{}, {} warps, {} stages".format(*config)
        calls[name] = on_first_call(lambda config=config: fused_moe(x, gate_up, down, weights, experts, config))
    return calls, lambda out: share_of(out[rows], exact, LEAST)


if __name__ == "__main__":
    raise SystemExit(main(Bench("moe", PROBLEMS, calls_of), __doc__))
