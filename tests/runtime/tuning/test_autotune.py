"""Under ``triton.autotune`` each configuration is measured with its Plans, once."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import pytest
import triton
import triton.language as tl

import tawa
from tawa.plan.search.search import Search
from tawa.runtime.tuning import choices
from tawa.runtime.tuning.store import user_store
from tests.bridge.launch.test_added_arguments import OnPaper, matmul


def test_each_configuration_is_measured_once_and_remembered(driver: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime import driver as slot

    paper: Any = OnPaper()
    paper.get_current_stream, paper.get_device_interface = lambda device: 0, lambda: SimpleNamespace()
    paper.utils.unload_module = lambda module: None
    slot.set_active(paper)
    timed: list[Any] = []
    monkeypatch.setattr(choices, "gpu_name", lambda: "a card")
    monkeypatch.setattr(choices, "gpu_ms", lambda launch, count: timed.append(launch) or 1.0 * count)
    every = Search.measured
    monkeypatch.setattr(Search, "measured", lambda search, chosen: every(search, chosen)[:2])
    configs = [triton.Config({"B": 64}, num_warps=4), triton.Config({"B": 64}, num_warps=8)]

    def launch() -> None:
        kernel = triton.autotune(
            configs, ["M", "N", "K"], do_bench=lambda call, quantiles: (call(), call(), [1.0] * 3)[2]
        )(tawa.jit(mode="measure")(triton.jit(matmul.fn)))
        tensors = [SimpleNamespace(data_ptr=lambda at=at: at, dtype=tl.float16) for at in (1 << 40, 1 << 41, 1 << 42)]
        for _ in range(2):
            kernel[(16, 8)](*tensors, *[512] * 6)
        for made in kernel.fn.device_caches[0][0].values():
            made.module = None  # there is nothing to unload
        gc.collect()  # other forms of the kernel, while their driver is there

    launch()
    found = user_store().all()
    assert len({it.key for it in found}) == len(found) == 2
    assert [len(it.times) for it in found] == [2, 2] and timed
    timed.clear()
    launch()
    assert not timed and user_store().all() == found
