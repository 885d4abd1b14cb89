"""The steps of a GEMM in the examples, compiled and simulated."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from tawa.cli.inputs.kernel_file import load_kernel
from tawa.ir import Module
from tawa.sim import Descriptor, SimulationResult, simulate
from tests.matrix.gluon import gluon_module

FOLDER = Path(__file__).parents[2] / "examples" / "rings"
STEPS = sorted(path.stem for path in FOLDER.glob("gemm_*.py"))
BM, BN, BK = 128, 128, 64


@functools.cache
def module_of(step: str, D: int = 3) -> Module:
    kernel = load_kernel(f"{FOLDER / step}.py:gemm")
    groups, pointers = step[5] in "56", step[5] == "1"
    boxes = {} if pointers else {"a": [BM, BK], "b": [BK, BN], "c": [BM // 2 if groups else BM, BN]}
    scalars = dict.fromkeys("abc", "*fp16") if pointers else {}
    constants = {"BM": BM, "BN": BN, "BK": BK, "D": D, "num_warps": 4 if groups else 8}
    return gluon_module(kernel, boxes, constants, dict.fromkeys(boxes, "fp16"), scalars)


def run(step: str, sizes: tuple[int, int, int], order: Any, D: int = 3, timing: bool = False) -> SimulationResult:
    """Simulates a product of these sizes and checks it."""
    M, N, K = sizes
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((M, K), (K, N)))
    c = np.full((M, N), np.nan, np.float16)
    tensors = {"a": a, "b": b, "c": c}
    given: dict[str, Any] = {k: x if step[5] == "1" else Descriptor(x) for k, x in tensors.items()}
    grid = (2, 1, 1) if step[5] == "6" else (M // BM, N // BN, 1)
    result = simulate(module_of(step, D), given | {"M": M, "N": N, "K": K}, grid, order, 0, timing=timing)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=4e-3, atol=4e-2)
    return result
