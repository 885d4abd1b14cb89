"""Small kernels that load through pointers, each with the launches on which it is simulated."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import triton
import triton.language as tl

from tawa.bridge.triton.signature import Signature
from tawa.flow import Outcome
from tawa.ir import Module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.sim import from_floats, simulate
from tests.support.fronts import front
from tests.support.pipeline import specialise

BM, BN, BK = 64, 64, 32
"""Blocks of every kernel."""


@triton.jit
def gemm_wrapped(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, B_T: tl.constexpr):
    """Tutorial 03: rows and columns wrap around, the last block of K is masked. B_T: B is stored as N x K."""
    rows = (tl.program_id(0) * BM + tl.arange(0, BM)) % M
    columns = (tl.program_id(1) * BN + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    a_at = a_ptr + (rows[:, None] * K + ks[None, :])
    if B_T:
        b_at = b_ptr + (ks[:, None] + columns[None, :] * K)
    else:
        b_at = b_ptr + (ks[:, None] * N + columns[None, :])
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_at, mask=ks[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_at, mask=ks[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_at += BK
        b_at += BK if B_T else BK * N
    out = tl.program_id(0) * BM + tl.arange(0, BM)
    across = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (out[:, None] < M) & (across[None, :] < N)
    tl.store(c_ptr + out[:, None] * N + across[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def batched(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One problem per program, found by a scalar offset; no masks."""
    z = tl.program_id(0)
    ks = tl.arange(0, BK)
    a_at = a_ptr + z * BM * K + tl.arange(0, BM)[:, None] * K + ks[None, :]
    b_at = b_ptr + z * BN * K + ks[:, None] * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a_at), tl.load(b_at), acc)
        a_at += BK
        b_at += BK * BN
    c_at = c_ptr + z * BM * BN + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    tl.store(c_at, acc.to(c_ptr.dtype.element_ty))


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Softmax(Q Kᵀ) V over keys that are loaded through pointers, the last block masked."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    keys = tl.arange(0, BN)
    ds = tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + ds[None, :])
    k_at = k_ptr + keys[None, :] * D + ds[:, None]
    v_at = v_ptr + keys[:, None] * D + ds[None, :]
    most = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for n in range(0, K, BN):
        inside = n + keys < K
        k = tl.load(k_at, mask=inside[None, :], other=0.0)
        s = tl.where(inside[None, :], tl.dot(q, k), float("-inf"))
        higher = tl.maximum(most, tl.max(s, axis=1))
        p = tl.exp2(s - higher[:, None])
        scale = tl.exp2(most - higher)
        total = total * scale + tl.sum(p, axis=1)
        v = tl.load(v_at, mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * scale[:, None])
        most = higher
        k_at += BN * D
        v_at += BN * D
    acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(c_ptr + rows[:, None] * D + ds[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def gathered(a_ptr, index_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The rows of A are gathered by an index array that is loaded before the loop."""
    rows = tl.load(index_ptr + tl.program_id(0) * BM + tl.arange(0, BM))
    columns = tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        ks = k + tl.arange(0, BK)
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :])
        b = tl.load(b_ptr + ks[:, None] * BN + columns[None, :])
        acc = tl.dot(a, b, acc)
    out = tl.program_id(0) * BM + tl.arange(0, BM)
    tl.store(c_ptr + out[:, None] * BN + columns[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def gathered_inside(a_ptr, index_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The rows of B are gathered by an index array that is loaded in every iteration."""
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        ks = k + tl.arange(0, BK)
        chosen = tl.load(index_ptr + ks)
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :])
        b = tl.load(b_ptr + chosen[:, None] * BN + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * BN + columns[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def paged(a_ptr, table_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """B is in pages of BK rows; a table has the next page."""
    rows, columns, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for at in range(tl.cdiv(K, BK)):
        page = tl.load(table_ptr + at)
        a = tl.load(a_ptr + rows[:, None] * K + (at * BK + ks)[None, :])
        b = tl.load(b_ptr + (page * BK + ks)[:, None] * BN + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * BN + columns[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def persistent(a_ptr, b_ptr, c_ptr, TILES, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FLAT: tl.constexpr):
    """One program computes every tile of rows; FLAT: in one loop over all blocks of all tiles."""
    rows, columns, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    if FLAT:
        blocks = tl.cdiv(K, BK)
        tile = tl.program_id(0)
        block = 0
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for _ in range(blocks * tl.cdiv(TILES - tl.program_id(0), tl.num_programs(0))):
            at = block * BK + ks
            a = tl.load(a_ptr + (tile * BM + rows)[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)
            b = tl.load(b_ptr + at[:, None] * BN + columns[None, :], mask=at[:, None] < K, other=0.0)
            acc = tl.dot(a, b, acc)
            block += 1
            if block == blocks:
                c_at = c_ptr + (tile * BM + rows)[:, None] * BN + columns[None, :]
                tl.store(c_at, acc.to(c_ptr.dtype.element_ty))
                acc = tl.zeros((BM, BN), dtype=tl.float32)
                block = 0
                tile += tl.num_programs(0)
    else:
        for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
            a_at = a_ptr + (tile * BM + rows)[:, None] * K + ks[None, :]
            b_at = b_ptr + ks[:, None] * BN + columns[None, :]
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for k in range(0, K, BK):
                a = tl.load(a_at, mask=ks[None, :] < K - k, other=0.0)
                b = tl.load(b_at, mask=ks[:, None] < K - k, other=0.0)
                acc = tl.dot(a, b, acc)
                a_at += BK
                b_at += BK * BN
            tl.store(c_ptr + (tile * BM + rows)[:, None] * BN + columns[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def filled_with_one(a_ptr, b_ptr, c_ptr, M, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Rows of A past M count as ones, which a cp.async cannot fill in."""
    rows, columns, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :], mask=rows[:, None] < M, other=1.0)
        b = tl.load(b_ptr + (k + ks)[:, None] * BN + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * BN + columns[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def weight_only(a_ptr, b_ptr, scale_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """B is int8, scaled by a row for each block of K: the consumer computes the operand."""
    rows, columns, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :])
        b = tl.load(b_ptr + (k + ks)[:, None] * BN + columns[None, :]).to(tl.float16)
        scale = tl.load(scale_ptr + k // BK * BN + columns)
        acc = tl.dot(a, b * scale[None, :], acc)
    tl.store(c_ptr + rows[:, None] * BN + columns[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def odd_stride(a_ptr, b_ptr, c_ptr, K, stride, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The stride of B is unknown: its elements may not be contiguous."""
    rows, columns, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :])
        b = tl.load(b_ptr + (k + ks)[:, None] * BN + columns[None, :] * stride)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * BN + columns[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def half_by_descriptor(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A comes by pointers, B by a descriptor."""
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[K, BN], strides=[BN, 1], block_shape=[BK, BN])
    rows, columns, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :])
        acc = tl.dot(a, b_desc.load([k, 0]), acc)
    tl.store(c_ptr + rows[:, None] * BN + columns[None, :], acc.to(c_ptr.dtype.element_ty))


# -- launches ----------------------------------------------------------------------------------------------------------

Values = dict[str, Any]


def normal(seed: int, *shape: int, dtype: str = "fp16") -> Any:
    return from_floats(np.random.default_rng(seed).standard_normal(shape), dtype)


def nothing(*shape: int, dtype: str = "fp16") -> Any:
    return from_floats(np.full(shape, np.nan), dtype)


@dataclass(frozen=True)
class PointerCase:
    """A kernel with a launch of a number of trips; `fills` are the kinds of its rings, in order.

    make: arguments for a number of trips, the output ``c`` among them. loose: arguments that are not divisible by 16.
    """

    name: str
    kernel: Any
    make: Callable[[int], Values]
    fills: tuple[str, ...] = ("cp.async",)
    constexprs: Mapping[str, Any] = field(default_factory=lambda: {"BM": BM, "BN": BN, "BK": BK})
    grid: tuple[int, ...] = (1,)
    num_warps: int = 4
    groups: int = 1
    dtypes: Mapping[str, str] = field(default_factory=dict[str, str])
    loose: tuple[str, ...] = ()

    def signature(self) -> Signature:
        names, values = self.kernel.arg_names, self.make(1)
        types = dict.fromkeys(names, "constexpr")
        for name, value in values.items():
            types[name] = "i32" if isinstance(value, int) else f"*{self.dtypes.get(name, 'fp16')}"
        constants = {(names.index(name),): value for name, value in self.constexprs.items()}
        places = [at for at, name in enumerate(names) if name in values and name not in self.loose]
        return Signature(types, constants, {(at,): [["tt.divisibility", 16]] for at in places})

    def output(self, module: Module, trips: int, order: Any = "eager", seed: int = 0) -> Any:
        """The bits of ``c`` after one launch."""
        values = self.make(trips)
        simulate(module, values, self.grid, order, seed)
        c = next(values[name] for name in ("c_ptr",))
        return c.view(f"u{c.itemsize}")


@functools.cache
def ttgir(name: str) -> str:
    case = find(name)
    made = front(case.kernel, case.signature(), num_warps=case.num_warps)
    return made.whole_text() if case.groups == 1 else made.split_text(case.groups)


@functools.cache
def unspecialised(name: str) -> str:
    """The unspecialised program, which computes what all groups together must compute."""
    case = find(name)
    return front(case.kernel, case.signature(), num_warps=case.num_warps).whole_text()


@functools.cache
def made(name: str, depth: int = 2, mma_depth: int = 1) -> Outcome:
    options = PlanOptions(enable_warp_specialization=True, aref_depth=depth, mma_depth=mma_depth)
    case = find(name)
    return specialise(ttgir(name), options, Target(case.num_warps // case.groups, 3, groups=case.groups))


def find(name: str) -> PointerCase:
    return next(case for case in CASES if case.name == name)


def _gemm(rows: int = 50, columns: int = 64, transposed: bool = False, dtype: str = "fp16") -> Callable[[int], Values]:
    def make(trips: int) -> Values:
        k = trips * BK - 16 * (trips > 0)  # the last block is not whole
        size = max(k, 16)
        b = normal(2, *((columns, size) if transposed else (size, columns)), dtype=dtype)
        a, c = normal(1, max(rows, 128), size, dtype=dtype), nothing(rows, columns)
        return {"a_ptr": a, "b_ptr": b, "c_ptr": c, "M": rows, "N": columns, "K": k}

    return make


def _plain(batch: int = 1, **more: Callable[[int], Any]) -> Callable[[int], Values]:
    def make(trips: int) -> Values:
        k = trips * BK
        values = {
            "a_ptr": normal(1, batch, BM, max(k, 16)),
            "b_ptr": normal(2, batch, max(k, 16), BN),
            "c_ptr": nothing(batch, BM, BN),
            "K": k,
        }
        return values | {name: given(trips) for name, given in more.items()}

    return make


def _order(count: int) -> Any:
    return np.random.default_rng(3).permutation(max(count, 1)).astype(np.int32)


def _attention(trips: int) -> Values:
    keys = max(trips * BN - 24, 0)
    q, k, v = normal(1, 128, 64), normal(2, max(keys, 1), 64), normal(3, max(keys, 1), 64)
    return {"q_ptr": q, "k_ptr": k, "v_ptr": v, "c_ptr": nothing(128, 64), "K": keys}


def _tiles(trips: int) -> Values:
    k = trips * BK - 16 * (trips > 0)
    a, b, c = normal(1, 3 * 128, max(k, 16)), normal(2, max(k, 16), BN), nothing(3 * 128, BN)
    return {"a_ptr": a, "b_ptr": b, "c_ptr": c, "TILES": 3, "K": k}


def _int8(trips: int) -> Any:
    return np.random.default_rng(5).integers(-128, 128, (max(trips * BK, 16), BN)).astype(np.int8)


_BLOCKS = {"BM": BM, "BN": BN, "BK": BK}
_WRAPPED = {**_BLOCKS, "B_T": False}
CASES = (
    PointerCase("wrapped", gemm_wrapped, _gemm(), constexprs=_WRAPPED, loose=("M",)),
    PointerCase("wrapped_8_warps", gemm_wrapped, _gemm(), constexprs=_WRAPPED | {"BM": 128}, num_warps=8, loose=("M",)),
    PointerCase("transposed", gemm_wrapped, _gemm(transposed=True), constexprs=_WRAPPED | {"B_T": True}, loose=("M",)),
    PointerCase(
        "fp8",
        gemm_wrapped,
        _gemm(transposed=True, dtype="fp8e4nv"),
        constexprs=_WRAPPED | {"B_T": True},
        dtypes={"a_ptr": "fp8e4nv", "b_ptr": "fp8e4nv"},
        loose=("M",),
    ),
    PointerCase("batched", batched, _plain(2), grid=(2,)),
    PointerCase(
        "attention", attention, _attention, ("cp.async", "cp.async"), {"BM": BM, "BN": BN, "D": 64}, loose=("K",)
    ),
    PointerCase("gathered", gathered, _plain(index_ptr=lambda _: _order(BM)), dtypes={"index_ptr": "i32"}),
    PointerCase(
        "gathered_inside", gathered_inside, _plain(index_ptr=lambda n: _order(n * BK)), dtypes={"index_ptr": "i32"}
    ),
    PointerCase("paged", paged, _plain(table_ptr=_order), dtypes={"table_ptr": "i32"}),
    PointerCase("nested", persistent, _tiles, constexprs=_BLOCKS | {"FLAT": False}, grid=(2,), loose=("TILES",)),
    PointerCase("flat", persistent, _tiles, constexprs=_BLOCKS | {"FLAT": True}, grid=(2,), loose=("TILES",)),
    PointerCase("filled_with_one", filled_with_one, _plain(M=lambda _: 40), ("registers", "cp.async"), loose=("M",)),
    PointerCase(
        "weight_only",
        weight_only,
        _plain(b_ptr=_int8, scale_ptr=lambda n: normal(4, max(n, 1), BN)),
        ("cp.async", "cp.async"),
        dtypes={"b_ptr": "i8"},
    ),
    PointerCase("odd_stride", odd_stride, _plain(stride=lambda _: 1), ("cp.async", "registers"), loose=("stride",)),
    PointerCase(
        "wrapped_groups",
        gemm_wrapped,
        _gemm(128),
        fills=("cp.async", "cp.async"),
        constexprs=_WRAPPED | {"BM": 128},
        num_warps=8,
        groups=2,
        loose=("M",),
    ),
    PointerCase(
        "nested_groups",
        persistent,
        _tiles,
        fills=("cp.async", "cp.async"),
        constexprs=_BLOCKS | {"BM": 128, "FLAT": False},
        grid=(2,),
        num_warps=8,
        groups=2,
        loose=("TILES",),
    ),
    PointerCase(
        "attention_groups",
        attention,
        _attention,
        ("cp.async", "cp.async"),
        {"BM": 128, "BN": BN, "D": 64},
        num_warps=8,
        groups=2,
        loose=("K",),
    ),
    PointerCase("half_by_descriptor", half_by_descriptor, _plain(), ("cp.async", "tma")),
)
