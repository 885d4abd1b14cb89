"""Scaled, batched and weight-only products under Triton's interpreter: every case below, each a line of JSON.

As `interpreted.py`: descriptors, strides, masks, packings and the order of arguments are what this checks. The
interpreter has no fp8 and no bfloat16, so the scaled products are taken of float16.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tawa.ops.products import batched_launch, matmul_launch, scaled_launch, tile_choice, weight_only_launch
from tests.ops.expected import normal
from tests.ops.expected_quantised import WEIGHTS, check, of_scaled, random_scale, random_weights
from tests.ops.reported import report

# name: (M, N, K), kinds of scales of A and B, bias, fast sums
SCALED: dict[str, tuple[tuple[int, int, int], tuple[int, int], bool, bool]] = {
    "tensor": ((100, 200, 300), (0, 0), False, False),
    "rows": ((100, 129, 130), (1, 1), True, False),
    "rows_fast": ((100, 200, 300), (1, 1), True, True),
    "tensor_and_rows": ((130, 64, 96), (0, 1), False, True),
    "row_blocks": ((100, 200, 300), (2, 2), False, False),
    "row_blocks_and_blocks": ((200, 300, 400), (2, 3), True, False),
    "blocks": ((130, 129, 260), (3, 3), False, False),
    "blocks_and_row_blocks": ((130, 129, 260), (3, 2), False, False),
    "rows_and_blocks": ((130, 129, 260), (1, 3), False, False),
    "one_row": ((1, 100, 200), (2, 3), False, False),
    "one_product": ((70, 70, 1), (2, 3), False, False),
}
# name: (batches, M, N, K), whether A and B are transposed, which operand is shared (0: none)
BATCHED: dict[str, tuple[tuple[int, int, int, int], tuple[bool, bool], int]] = {
    "plain": ((3, 100, 200, 72), (False, False), 0),
    "odd": ((2, 1, 129, 131), (False, False), 0),
    "a_transposed": ((2, 130, 64, 72), (True, False), 0),
    "b_transposed": ((2, 130, 64, 72), (False, True), 0),
    "both_transposed": ((2, 131, 65, 71), (True, True), 0),
    "a_shared": ((3, 64, 72, 40), (False, True), 1),
    "b_shared": ((3, 64, 72, 40), (True, False), 2),
    "one_batch": ((1, 64, 64, 64), (False, False), 0),
    "one_product": ((2, 131, 64, 1), (False, False), 0),
}
# name: format, (M, N, K), group size, zeros, bias, splits (0: chosen)
WEIGHT_ONLY: dict[str, tuple[str, tuple[int, int, int], int, bool, bool, int]] = {
    "int4": ("int4", (5, 100, 300), 0, False, False, 0),
    "int4_zeros": ("int4", (17, 130, 520), 128, True, True, 0),
    "int4_groups_of_32": ("int4", (17, 72, 520), 32, True, False, 0),
    "int4_groups_of_10": ("int4", (3, 64, 700), 10, True, True, 0),
    "int4_groups_of_96": ("int4", (3, 64, 700), 96, False, True, 0),
    "int4_groups_of_512": ("int4", (3, 64, 1100), 512, True, False, 0),
    "int4_four_splits": ("int4", (3, 64, 1024), 64, True, True, 4),
    "int4_three_splits": ("int4", (20, 70, 1000), 128, True, True, 3),
    "int4_130_tokens": ("int4", (130, 64, 300), 128, True, True, 0),
    "int8": ("int8", (5, 100, 300), 0, False, False, 0),
    "int8_zeros": ("int8", (3, 64, 1000), 128, True, True, 3),
    "int8_groups_of_32": ("int8", (17, 72, 520), 32, True, False, 0),
    "fp8_e4m3": ("fp8_e4m3", (5, 100, 300), 128, False, True, 0),
    "fp8_e5m2": ("fp8_e5m2", (5, 100, 300), 0, False, False, 2),
    "gptq": ("gptq", (5, 104, 304), 0, True, False, 0),
    "gptq_splits": ("gptq", (17, 136, 520), 128, True, True, 2),
    "gptq_v2": ("gptq_v2", (3, 64, 256), 32, True, True, 0),
    "awq": ("awq", (5, 104, 304), 0, True, False, 0),
    "awq_splits": ("awq", (17, 136, 520), 128, True, True, 2),
    "awq_without_zeros": ("awq", (3, 64, 256), 32, False, True, 0),
}
ALL = (*(f"scaled-{name}" for name in SCALED), *(f"batched-{name}" for name in BATCHED),
       *(f"weights-{name}" for name in WEIGHT_ONLY))  # fmt: skip


def run_scaled(name: str) -> None:
    """One scaled product; raises AssertionError if a result is wrong."""
    (M, N, K), kinds, bias, fast = SCALED[name]
    a, b = normal(M, K, seed=1), normal(N, K, seed=2).t()
    scale_a, scale_b = random_scale(kinds[0], M, K), random_scale(kinds[1], N, K)
    scale_b = scale_b.t() if scale_b.dim() == 2 else scale_b
    added = normal(N, seed=3) if bias else None
    c = scaled_launch.run_scaled(a, b, scale_a, scale_b, added, torch.float32, fast)
    check(c, of_scaled(a, b, scale_a, scale_b, added), 1e-5)


def run_batched(name: str) -> None:
    """One batched product in float16 and float32; raises AssertionError if a result is wrong."""
    (batches, M, N, K), transposed, shared = BATCHED[name]
    for dtype, tolerance in ((torch.float16, 1e-3), (torch.float32, 1e-5)):
        shapes = [(K, M) if transposed[0] else (M, K), (N, K) if transposed[1] else (K, N)]
        counts = [1 if shared == which else batches for which in (1, 2)]
        a, b = (normal(n, *shape, dtype=dtype, seed=n) for n, shape in zip(counts, shapes, strict=True))
        a, b = (x.mT if flip else x for x, flip in zip((a, b), transposed, strict=True))
        a, b = a.expand(batches, -1, -1), b.expand(batches, -1, -1)
        check(batched_launch.run_batched(a, b), a.double() @ b.double(), tolerance)


def run_weights(name: str) -> None:
    """One weight-only product; raises AssertionError if a result is wrong."""
    format, (M, N, K), size, has_zeros, has_bias, splits = WEIGHT_ONLY[name]
    weights = random_weights(format, N, K, size, has_zeros)
    x, bias = normal(M, K, seed=1), normal(N, seed=2) if has_bias else None
    packed = weights.qweight, weights.scales, weights.zeros, bias
    if splits:
        y = weight_only_launch.WeightOnly(x, *packed, size, format, splits=splits)(x, *packed)
    else:
        y = weight_only_launch.run_weight_only(x, *packed, size, format)
    weights.check(y, x, bias)


def main() -> None:
    """Runs every case on every table of tiles, into outputs full of NaN."""
    torch.set_num_threads(1)

    def poisoned(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.full(shape, math.nan, dtype=dtype, device=like.device)

    for module in (scaled_launch, batched_launch, weight_only_launch, matmul_launch):
        module.unwritten, module.multiprocessors = poisoned, lambda device: 13
    families = {"scaled": run_scaled, "batched": run_batched, "weights": run_weights}
    for table in ("hopper", "elsewhere"):
        if table == "hopper":
            scaled_launch.tiles_of = lambda device, of_b: tile_choice.SCALED_BLOCKS
            batched_launch.tiles_of = lambda device, dtype: (
                tile_choice.BATCHED_TF32 if dtype == torch.float32 else tile_choice.BATCHED
            )
            weight_only_launch.is_hopper = matmul_launch.is_hopper = lambda device: True
        else:
            scaled_launch.tiles_of = lambda device, of_b: tile_choice.SCALED_ELSEWHERE
            batched_launch.tiles_of = lambda device, dtype: (
                tile_choice.BATCHED_TF32_ELSEWHERE if dtype == torch.float32 else tile_choice.BATCHED_ELSEWHERE
            )
            weight_only_launch.is_hopper = matmul_launch.is_hopper = lambda device: False
        for name in ALL:
            family, _, case = name.partition("-")
            report(table, name, families[family], case)


assert set(WEIGHTS) == {it[0] for it in WEIGHT_ONLY.values()}

if __name__ == "__main__":
    main()
