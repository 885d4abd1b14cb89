"""On a Hopper GPU: a program is tuned as a new user would, killed and taken up again, and its kernels measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tawa.runtime.tuning.store import user_store

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).resolve().parents[3]


def tune(*words: str, **more: Any) -> Any:
    command = [sys.executable, "-m", "tawa", "tune", *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, **more)


@pytest.mark.parametrize("example", ["gemm", "autotune"])
def test_an_example_is_tuned(example: str) -> None:
    out, _ = tune("--json", f"examples/{example}.py").communicate()
    found = json.loads(out[out.index("\n{") :])  # behind what the example prints
    assert found["entries"] and not found["failed"] and not found["left_out"]
    for it in found["entries"]:
        assert not any(time["note"].startswith("wrong results") for time in it["times"])
        assert it["gain"] is None or it["gain"] >= 1.0


def test_a_run_that_is_killed_is_taken_up_and_loses_nothing() -> None:
    from tawa.runtime.tuning.store import cache_folder

    first = tune("examples/autotune.py")
    journal: list[Path] = []
    while first.poll() is None and not journal:
        time.sleep(0.2)
        journal = list(cache_folder().glob("tuning/*/journal.jsonl"))
    first.kill()
    first.wait()
    before = {(it.identity, it.date) for it in user_store().all()}
    assert before
    _, said = tune("examples/autotune.py", stderr=subprocess.PIPE).communicate()
    assert "taking up an interrupted run" in said
    assert before < {(it.identity, it.date) for it in user_store().all()}


def test_the_first_launch_measures_and_the_result_is_right() -> None:
    import torch

    from examples.gemm import matmul

    a, b = (torch.randn(2048, 2048, device="cuda", dtype=torch.float16) for _ in "ab")
    for _ in range(2):
        torch.testing.assert_close(matmul(a, b, mode="measure"), a @ b, rtol=1e-2, atol=1e-1)
    (entry,) = user_store().all()
    assert entry.shape_class == "K <= 2048, 128 programs" and entry.gpu == torch.cuda.get_device_name()
    torch.testing.assert_close(matmul(a, b), a @ b, rtol=1e-2, atol=1e-1)
