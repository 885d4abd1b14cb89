"""cp.async copies that no fence makes visible to wgmma: a trap, unless they are assumed to be visible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.bridge.driver.annotations import STOCK_WITHOUT
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.triton.read_module import read_final
from tawa.bridge.triton.signature import as_signature
from tawa.sim import simulate
from tawa.sim.errors import MissingFence
from tests.cases.pointers.gemm import gemm_masked

pytestmark = pytest.mark.usefixtures("without_ptx")

TYPES = (
    "a_ptr=*fp16:16, b_ptr=*fp16:16, c_ptr=*fp16:16, M=i32:16, N=i32:16, K=i32:16, stride_am=i32:16, stride_ak=1, "
    "stride_bk=i32:16, stride_bn=1, stride_cm=i32:16, stride_cn=1"
)
BLOCKS = {"BM": 64, "BN": 64, "BK": 64, "GROUP_M": 8}


def test_stock_triton_reads_them_without_a_fence() -> None:
    signature = as_signature(TYPES, BLOCKS, gemm_masked.arg_names)
    module = read_final(compile_kernel(gemm_masked, signature, STOCK_WITHOUT, num_warps=4, num_stages=3))
    lot = np.random.default_rng(0)
    a, b = (lot.standard_normal((64, 128)).astype(np.float16) for _ in "ab")
    b = np.ascontiguousarray(b.reshape(128, 64))
    sizes = {"M": 64, "N": 64, "K": 128, "stride_am": 128, "stride_bk": 64, "stride_cm": 64}

    def run(**options: Any) -> np.ndarray:
        c = np.full((64, 64), np.nan, np.float16)
        simulate(module, {"a_ptr": a, "b_ptr": b, "c_ptr": c, **sizes}, (1,), **options)
        return c

    with pytest.raises(MissingFence):
        run()
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(run(copies_visible=True).astype(np.float64), exact, atol=0.05, rtol=0.01)
