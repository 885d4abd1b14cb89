"""`tawa.simulate`: a compiled kernel, or a text, runs in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton

import tawa
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.triton.signature import parse_signature
from tawa.plan import PlanOptions
from tawa.runtime.simulation import Descriptor
from tests.bridge import kernels

TILE = "tensordesc<fp16[64,64]>"
TEXT = f"a_desc={TILE}, b_desc={TILE}, c_desc={TILE}, K=i32:16"
BLOCKS = {"BM": 64, "BN": 64, "BK": 64}


def compiled(request: Request | None) -> Any:
    kernel = triton.jit(kernels.gemm_descriptors.fn)
    signature = parse_signature(TEXT, BLOCKS, kernel.arg_names)
    return compile_kernel(kernel, signature, request, num_warps=4, num_stages=3)


def product(program: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """The product that the kernel computes, and NumPy's."""
    lot = np.random.default_rng(0)
    a, b = (lot.standard_normal(shape).astype(np.float16) for shape in ((64, 128), (128, 64)))
    c = np.full((64, 64), np.nan, np.float16)
    tawa.simulate(program, {"a_desc": Descriptor(a), "b_desc": Descriptor(b), "c_desc": Descriptor(c), "K": 128},
                  **options)  # fmt: skip
    return c.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32)


@pytest.mark.parametrize("specialised", [True, False])
@pytest.mark.parametrize("order", ["eager", "late"])
def test_a_compiled_kernel_runs_specialised_or_not(specialised: bool, order: str) -> None:
    kernel = compiled(Request(PlanOptions(enable_warp_specialization=True)) if specialised else None)
    found, wanted = product(kernel, order=order)
    np.testing.assert_allclose(found, wanted, rtol=2**-10, atol=2**-6)  # one rounding to fp16


def test_the_text_of_a_level_runs() -> None:
    kernel = compiled(Request(PlanOptions(enable_warp_specialization=True)))
    from_text, _ = product(kernel.asm["barrier"])
    assert np.array_equal(from_text, product(kernel)[0])


def test_an_argument_that_is_missing_is_named() -> None:
    kernel = compiled(None)
    with pytest.raises(tawa.runtime.simulation.SimulationError, match="a_desc"):
        tawa.simulate(kernel, {})
