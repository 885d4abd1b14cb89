"""Kernels of `tests.sim.operations` as TTGIR, for tests that also contain cases without Triton; and their inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.ir import Module

WIDTH = 64


def language_kernel(name: str, types: dict[str, str], **options: Any) -> Module:
    """The TTGIR of a kernel of `operations`; skips the test without Triton."""
    pytest.importorskip("triton")
    from tests.sim import operations

    return operations.module_of(getattr(operations, name), types, **options)


def floats(rows: int, seed: int = 0) -> Any:
    """`rows` rows of normal random numbers."""
    return np.random.default_rng(seed).standard_normal(rows * WIDTH).astype(np.float32)


def integers(rows: int, seed: int = 0) -> Any:
    """`rows` rows of random integers."""
    return np.random.default_rng(seed).integers(-1000, 1000, rows * WIDTH).astype(np.int32)
