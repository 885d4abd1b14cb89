"""Block-scaled GEMMs (`tl.dot_scaled`): kernels, cases and their float64 reference.

C = (A * scales of A) @ (B * scales of B)^T. A row of A, or of B, has one scale for VEC elements. Elements are e4m3 or
packed e2m1; scales are exponents (mxfp8, mxfp4: VEC = 32) or e4m3 (nvfp4: VEC = 16).

    by TMA         scales in blocks of 128 rows x 4 columns, as cuBLAS and Triton's tutorial 10 store them
    by pointers    scales in rows
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from tests.cases.case import Argument, Descriptor, Expectation, Number, Pointer, Specimen, Tensor

ROWS, COLUMNS = 128, 4
"""A block of scales."""
FP4 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
FORMATS: dict[str, tuple[str, str, int]] = {
    "mxfp8": ("e4m3", "e4m3", 32), "mxfp4": ("e2m1", "e2m1", 32), "nvfp4": ("e2m1", "e2m1", 16),
    "mxfp8 x mxfp4": ("e4m3", "e2m1", 32),
}  # fmt: skip
"""The kinds of the elements of A and of B, and how many have one scale."""


@triton.jit
def product(
    a, b, scales_a, scales_b, m, n, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, VEC: tl.constexpr,
    A_KIND: tl.constexpr, B_KIND: tl.constexpr,
):  # fmt: skip
    """One tile, scales by TMA."""
    A_PACK: tl.constexpr = 2 if A_KIND == "e2m1" else 1
    B_PACK: tl.constexpr = 2 if B_KIND == "e2m1" else 1
    COLS: tl.constexpr = BK // VEC // 4
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        x = a.load([m, k * (BK // A_PACK)])
        y = b.load([n, k * (BK // B_PACK)])
        s = scales_a.load([0, m // 128, k * COLS, 0, 0])
        t = scales_b.load([0, n // 128, k * COLS, 0, 0])
        s = s.reshape(BM // 128, COLS, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BM, BK // VEC)
        t = t.reshape(BN // 128, COLS, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BN, BK // VEC)
        acc = tl.dot_scaled(x, s, A_KIND, y.T, t, B_KIND, acc)
    return acc


@triton.jit
def by_tma(
    a, b, c, scales_a, scales_b, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, VEC: tl.constexpr,
    A_KIND: tl.constexpr, B_KIND: tl.constexpr,
):  # fmt: skip
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = product(a, b, scales_a, scales_b, m, n, K, BM, BN, BK, VEC, A_KIND, B_KIND)
    c.store([m, n], acc.to(tl.float16))


@triton.jit
def persistent(
    a, b, c, scales_a, scales_b, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, VEC: tl.constexpr,
    A_KIND: tl.constexpr, B_KIND: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0)):
        m, n = tile // across * BM, tile % across * BN
        acc = product(a, b, scales_a, scales_b, m, n, K, BM, BN, BK, VEC, A_KIND, B_KIND)
        c.store([m, n], acc.to(tl.float16))


@triton.jit
def by_pointers(
    a, b, c, scales_a, scales_b, M, N, K, KS, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, VEC: tl.constexpr,
    A_KIND: tl.constexpr, B_KIND: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """WHOLE: whether all tiles are."""
    A_PACK: tl.constexpr = 2 if A_KIND == "e2m1" else 1
    B_PACK: tl.constexpr = 2 if B_KIND == "e2m1" else 1
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    rows, cols = m + tl.arange(0, BM)[:, None], n + tl.arange(0, BN)[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        x = a.load([m, k * (BK // A_PACK)])
        y = b.load([n, k * (BK // B_PACK)])
        block = k * (BK // VEC) + tl.arange(0, BK // VEC)[None, :]
        s_at, t_at = scales_a + rows * KS + block, scales_b + cols * KS + block
        s = tl.load(s_at) if WHOLE else tl.load(s_at, mask=(rows < M) & (block < KS), other=0.0)
        t = tl.load(t_at) if WHOLE else tl.load(t_at, mask=(cols < N) & (block < KS), other=0.0)
        acc = tl.dot_scaled(x, s, A_KIND, y.T, t, B_KIND, acc)
    c.store([m, n], acc.to(tl.float16))


@triton.jit
def attention(q, k, v, o, scales_q, scales_k, S, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, DV: tl.constexpr):
    """Attention whose scores come from mxfp8 queries and keys, with scales in rows; weights and values are fp16."""
    rows, blocks = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D // 32)
    queries = q.load([tl.program_id(0) * BM, 0])
    of_queries = tl.load(scales_q + rows[:, None] * (D // 32) + blocks[None, :])
    acc = tl.zeros((BM, DV), tl.float32)
    high = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for n in range(0, S, BN):
        of_keys = tl.load(scales_k + (n + tl.arange(0, BN))[:, None] * (D // 32) + blocks[None, :])
        s = tl.dot_scaled(queries, of_queries, "e4m3", k.load([n, 0]).T, of_keys, "e4m3") * 0.05
        new = tl.maximum(high, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        factor = tl.exp2(high - new)
        total = total * factor + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v.load([n, 0]), acc * factor[:, None])
        high = new
    o.store([tl.program_id(0) * BM, 0], (acc / total[:, None]).to(tl.float16))


def scaled_attention(keys: int, BM: int = 256, D: int = 128, DV: int = 64) -> Specimen:
    """One block of BM queries."""
    tensors = {
        "q": Tensor(("M", D), "fp8e4nv"), "k": Tensor(("S", D), "fp8e4nv"), "v": Tensor(("S", DV), "fp16"),
        "o": Tensor(("M", DV), "fp16", "nan"),
        "scales_q": Tensor(("M", D // 32), "u8", "integers", span=(123, 131)),
        "scales_k": Tensor(("S", D // 32), "u8", "integers", span=(123, 131)),
    }  # fmt: skip
    boxes = {"q": ("BM", D), "k": ("BN", D), "v": ("BN", DV), "o": ("BM", DV)}
    arguments: dict[str, Argument] = {name: Descriptor(name, box) for name, box in boxes.items()}
    arguments |= {"scales_q": Pointer("scales_q"), "scales_k": Pointer("scales_k"), "S": Number("S")}
    constexprs: dict[str, Any] = {"BM": BM, "BN": ROWS, "D": D, "DV": DV}
    return Specimen(
        "scaled attention", attention, arguments, tensors, constexprs, {"M": BM, "N": 1, "S": keys}, "tiles", "",
        Expectation("specialised"), num_warps=8,
    )  # fmt: skip


KERNELS = {"tma": by_tma, "persistent": persistent, "pointers": by_pointers}


def scaled(
    form: str,
    way: str,
    M: int,
    N: int,
    K: int,
    BM: int = 128,
    BN: int = 128,
    num_warps: int = 4,
    BK: int = 0,
) -> Specimen:
    """A case. form: of `FORMATS`. way: the kernel, of `KERNELS`; the persistent one has scales by TMA.

    BK: if it is not 128, or 256 for packed elements.
    """
    a_kind, b_kind, vec = FORMATS[form]
    packed = {"a": 1 + (a_kind == "e2m1"), "b": 1 + (b_kind == "e2m1")}
    tile = BK or (256 if a_kind == "e2m1" else 128)
    columns = tile // vec // COLUMNS
    sizes = {"M": M, "N": N, "K": K, "KS": K // vec, "PROGRAMS": 2}
    sizes |= {"MT": -(-M // ROWS), "NT": -(-N // ROWS), "KT": -(-K // (vec * COLUMNS))}
    tensors = {"c": Tensor(("M", "N"), "fp16", "nan")}
    arguments: dict[str, Argument] = {"c": Descriptor("c", ("BM", "BN"))}
    for name, side, rows in (("a", "M", BM), ("b", "N", BN)):
        depth = (side, f"K/{packed[name]}")
        scales = f"scales_{name}"
        tensors[name] = (
            Tensor(depth, "u8", "integers", span=(0, 256)) if packed[name] == 2 else Tensor(depth, "fp8e4nv")
        )
        arguments[name] = Descriptor(name, (f"B{side}", tile // packed[name]))
        shape = (side, "KS") if way == "pointers" else (1, f"{side}T", "KT", 2, 256)
        tensors[scales] = (
            Tensor(shape, "u8", "integers", span=(123, 131)) if vec == 32 else Tensor(shape, "fp8e4nv", mean=8.0)
        )
        box = (1, rows // ROWS, columns, 2, 256)
        arguments[scales] = Pointer(scales) if way == "pointers" else Descriptor(scales, box)
    arguments |= {name: Number(name) for name in ("M", "N", "K")}
    constexprs: dict[str, Any] = {"BM": BM, "BN": BN, "BK": tile, "VEC": vec, "A_KIND": a_kind, "B_KIND": b_kind}
    if way == "pointers":
        arguments["KS"] = Number("KS")
        constexprs["WHOLE"] = not (M % BM or N % BN or K % tile)
    grid = "programs" if way == "persistent" else "tiles_2d"
    return Specimen(
        f"{form} {way}", KERNELS[way], arguments, tensors, constexprs, sizes, grid, "", Expectation("specialised"),
        num_warps=num_warps,
    )  # fmt: skip


def reference(case: Specimen, floats: dict[str, Any]) -> Any:
    """C in float64. floats: the tensors as float64, those of integers as they are."""
    if not case.sizes["K"]:
        return np.zeros(case.shape("c"))
    return _values(case, floats, "a", "M") @ _values(case, floats, "b", "N").T


def _values(case: Specimen, floats: dict[str, Any], name: str, side: str) -> Any:
    """An operand times its scales."""
    values, scales = floats[name], floats[f"scales_{name}"]
    if values.dtype == np.uint8:
        codes = np.stack([values & 15, values >> 4], axis=-1).reshape(len(values), -1)
        values = np.where(codes & 8, -1, 1) * FP4[codes & 7]
    if scales.ndim == 5:
        tiles, columns = scales.shape[1:3]
        scales = scales.reshape(tiles, columns, 32, 4, 4).transpose(0, 3, 2, 1, 4).reshape(tiles * ROWS, -1)
    scales = scales[: case.sizes[side], : case.sizes["KS"]]
    factors = np.exp2(scales.astype(np.float64) - 127) if scales.dtype == np.uint8 else scales
    return values * np.repeat(factors, case.constexprs["VEC"], axis=1)


__all__ = ["FORMATS", "by_pointers", "by_tma", "persistent", "reference", "scaled"]
