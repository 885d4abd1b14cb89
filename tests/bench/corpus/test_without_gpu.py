"""What is compiled where there is no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from types import SimpleNamespace
import triton
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from bench.corpus import without_gpu
from tests.bridge import kernels

triton.runtime.driver.set_active(without_gpu.HopperOnPaper())
Autotuner.do_bench = without_gpu._launch_once
tried = []

def run(*args, BLOCK, **kwargs):
    tried.append(BLOCK)
    if BLOCK < 64:
        raise CompileTimeAssertionFailure(None, None, "BLOCK is too small")

tuner = triton.autotune([triton.Config({"BLOCK": 2**at}) for at in range(4, 8)], key=["columns"])(kernels.softmax_rows)
tuner.fn = SimpleNamespace(run=run, fn=tuner.fn)
tuner.run(None, None, columns=100, grid=(1,), warmup=False)
assert tried == [16, 32, 64, 128, 64], tried
"""


def test_a_configuration_that_does_not_compile_is_passed_over_as_on_a_gpu(tmp_path: Path) -> None:
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_a_kernel_would_have_written_is_the_same_in_every_run() -> None:
    torch = pytest.importorskip("torch")
    from bench.corpus.without_gpu import _on_cpu_mode, _ones_mode

    with _on_cpu_mode(), _ones_mode():
        made = [
            torch.empty(5, dtype=torch.int32, device="cuda"),
            torch.empty_like(torch.zeros(5, dtype=torch.float8_e5m2)),
            torch.zeros(5).new_empty(5),
            torch.empty(5, requires_grad=True),
        ]
    assert all(it.device.type == "cpu" and it.tolist() == [1] * 5 for it in made)


def test_products_of_pytorch_have_the_right_shape_and_cost_nothing() -> None:
    torch = pytest.importorskip("torch")
    from bench.corpus.without_gpu import _ones_mode

    a, b = torch.zeros(2, 3, 4).bfloat16(), torch.zeros(4, 5).bfloat16().requires_grad_()
    with _ones_mode():
        made = [a[0] @ b, a.matmul(b), torch.nn.functional.linear(a, b.T)]
        (gradient,) = torch.autograd.grad(made[2].sum(), [b])
    assert [tuple(it.shape) for it in (*made, gradient)] == [(3, 5), (2, 3, 5), (2, 3, 5), (4, 5)]
    assert all(it.device.type == "cpu" and bool((it == 1).all()) for it in (*made, gradient))
