"""xFormers: products of matrices that lie in up to three tiles in each axis, as query, key and value projections do.

M, N and K are the sizes of the tiles. ``tests/test_tiled_matmul.py`` compares in float64; the RMS ratio here is that of
16-bit results.
"""

from __future__ import annotations

from functools import partial

from bench.corpus.common.references import product
from bench.corpus.entry import Entry, Inputs, Outputs, Package, RmsRatio
from bench.corpus.partial_package import PartialPackage

_PACKAGE = PartialPackage(
    "xformers",
    ("xformers.ops._triton.tiled_matmul_kernels",),
    lambda: {
        "xformers.ops._triton.matmul_perf_model": {
            "early_config_prune": lambda configs, arguments, **more: configs,  # it asks the driver for clocks
            "estimate_matmul_time": lambda **about: 0.0,
        }
    },
)


def _make(M: tuple[int, ...], N: tuple[int, ...], K: tuple[int, ...], device: str) -> Inputs:
    import torch

    def tiles(rows: tuple[int, ...], columns: tuple[int, ...]) -> list[list[torch.Tensor]]:
        return [[torch.randn(row, column, device=device).bfloat16() for column in columns] for row in rows]

    return {"a": tiles(M, K), "b": tiles(K, N), "sizes": (M, N, K)}


def _run(it: Inputs) -> Outputs:
    import torch

    launch = _PACKAGE.load("xformers.ops._triton.tiled_matmul_kernels")._launch_triton_matmul
    M, N, K = it["sizes"]
    device = it["a"][0][0].device
    c = [[torch.empty(rows, columns, device=device, dtype=torch.bfloat16) for columns in N] for rows in M]
    launch(it["a"], it["b"], c, list(M), list(N), list(K))
    return {f"c{row}{column}": part for row, parts in enumerate(c) for column, part in enumerate(parts)}


def _want(it: Inputs) -> Outputs:
    import torch

    a, b = (torch.cat([torch.cat(row, 1) for row in it[name]]) for name in ("a", "b"))
    M, N, _ = it["sizes"]
    rows = product(a, b).split(list(M))
    return {f"c{row}{at}": part for row, parts in enumerate(rows) for at, part in enumerate(parts.split(list(N), 1))}


def _entries() -> list[Entry]:
    found: list[Entry] = []
    for M, N, K in (((4096,), (4096, 1024, 1024), (4096,)), ((100, 60), (64, 128), (96, 32))):
        shape = {name: "+".join(map(str, sizes)) for name, sizes in zip("MNK", (M, N, K), strict=True)}
        found.append(Entry("tiled_matmul", {**shape, "dtype": "bf16"}, partial(_make, M, N, K), _run, _want,
                           RmsRatio(1e-2), "tests/test_tiled_matmul.py", configs=6))  # fmt: skip
    return found


PACKAGE = Package(
    name="xformers",
    home="https://github.com/facebookresearch/xformers",
    licence="BSD-3-Clause",
    requires=(),
    sources=("xformers==0.0.35",),
    module="xformers.ops._triton.tiled_matmul_kernels",
    partial=_PACKAGE,
    entries=tuple(_entries()),
)
