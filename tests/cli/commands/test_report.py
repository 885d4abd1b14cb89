"""``tawa run`` and ``tawa report``, from a script to its table, without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
import triton
import triton.language as tl
from helper import NAME
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def gemm(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(tl.float16))

@triton.jit
def fill(x, BM: tl.constexpr):
    tl.store(x + tl.arange(0, BM), 0.0)

blocks = {"BM": 128, "BN": 256, "BK": 64}
types = {"a": "tensordesc<fp16[128,64]>", "b": "tensordesc<fp16[64,256]>", "c": "tensordesc<fp16[128,256]>", "K": "i32"}
hopper = GPUTarget("cuda", 90, 32)
launch = {"num_warps": 8, "num_stages": 1}
triton.compile(ASTSource(gemm, {**types, **dict.fromkeys(blocks, "constexpr")}, blocks), hopper, launch)
triton.compile(ASTSource(fill, {"x": "*fp16", "BM": "constexpr"}, {"BM": 64}), hopper)
print(__name__, NAME, sys.argv)
if "fail" in sys.argv:
    raise ValueError("the script's own")
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text("NAME = 'helper'\n")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def run(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "160", "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    command = [sys.executable, "-m", "tawa", "run", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def test_a_script_runs_as_by_python_and_its_kernels_are_reported(script: Path, tmp_path: Path, tawa, tawa_json) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run("--report", str(script), "--lr", "3", cwd=elsewhere, TAWA_REPORT="r.jsonl")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"__main__ helper ['{script}', '--lr', '3']\n"
    assert "2 kernels, 1 specialised" in done.stderr
    found = tawa_json("report", str(elsewhere / "r.jsonl"))
    kernels = {it["kernel"]: it["verdicts"][0] for it in found["kernels"]}
    assert kernels["gemm"]["applied"] and "ring0" in kernels["gemm"]["reason"]
    assert not kernels["fill"]["applied"]
    assert kernels["fill"]["location"] == f"{script}:{1 + SCRIPT[: SCRIPT.index('def fill')].count(chr(10))}"
    table = tawa("report", str(elsewhere / "r.jsonl")).stdout
    assert "no tl.dot in the kernel" in table and "share of GPU time: not known" in table


def test_a_module_runs_as_by_python(script: Path, tmp_path: Path) -> None:
    done = run("-m", "script", "x", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"__main__ helper ['{script}', 'x']\n"


def test_a_failing_script_shows_its_own_frames_and_still_reports(script: Path, tmp_path: Path) -> None:
    done = run("--profile", "script.py", "fail", cwd=tmp_path)
    assert done.returncode == 1
    assert "ValueError: the script's own" in done.stderr
    assert "runpy" not in done.stderr and "tawa/cli" not in done.stderr
    assert "not known (there is no GPU" in done.stderr or "GPU time" in done.stderr


def test_options_reach_every_kernel(script: Path, tmp_path: Path, tawa) -> None:
    done = run("--report", "--option", "enable_warp_specialization=False", "script.py", cwd=tmp_path)
    assert "no kernel was compiled under tawa.install()" in done.stderr
    assert tawa("run", "--option", "aref_depht=1", str(script)).exit_code == 2


@pytest.mark.parametrize("arguments", [("run", "none.py"), ("report", "none.jsonl"), ("report", __file__)])
def test_what_is_not_there_is_wrong_usage(arguments: tuple[str, ...], tawa) -> None:
    result = tawa(*arguments)
    assert result.exit_code == 2
    assert "error: " in result.stderr and "cure: " in result.stderr
