"""The names of the kernels of `tests.mapping.kernels`."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tawa.bridge.triton.signature import as_signature
from tawa.bridge.triton.structured import read_kernel
from tawa.mapping.program import Program, program_of
from tests.mapping import kernels
from tests.support.fronts import front


@functools.cache
def program_named(name: str) -> Program:
    blocks: dict[str, Any] = kernels.BLOCKS if name == "attend" else {}
    types = {"attend": kernels.ATTEND, "until": kernels.GEMM.replace("c=tensordesc<fp16[64,64]>", "c=*fp32")}
    kernel = getattr(kernels, name)
    made = front(
        kernel, as_signature(types.get(name, kernels.GEMM), blocks, kernel.arg_names), num_warps=4, num_stages=3
    )
    return program_of(read_kernel(made.ttir, made.context))


@pytest.fixture
def attend() -> Program:
    return program_named("attend")


@pytest.fixture
def helped() -> Program:
    return program_named("helped")


@pytest.fixture
def until() -> Program:
    return program_named("until")
