"""A table decides for kernels in automatic mode, also for those that the prediction leaves to stock Triton."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import pytest
import triton
import triton.language as tl

import tawa
from tawa.plan import Plan
from tawa.runtime.tuning import choices
from tawa.runtime.tuning.store import user_store
from tests.bridge.kernels import gemm_pointers
from tests.bridge.launch.test_added_arguments import OnPaper
from tests.runtime.tuning.entries import entry

ALIGNED = [SimpleNamespace(data_ptr=lambda at=at: at, dtype=tl.float16) for at in (1 << 40, 1 << 41, 1 << 42)]


def test_the_plan_of_the_table_is_launched_where_the_prediction_says_stock_triton(
    driver: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.runtime import driver as slot

    paper: Any = OnPaper()
    paper.get_current_stream, paper.utils.unload_module = lambda device: 0, lambda module: None
    slot.set_active(paper)
    monkeypatch.setattr(choices, "gpu_name", lambda: "a card")

    def launch(*sizes: int) -> Any:
        kernel = tawa.jit(triton.jit(gemm_pointers.fn))
        for k in sizes:
            kernel[(300, 1)](*ALIGNED, k, BM=32, BN=32, BK=32, num_warps=4)
        kernel.last_kernel.module = None
        return kernel.last_kernel

    record = launch(128).metadata.tawa
    assert not record["applied"] and paper.grids == [(300, 1, 1)]
    about = {"key": record["tuning"]["key"], "sizes": ((3, "K"),)}
    user_store().put(
        [
            entry(shape_class="K <= 128, 3 waves", plan=Plan(form="persistent"), **about),
            entry(shape_class="K <= 256, 3 waves", plan=Plan(form="stock"), words="stock Triton", **about),
        ]
    )
    compiled = launch(128, 256, 512)
    assert paper.grids[1:] == [(132, 1, 1), (300, 1, 1), (300, 1, 1)]
    assert "measured: launches with K <= 256, 3 waves get: stock Triton" in tawa.explain(compiled).remarks
    del compiled
    gc.collect()  # the persistent form, while its driver is there
