"""Matrix products under Triton's interpreter: every case below, each a line of JSON.

As `interpreted.py`: descriptors, strides, masks and the order of arguments are what this checks.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from tawa.ops.products import matmul_launch as launching
from tawa.ops.products import matmul_op as operators
from tawa.ops.products.tiles import Tile
from tests.ops.expected_products import ACTIVATIONS, check_product
from tests.ops.reported import report

PLAIN = Tile(False, 64, 32, 0, 32, 4, 3)
SWAPPED = Tile(True, 64, 16, 0, 32, 4, 3)
TWO = Tile(False, 64, 32, 16, 32, 4, 3)
HALVES = Tile(False, 64, 32, 32, 32, 4, 3)
# name: tile, (M, N, K), options
CASES: dict[str, tuple[Tile, tuple[int, int, int], dict[str, Any]]] = {
    "plain": (PLAIN, (70, 88, 152), {}),
    "one_row": (PLAIN, (1, 88, 152), {}),
    "bias": (PLAIN, (70, 88, 152), {"bias": True}),
    "all": (PLAIN, (70, 88, 152), {"bias": True, "residual": True, "activation": "gelu"}),
    "relu": (PLAIN, (70, 88, 152), {"activation": "relu"}),
    "gelu_tanh": (PLAIN, (70, 88, 152), {"bias": True, "activation": "gelu_tanh"}),
    "silu": (PLAIN, (70, 88, 152), {"residual": True, "activation": "silu"}),
    "swapped": (SWAPPED, (9, 88, 152), {}),
    "swapped_all": (SWAPPED, (20, 88, 152), {"bias": True, "residual": True, "activation": "silu"}),
    "two": (TWO, (70, 88, 152), {}),
    "two_all": (TWO, (70, 88, 152), {"bias": True, "residual": True, "activation": "silu"}),
    "gated": (HALVES, (70, 176, 152), {"gated": True, "activation": "silu"}),
    "gated_all": (HALVES, (70, 176, 152), {"gated": True, "activation": "gelu", "bias": True, "residual": True}),
    "kept": (PLAIN, (70, 88, 152), {"activation": "silu", "bias": True, "residual": True, "kept": True}),
    "kept_swapped": (SWAPPED, (20, 88, 152), {"activation": "relu", "kept": True}),
    "kept_two": (TWO, (70, 88, 152), {"activation": "silu", "bias": True, "kept": True}),
    "kept_gated": (HALVES, (70, 176, 152), {"gated": True, "activation": "silu", "bias": True, "kept": True}),
    "kept_last_wave": (
        replace(PLAIN, split=2, last=True), (150, 176, 344), {"activation": "gelu", "residual": True, "kept": True}
    ),
    "split2": (replace(PLAIN, split=2), (70, 88, 152), {}),
    "split3_all": (replace(PLAIN, split=3), (70, 88, 344), {"bias": True, "residual": True, "activation": "silu"}),
    "split_by_atomics": (replace(PLAIN, split=3, ordered=False), (70, 88, 344), {"bias": True, "residual": True}),
    "last_wave_by_atomics": (replace(PLAIN, split=2, last=True, ordered=False), (150, 176, 344), {}),
    "split_columns": (replace(PLAIN, BN=64, split=2), (70, 88, 344), {"bias": True}),
    "split_swapped": (replace(SWAPPED, split=4), (9, 88, 600), {"bias": True, "residual": True}),
    "last_wave": (replace(PLAIN, split=2, last=True), (150, 176, 344), {"bias": True, "residual": True}),
    "last_wave_swapped": (replace(SWAPPED, split=3, last=True), (40, 176, 344), {"activation": "relu"}),
    "more_shares_than_steps": (replace(PLAIN, split=6), (70, 88, 152), {}),
    "float32": (PLAIN, (70, 88, 152), {"dtype": torch.float32, "bias": True}),
    "three_dimensions": (PLAIN, (70, 88, 152), {"outer": (7, 10), "residual": True}),
}  # fmt: skip
LAYOUTS = ("rows_rows", "rows_columns", "columns_rows", "columns_columns")
"""Of A and B: which axis is innermost in memory."""


def tensors(sizes: tuple[int, int, int], dtype: torch.dtype = torch.float16, **options: Any) -> list[Any]:
    """X, the weight, the bias and the residual of a case."""
    M, N, K = sizes
    made = torch.Generator().manual_seed(3)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=made, dtype=torch.float32).to(dtype)

    outer = options.get("outer", (M,))
    columns = N // 2 if options.get("gated") else N
    bias = normal(N) if options.get("bias") else None
    residual = normal(*outer, columns) if options.get("residual") else None
    return [normal(*outer, K), normal(N, K) / 8, bias, residual]


def run(name: str) -> None:
    """One case; raises AssertionError if a result is wrong."""
    tile, sizes, options = CASES[name]
    launching.tile_of = lambda a, b, gated: tile
    launching._products.clear()
    x, weight, bias, residual = tensors(sizes, **options)
    rest = {name: options[name] for name in ("activation", "gated") if name in options}
    given = x, weight, bias, residual, rest.get("activation", "none"), rest.get("gated", False)
    if options.get("kept"):
        found, sums = operators._run_linear_kept(*given)
        check_product(sums, x, weight, bias)
    else:
        found = operators._run_linear(*given)
    check_product(found, x, weight, bias, residual, **rest)


def run_gradients(activation: str) -> None:
    """What the two halves of a gated product get, against PyTorch's derivative in float64."""
    made = torch.Generator().manual_seed(4)
    gradient, sums = (torch.randn(19, n, generator=made).to(torch.bfloat16) for n in (264, 528))
    exact = sums.double().requires_grad_()
    gate, other = exact.chunk(2, dim=-1)
    (wanted,) = torch.autograd.grad(ACTIVATIONS[activation](gate) * other, exact, gradient.double())
    found = launching.gated_gradients(gradient, sums, activation)
    assert bool(found.isfinite().all()), "not finite"
    torch.testing.assert_close(found.double(), wanted, rtol=1 / 128, atol=1e-6)


def run_layout(name: str) -> None:
    """A product of matrices stored in any order."""
    launching.tile_of = lambda a, b, gated: PLAIN
    launching._products.clear()
    x, weight, _, _ = tensors((72, 88, 152))
    of_a, of_b = name.split("_")
    a = x if of_a == "rows" else x.mT.contiguous().mT
    b = weight.mT if of_b == "columns" else weight.mT.contiguous()
    check_product(operators._run_mm(a, b), x, weight)


def main() -> None:
    """Runs every case into outputs full of NaN."""
    torch.set_num_threads(1)

    def poisoned(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.full(shape, math.nan, dtype=dtype, device=like.device)

    launching.unwritten = operators.unwritten = poisoned
    launching.multiprocessors = lambda device: 4  # so that a few tiles make several waves
    for name in (*CASES, *LAYOUTS):
        report("products", name, run if name in CASES else run_layout, name)
    for name in ACTIVATIONS:
        report("products", f"gradients_{name}", run_gradients, name)


if __name__ == "__main__":
    main()
