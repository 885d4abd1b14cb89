"""Plain Triton kernels, as stock Triton compiles them for sm_100, with and without its own warp specialisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import triton
import triton.language as tl
from triton.compiler import ASTSource

from tawa.bridge.triton.read_module import read_final
from tawa.ir import Module
from tests.support.back_end import without_ptx
from tests.verify.tensor_memory.rings import SM_100


@triton.jit
def pointer_gemm(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISE: tl.constexpr
):  # fmt: skip
    """A and B by pointers."""
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    steps = tl.arange(0, BK)
    a_at = a + rows[:, None] * K + steps[None, :]
    b_at = b + steps[:, None] * N + columns[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in tl.range(0, tl.cdiv(K, BK), warp_specialize=SPECIALISE):
        acc = tl.dot(tl.load(a_at), tl.load(b_at), acc)
        a_at += BK
        b_at += BK * N
    tl.store(c + rows[:, None] * N + columns[None, :], acc.to(tl.float16))


@triton.jit
def descriptor_gemm(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISE: tl.constexpr
):  # fmt: skip
    """One tile for each program."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for step in tl.range(0, tl.cdiv(K, BK), warp_specialize=SPECIALISE):
        acc = tl.dot(a.load([row, step * BK]), b.load([column, step * BK]).T, acc)
    c.store([row, column], acc.to(tl.float16))


@triton.jit
def persistent_gemm(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISE: tl.constexpr,
    FLATTEN: tl.constexpr,
):  # fmt: skip
    """Tiles in a loop, which is flattened with that over K on request."""
    columns = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * columns
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=FLATTEN, warp_specialize=SPECIALISE):
        row, column = tile // columns * BM, tile % columns * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for step in range(tl.cdiv(K, BK)):
            acc = tl.dot(a.load([row, step * BK]), b.load([column, step * BK]).T, acc)
        c.store([row, column], acc.to(tl.float16))


@triton.jit
def attention(
    q, k, v, out, scale, S, BM: tl.constexpr, BN: tl.constexpr, HEAD: tl.constexpr, CAUSAL: tl.constexpr,
    SPECIALISE: tl.constexpr,
):  # fmt: skip
    """One tile of rows; causal: the keys up to the end of the tile, with a mask."""
    first = tl.program_id(0) * BM
    rows = first + tl.arange(0, BM)
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, HEAD], tl.float32)
    tile = q.load([first, 0])
    for n in tl.range(0, first + BM if CAUSAL else S, BN, warp_specialize=SPECIALISE):
        x = tl.dot(tile, k.load([n, 0]).T) * scale
        if CAUSAL:
            x = tl.where(rows[:, None] >= n + tl.arange(0, BN)[None, :], x, -1.0e6)
        larger = tl.maximum(top, tl.max(x, 1))
        p = tl.exp2(x - larger[:, None])
        factor = tl.exp2(top - larger)
        total = total * factor + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v.load([n, 0]), acc * factor[:, None])
        top = larger
    out.store([first, 0], (acc / total[:, None]).to(tl.float16))


@dataclass(frozen=True, slots=True)
class Stock:
    """A kernel and what it is compiled with. boxes: of its fp16 descriptors."""

    kernel: Any
    boxes: Mapping[str, list[int]]
    types: Mapping[str, str]
    constants: Mapping[str, Any]


_SIZES = dict.fromkeys("MNK", "i32")
_BLOCKS = {"BM": 128, "BN": 128, "BK": 64}
_TILES = {"a": [128, 64], "b": [128, 64], "c": [128, 128]}
_POINTERS = dict.fromkeys("abc", "*fp16")
_HEADS = {"q": [128, 64], "k": [128, 64], "v": [128, 64], "out": [128, 64]}
_SCALARS = {"scale": "fp32", "S": "i32"}
_ROWS = {"BM": 128, "BN": 128, "HEAD": 64}

KERNELS: dict[str, Stock] = {
    "pointer GEMM": Stock(pointer_gemm, {}, _POINTERS | _SIZES, _BLOCKS),
    "GEMM": Stock(descriptor_gemm, _TILES, _SIZES, _BLOCKS),
    "persistent GEMM": Stock(persistent_gemm, _TILES, _SIZES, {**_BLOCKS, "FLATTEN": False}),
    "flattened GEMM": Stock(persistent_gemm, _TILES, _SIZES, {**_BLOCKS, "FLATTEN": True}),
    "attention": Stock(attention, _HEADS, _SCALARS, {**_ROWS, "CAUSAL": False}),
    "causal attention": Stock(attention, _HEADS, _SCALARS, {**_ROWS, "CAUSAL": True}),
}


@cache
def stock_module(name: str, specialise: bool) -> Module:
    """The final TTGIR of one of `KERNELS`, which stock Triton specialises on request."""
    stock = KERNELS[name]
    constants = {**stock.constants, "SPECIALISE": specialise}
    types = {name: f"tensordesc<fp16[{','.join(map(str, box))}]>" for name, box in stock.boxes.items()}
    types |= dict(stock.types) | dict.fromkeys(constants, "constexpr")
    names = stock.kernel.arg_names
    attributes = {(at,): [["tt.divisibility", 16]] for at, it in enumerate(names) if types[it][0] in "*i"}
    source = ASTSource(stock.kernel, {name: types[name] for name in names}, constants, attributes)
    with without_ptx():
        return read_final(triton.compile(source, target=SM_100, options={"num_warps": 4, "num_stages": 3}))
