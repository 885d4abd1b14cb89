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
    "tutorial_fp16_nn", "tutorial_fp16_nt", "tutorial_fp8e4nv_nt", "tutorial_stride2", "weights_i8_fp16",
    "mask_from_memory", "gram",
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
        for sizes in GEMMS:
            yield name, sized(known[name], sizes)
    yield from _with_tables()
    for form, dtype, d, causal in _ATTENTION:
        tile = (128, 64 if d == 256 else 128, 8)
        for _, length in TOKENS:
            name = f"attention_{form}_{dtype}_d{d}" + "_causal" * causal
            yield name, replace(bench_case(form, dtype, d, causal, length, tile=tile), name=f"{name}_S{length}")


def _with_tables() -> Iterator[tuple[str, Specimen]]:
    """Kernels whose inputs depend on the problem: addresses, token lists, lengths of groups, chunks of a recurrence."""
    from tests.cases.pointers.builders import experts_case, linear_case, offsets_case
    from tests.cases.pointers.table_builders import array_case

    for m, n, k in ((4096, 4096, 512), (1024, 1024, 4096), (512, 2048, 1024)):
        name = f"array_tiles_{m}x{n}x{k}"
        yield "array_tiles", array_case(name, places=(2, 0, 3, 1), sizes=(m, n, k))
    for rows, n, k in (((2048, 1000, 4096, 77), 2048, 2048), ((512,) * 16, 1024, 4096), ((8000, 200), 4096, 512)):
        yield "offsets", offsets_case(f"offsets_{len(rows)}x{max(rows)}x{n}x{k}", rows, n, k)
    for tokens, experts, n, k in ((4096, 8, 2048, 2048), (1024, 8, 4096, 1024), (8192, 16, 1024, 4096)):
        name = f"experts_{tokens}x{experts}x{n}x{k}"
        yield "experts", experts_case(name, tokens=tokens, experts=experts, n=n, k=k)
    for heads, steps in ((132, 4096), (64, 8192), (528, 1024)):
        yield "linear_attention", linear_case(f"linear_attention_{heads}x{steps}", steps=steps, heads=heads)


def sized(case: Specimen, sizes: tuple[int, int, int]) -> Specimen:
    """The case on another problem; sizes that it does not have stay away."""
    m, n, k = sizes
    wanted = {"M": m, "N": n, "K": k, "K2": k, "PROGRAMS": 132, "BLOCKS": -(-k // 64)}
    found = {name: wanted[name] for name in case.sizes if name in wanted}
    name = f"{case.name}_" + "x".join(str(found.get(axis, case.sizes.get(axis, 0))) for axis in "MNK")
    return replace(case.with_sizes(**found), name=name)
