"""Explanations and pages that several tests look at, made once for each process."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl

import tawa
from tawa.runtime.explain.explanation import Explanation
from tests.rings.ladder import BK, BM, BN, FOLDER

TYPES = "a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,128]>, c=tensordesc<fp16[128,128]>, K=i32:16"
BLOCKS = {"BM": 128, "BN": 128, "BK": 64}
RING_TYPES = (
    f"a=tensordesc<fp16[{BM},{BK}]>, b=tensordesc<fp16[{BK},{BN}]>, c=tensordesc<fp16[{BM},{BN}]>, M=i32, N=i32, K=i32"
)


@triton.jit
def gemm(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN  # </script><b>"bold" & co</b>
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(tl.float16))


@triton.jit
def waiting(a, b, c, first, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        at = tl.atomic_add(first, BK)
        acc = tl.dot(a.load([m, at]), b.load([at, n]), acc)
    c.store([m, n], acc.to(tl.float16))


@cache
def explained(name: str) -> Explanation:
    """A kernel that is specialised, one for Blackwell, one that is declined."""
    match name:
        case "gemm":
            return tawa.explain(gemm, TYPES, BLOCKS, num_warps=8, timeline=True)
        case "blackwell":
            return tawa.explain(gemm, TYPES, BLOCKS, num_warps=8, timeline=True, arch="sm_100")
        case _:
            return tawa.explain(waiting, f"{TYPES}, first=*i32", BLOCKS, num_warps=8, timeline=True)


@pytest.fixture
def explanation() -> Explanation:
    return explained("gemm")


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hand-written protocol that releases slots too early."""
    pytest.importorskip("triton.experimental.gluon")
    path = tmp_path_factory.mktemp("broken") / "broken.py"
    text = (FOLDER / "gemm_4_producer.py").read_text()
    path.write_text(text.replace("ring.consumed(1, pred=k > 0)", "ring.consumed()"))
    return path


@pytest.fixture(scope="session")
def refuted(broken: Path) -> Explanation:
    from tawa.cli.inputs.kernel_file import load_kernel

    kernel: Any = load_kernel(f"{broken}:gemm")
    return tawa.explain(kernel, RING_TYPES, {"BM": BM, "BN": BN, "BK": BK, "D": 3}, num_warps=8, timeline=True)
