"""The kernels of the regret bench that are written here, on problems of the size of models.

Kernels of other packages come from the corpus (`bench.corpus`), with the same candidates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.cases.case import Specimen

GEMMS = ((8192, 8192, 512), (8192, 8192, 4096), (4096, 4096, 2048), (1024, 1024, 4096))
TOKENS = ((1, 16384), (4, 4096), (16, 1024))
"""Sequences and their length."""
_GEMM_NAMES = (
    "tile_fp16_nn", "tile_fp16_nt", "tile_fp8e4nv_nt", "tile_fp8e4nv_nn", "tile_8warps_nn", "tile_8warps_nt",
    "tile_64x64", "tile_bk32", "tile_bk128", "tile_stages1", "tile_stages4", "tile_8warps_128x128", "persistent_nn",
    "persistent_8warps", "persistent_fp8e4nv", "gate_up", "epilogue_gelu", "epilogue_all_pointers", "in_loop_scale",
)  # fmt: skip
_POINTER_NAMES = (
    "tutorial_nn", "tutorial_nt", "tutorial_fp8", "tutorial_stride2", "weights_i8",
    "experts", "array_tiles", "offsets", "mask_from_memory", "linear_attention", "gram",
)  # fmt: skip
_ATTENTION = tuple(
    (form, dtype, d, causal)
    for form in ("two_loops", "persistent", "branch")
    for dtype in ("bf16", "fp8e4nv")
    for d in (64, 128, 256)
    for causal in (False, True)
    if form != "branch" or causal
)


def problems() -> Iterator[tuple[str, Specimen]]:
    """Each kernel with one problem: the kernel's name, by which it is held out, and the case."""
    from tests.cases.attention.cases import bench_case
    from tests.cases.gemm.cases import CASES as GEMM
    from tests.cases.pointers.cases import CASES as POINTERS

    known = {case.name: case for case in (*GEMM, *POINTERS)}
    for name in (*_GEMM_NAMES, *_POINTER_NAMES):
        for sizes in GEMMS if name in known else ():
            yield name, _sized(known[name], sizes)
    for form, dtype, d, causal in _ATTENTION:
        tile = (128, 64 if d == 256 else 128, 8)
        for _, length in TOKENS:
            name = f"attention_{form}_{dtype}_d{d}" + "_causal" * causal
            yield name, replace(bench_case(form, dtype, d, causal, length, tile=tile), name=f"{name}_S{length}")


def _sized(case: Specimen, sizes: tuple[int, int, int]) -> Specimen:
    """The case on another problem; sizes that it does not have stay away."""
    m, n, k = sizes
    wanted = {"M": m, "N": n, "K": k, "K2": k, "PROGRAMS": 132, "Z": 4}
    found = {name: wanted[name] for name in case.sizes if name in wanted}
    name = f"{case.name}_" + "x".join(str(found.get(axis, case.sizes.get(axis, 0))) for axis in "MNK")
    return replace(case.with_sizes(**found), name=name)
