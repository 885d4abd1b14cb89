"""Grouped products and mixtures of experts under Triton's interpreter: every case below, each a line of JSON.

As `interpreted.py`; the interpreter has no bfloat16.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tawa.ops.calls.devices import device_of
from tawa.ops.grouped import launch, moe_launch, tiles
from tests.ops.expected import normal
from tests.ops.expected_grouped import check, ends_of, of_groups, of_moe, random_choices
from tests.ops.reported import report

# name: sizes of groups, rows behind the last, N, K
GROUPS: dict[str, tuple[tuple[int, ...], int, int, int]] = {
    "even": ((64, 64, 64), 0, 72, 80),
    "tiny_and_empty": ((1, 0, 3, 130, 0, 17), 0, 136, 200),
    "odd": ((5, 70, 1), 0, 129, 131),
    "rows_left": ((10, 0, 75), 90, 72, 64),
    "nothing_but_rows_left": ((0, 0), 70, 40, 72),
    "one_group": ((200,), 0, 64, 64),
    "one_product": ((3, 4), 1, 70, 1),
    "many_groups": ((3,) * 37, 2, 24, 40),
}
LAYOUTS = ("plain", "weights_transposed", "both_transposed")
# name: tokens, choices, experts, H, I
MOE: dict[str, tuple[int, int, int, int, int]] = {
    "few": (5, 2, 4, 72, 40),
    "one_token": (1, 8, 16, 64, 64),
    "one_expert": (70, 1, 1, 40, 72),
    "odd": (33, 3, 7, 75, 37),
    "several_blocks": (200, 3, 9, 64, 48),
    "elsewhere": (90, 4, 8, 64, 32),
    "many": (400, 2, 3, 72, 40),
    "many_elsewhere": (300, 4, 4, 40, 24),
    "many_odd": (300, 2, 2, 75, 37),
}
ALL = (*(f"{kind}-{name}" for name in GROUPS for kind in ("rows", "columns", "sums")),
       *(f"moe-{name}" for name in MOE))  # fmt: skip


def run_grouped(kind: str, name: str) -> None:
    """A product of each layout; raises AssertionError if a result is wrong."""
    sizes, left, N, K = GROUPS[name]
    T, G, ends = sum(sizes) + left, len(sizes), ends_of(sizes, "cpu")
    for layout in LAYOUTS:
        shapes = {"rows": ((T, K), (G, K, N)), "columns": ((G, N, K), (K, T)), "sums": ((K, T), (T, N))}[kind]
        transposed = layout == "both_transposed", layout != "plain"
        a, b = (
            normal(*shape[:-2], *(shape[-2:][::-1] if flip else shape[-2:]), seed=number)
            for number, (shape, flip) in enumerate(zip(shapes, transposed, strict=True))
        )
        a, b = (x.mT if flip else x for x, flip in zip((a, b), transposed, strict=True))
        check(launch.run_grouped(a, b, ends), of_groups(a, b, ends))


def run_moe(name: str) -> None:
    """A mixture; raises AssertionError if a result is wrong."""
    tokens, choices, E, H, wide = MOE[name]
    x, gate_up, down = normal(tokens, H, seed=1), normal(E, 2 * wide, H, seed=2), normal(E, H, wide, seed=3)
    gate_up, down = gate_up * H**-0.5, down * wide**-0.5
    weights, experts = random_choices(tokens, choices, E, "cpu", outside="elsewhere" in name)
    chosen = tiles.pair(
        *(moe_launch.tiles_of(x.device, known) for known in (tiles.GATED, tiles.GROUPED)),
        tiles.Sizes(experts.numel(), E, 2 * wide, H), device_of(x.device),
    )  # fmt: skip
    arguments, exact = (x, gate_up, down, weights, experts), of_moe(x, gate_up, down, weights, experts)
    for moved in (False, True):
        mixture = moe_launch.Mixture(x, gate_up, down, experts, chosen._replace(moved=moved))
        check(mixture(*arguments), exact)
    check(moe_launch.run_moe(*arguments), exact)
    order, rank, ends = moe_launch.run_sort(experts, E)
    flat = torch.where((experts >= 0) & (experts < E), experts, E).flatten()
    assert torch.equal(order.long(), torch.sort(flat, stable=True).indices)
    assert torch.equal(order.long()[rank.long()], torch.arange(len(flat)))
    assert torch.equal(ends.long(), torch.bincount(flat, minlength=E + 1).cumsum(0)[:E])


def main() -> None:
    """Runs every case on every table of tiles, into outputs full of NaN."""
    torch.set_num_threads(1)

    def poisoned(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        value = math.nan if dtype.is_floating_point else -(2**30)
        return torch.full(shape, value, dtype=dtype, device=like.device)

    for module in (launch, moe_launch):
        module.unwritten = poisoned
        module.tiles_of = lambda device, of_hopper: of_hopper if table == "hopper" else tiles.ELSEWHERE
    launch.multiprocessors = lambda device: 3  # fewer programs than tiles
    moe_launch.AT_ONCE, moe_launch.TOGETHER = 2, 4  # several programs, which count a few blocks at a time
    for table in ("hopper", "elsewhere"):
        for name in ALL:
            kind, _, case = name.partition("-")
            run, arguments = (run_moe, (case,)) if kind == "moe" else (run_grouped, (kind, case))
            report(table, name, run, *arguments)


if __name__ == "__main__":
    main()
