"""Kernels with two products in a row in 8 bits, of which the second sums over the columns of the first.

    for n: acc += f(q @ k[n].T) @ v[n]        q (M, D), k (N, D), v (D, N): its rows are in contiguous memory

What f does decides whether the columns may stand in another order. A reference of each is in `expected`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from tests.cases.case import Descriptor, Expectation, Number, Pointer, Specimen, Tensor

FP8 = "fp8e4nv"


@triton.jit
def plain(q_desc, k_desc, v_desc, o_desc, w_ptr, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """A ReLU between the products: no sum over the columns but that of the second product."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, D), tl.float32)
    q = q_desc.load([m, 0])
    for n in range(0, N, BN):
        s = tl.dot(q, k_desc.load([n, 0]).T)
        acc = tl.dot(tl.maximum(s, 0.0).to(tl.float8e4nv), v_desc.load([0, n]).T, acc)
    o_desc.store([m, 0], acc)


@triton.jit
def halves(q_desc, k_desc, v_desc, o_desc, w_ptr, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """As `plain` in 16 bits, where the result of a dot is an operand as it stands."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, D), tl.float32)
    q = q_desc.load([m, 0])
    for n in range(0, N, BN):
        s = tl.dot(q, k_desc.load([n, 0]).T)
        acc = tl.dot(tl.maximum(s, 0.0).to(tl.float16), v_desc.load([0, n]).T, acc)
    o_desc.store([m, 0], acc)


@triton.jit
def causal(q_desc, k_desc, v_desc, o_desc, w_ptr, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """A mask and a weight of each column, both from its index."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, D), tl.float32)
    rows, q = m + tl.arange(0, BM), q_desc.load([m, 0])
    for n in range(0, N, BN):
        keys = n + tl.arange(0, BN)
        s = tl.dot(q, k_desc.load([n, 0]).T) * (keys % 5)[None, :].to(tl.float32)
        s = tl.where((keys[None, :] <= rows[:, None]) & (keys < N)[None, :], s, 0.0)
        acc = tl.dot(s.to(tl.float8e4nv), v_desc.load([0, n]).T, acc)
    o_desc.store([m, 0], acc)


@triton.jit
def scaled(q_desc, k_desc, v_desc, o_desc, w_ptr, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """A weight of each column from memory, through pointers."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, D), tl.float32)
    q = q_desc.load([m, 0])
    for n in range(0, N, BN):
        keys = n + tl.arange(0, BN)
        w = tl.load(w_ptr + keys, mask=keys < N, other=0.0)
        s = tl.dot(q, k_desc.load([n, 0]).T) * w[None, :]
        acc = tl.dot(s.to(tl.float8e4nv), v_desc.load([0, n]).T, acc)
    o_desc.store([m, 0], acc)


@triton.jit
def normalised(q_desc, k_desc, v_desc, o_desc, w_ptr, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """A sum over the columns that rounds: another order gives other bits."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, D), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    q = q_desc.load([m, 0])
    for n in range(0, N, BN):
        s = tl.abs(tl.dot(q, k_desc.load([n, 0]).T))
        total += tl.sum(s, 1)
        acc = tl.dot(s.to(tl.float8e4nv), v_desc.load([0, n]).T, acc)
    o_desc.store([m, 0], acc / total[:, None])


@triton.jit
def branched(q_desc, k_desc, v_desc, o_desc, w_ptr, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """A branch hands on the first product, in one side with a mask."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, D), tl.float32)
    rows, q = m + tl.arange(0, BM), q_desc.load([m, 0])
    for n in range(0, N, BN):
        s = tl.dot(q, k_desc.load([n, 0]).T)
        if n + BN > m:
            s = tl.where((n + tl.arange(0, BN))[None, :] <= rows[:, None], s, 0.0)
        acc = tl.dot(s.to(tl.float8e4nv), v_desc.load([0, n]).T, acc)
    o_desc.store([m, 0], acc)


@triton.jit
def scanned(q_desc, k_desc, v_desc, o_desc, w_ptr, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """A running sum along the columns: not free."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, D), tl.float32)
    q = q_desc.load([m, 0])
    for n in range(0, N, BN):
        s = tl.cumsum(tl.dot(q, k_desc.load([n, 0]).T), 1)
        acc = tl.dot(s.to(tl.float8e4nv), v_desc.load([0, n]).T, acc)
    o_desc.store([m, 0], acc)


@triton.jit
def written(q_desc, k_desc, v_desc, o_desc, w_ptr, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """The first product is stored as well: not free."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, D), tl.float32)
    rows, q = m + tl.arange(0, BM), q_desc.load([m, 0])
    for n in range(0, N, BN):
        s = tl.dot(q, k_desc.load([n, 0]).T)
        tl.store(w_ptr + rows[:, None] * N + (n + tl.arange(0, BN))[None, :], s)
        acc = tl.dot(s.to(tl.float8e4nv), v_desc.load([0, n]).T, acc)
    o_desc.store([m, 0], acc)


@triton.jit
def first_of_largest(q_desc, k_desc, v_desc, o_desc, w_ptr, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """The index of the largest column, the first of several: not free."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, D), tl.float32)
    q = q_desc.load([m, 0])
    for n in range(0, N, BN):
        s = tl.dot(q, k_desc.load([n, 0]).T)
        s -= tl.argmax(s, 1)[:, None].to(tl.float32)
        acc = tl.dot(s.to(tl.float8e4nv), v_desc.load([0, n]).T, acc)
    o_desc.store([m, 0], acc)


@triton.jit
def read_twice(q_desc, k_desc, v_desc, o_desc, w_ptr, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """The second product sums over the rows of k itself, as a gradient does: not free."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, D), tl.float32)
    q = q_desc.load([m, 0])
    for n in range(0, N, BN):
        k = k_desc.load([n, 0])
        acc = tl.dot(tl.maximum(tl.dot(q, k.T), 0.0).to(tl.float8e4nv), k, acc)
    o_desc.store([m, 0], acc)


@triton.jit
def odd_start(q_desc, k_desc, v_desc, o_desc, w_ptr, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Tiles of k begin at rows that need not be even."""
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, D), tl.float32)
    q = q_desc.load([m, 0])
    for n in range(0, N, BN):
        s = tl.dot(q, k_desc.load([n + tl.program_id(1), 0]).T)
        acc = tl.dot(tl.maximum(s, 0.0).to(tl.float8e4nv), v_desc.load([0, n]).T, acc)
    o_desc.store([m, 0], acc)


@triton.jit
def by_pointers(q_ptr, k_ptr, v_ptr, o_desc, w_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """As `plain`, with all tiles loaded through pointers that are boxes."""
    rows, ds, keys = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    acc = tl.zeros((BM, D), tl.float32)
    q = tl.load(q_ptr + rows[:, None] * D + ds[None, :], mask=(rows < M)[:, None], other=0.0)
    for n in range(0, N, BN):
        k = tl.load(k_ptr + (n + keys)[:, None] * D + ds[None, :], mask=(n + keys < N)[:, None], other=0.0)
        v = tl.load(v_ptr + ds[:, None] * N + (n + keys)[None, :], mask=(n + keys < N)[None, :], other=0.0)
        acc = tl.dot(tl.maximum(tl.dot(q, k.T), 0.0).to(tl.float8e4nv), v.T, acc)
    o_desc.store([tl.program_id(0) * BM, 0], acc)


def case(
    kernel: Any, M: int = 128, N: int = 128, BM: int = 64, BN: int = 64, D: int = 64, num_warps: int = 4,
    dtype: str = FP8,
) -> Specimen:  # fmt: skip
    """One of these kernels. N: a multiple of 16, the bytes of a row of v."""
    boxes = {"q": ("BM", "D"), "k": ("BN", "D"), "v": ("D", "BN")}
    pointers = "q_ptr" in kernel.arg_names
    loads: dict[str, Any] = (
        {f"{name}_ptr": Pointer(name) for name in boxes}
        if pointers
        else {f"{name}_desc": Descriptor(name, box) for name, box in boxes.items()}
    )
    return Specimen(
        name=f"ordered_{kernel.__name__}",
        kernel=kernel,
        arguments={**loads, "o_desc": Descriptor("o", ("BM", "D")), "w_ptr": Pointer("w"),
                   **({"M": Number("M")} if pointers else {}), "N": Number("N")},
        tensors={
            "q": Tensor(("M", "D"), dtype),
            "k": Tensor(("N", "D"), dtype),
            "v": Tensor(("D", "N"), dtype),
            "o": Tensor(("M", "D"), "fp32", "nan"),
            "w": Tensor(("M", "N"), "fp32", "nan") if kernel is written else Tensor(("N",), "fp32"),
        },
        constexprs={"BM": BM, "BN": BN, "D": D},
        sizes={"M": M, "N": N},
        grid="rows",
        num_warps=num_warps,
        reference="",
        expect=Expectation("specialised"),
    )  # fmt: skip


def expected(case: Specimen, floats: dict[str, Any], rounded: Any = lambda values, dtype: values) -> dict[str, Any]:
    """The output in float64. rounded: rounds where the kernel rounds, for the error that is allowed."""
    q, k, v, w = (floats[name] for name in "qkvw")
    s, name = q @ k.T, case.kernel.__name__
    rows, keys = np.arange(len(q))[:, None], np.arange(len(k))[None, :]
    if name in ("plain", "by_pointers"):
        s = np.maximum(s, 0.0)
    elif name == "causal":
        s = np.where(keys <= rows, s * (keys % 5), 0.0)
    elif name == "scaled":
        s = s * w
    elif name == "normalised":
        s = np.abs(s)
    elif name == "branched":
        s = np.where(keys <= rows, s, 0.0)
    else:
        raise ValueError(name)
    o = rounded(s, FP8) @ v.T
    return {"o": o / s.sum(1, keepdims=True) if name == "normalised" else o}
