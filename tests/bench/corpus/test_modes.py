"""Tuning in one mode decides nothing for another, in memory or on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from bench.corpus import modes
from bench.corpus.modes import Tuning

SCRIPT = """
from types import SimpleNamespace
import triton
from bench.corpus import modes
from bench.corpus.without_gpu import HopperOnPaper
from tests.bridge import kernels

triton.runtime.driver.set_active(HopperOnPaper())
modes.keep_tunings_apart()
modes.begin_tuning(modes.Tuning(configs=2))
configs = [triton.Config({"BLOCK": 2**at}) for at in range(4, 9)]
tuner = triton.autotune(configs, key=["columns"], cache_results=True)(kernels.softmax_rows)
tuner.fn = SimpleNamespace(run=lambda *args, **kwargs: None, fn=tuner.fn)
tried = []

def bench(self, *args, config, **meta):
    block = config.kwargs["BLOCK"]
    tried.append((modes._current, block))
    return [block if modes._current == "stock" else -block] * 3  # stock is best at the smallest

triton.runtime.autotuner.Autotuner._bench = bench
chosen = []
for mode in ("stock", "tawa", "same", "stock", "tawa"):
    modes._current = mode
    tuner.run(None, None, columns=100, grid=(1,), warmup=False)
    chosen.append(tuner.best_config.kwargs["BLOCK"])
assert chosen == [16, 256, 16, 16, 256], chosen  # "same" takes what stock chose
assert tried == [(mode, block) for mode in ("stock", "tawa") for block in (16, 256)], tried

tried.clear()
for part in (0, 1):
    modes.begin_tuning(modes.Tuning(configs=3, part=part, parts=2))
    tuner.run(None, None, columns=100, grid=(1,), warmup=False)
assert [block for _, block in tried] == [16, 256, 64], tried  # a job of its own chooses again
"""


def test_each_mode_tunes_for_itself_and_leaves_nothing_on_disk(tmp_path: Path) -> None:
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("*.autotune.json"))


@pytest.mark.parametrize("count", [1, 2, 5, 16, 48])
@pytest.mark.parametrize("most", [0, 1, 4, 6])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_the_parts_of_a_list_are_what_is_tried_of_it_and_no_part_is_empty(count: int, most: int, parts: int) -> None:
    whole = Tuning(most).picked(range(count))
    found = [Tuning(most, part, parts).picked(range(count)) for part in range(parts)]
    assert all(found)
    assert sorted({it for part in found for it in part}) == whole
    assert len(whole) == min(count, most or count)


def test_the_first_and_the_last_are_tried() -> None:
    assert Tuning(3).picked(iter(range(48)))[::2] == [0, 47]  # what prunes a list may be a generator


def test_in_a_mode_with_plans_each_kernel_is_launched_under_its_own_and_the_others_under_stock_triton(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from triton.runtime.jit import JITFunction

    import tawa
    from tawa.bridge.driver.request import surrounding_request
    from tests.bridge import kernels

    for name in ("_plans", "_requests"):
        monkeypatch.setattr(modes, name, {})
    monkeypatch.setattr(modes, "_watching", False)
    monkeypatch.setattr(modes, "_current", "")
    monkeypatch.setattr(JITFunction, "run", lambda self, *args, **kwargs: surrounding_request())
    gemm, softmax = cast(Any, kernels.gemm_pointers), cast(Any, kernels.softmax_rows)

    def request_of(kernel: Any) -> Any:
        return kernel.run(grid=(1,), warmup=False)

    modes.add_plan_mode("two groups", {"gemm_pointers": {"groups": 2}})
    modes.add_plan_mode("persistent", {"gemm_pointers": '{"form": "persistent"}'})
    try:
        modes.switch_to("two groups")
        assert request_of(gemm).plan.groups == 2 and request_of(gemm).pinned
        assert request_of(softmax).stock
        modes.switch_to("persistent")
        assert request_of(gemm).plan.form == "persistent"
        modes.switch_to("tawa")
        assert request_of(gemm).plan is None
        modes.add_plan_mode("two groups", {"softmax_rows": {"form": "stock"}})
        modes.switch_to("two groups")
        assert request_of(gemm).stock
    finally:
        tawa.uninstall()
    with pytest.raises(ValueError, match="stock is a mode of its own"):
        modes.add_plan_mode("stock", {})
