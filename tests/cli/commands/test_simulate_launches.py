"""``tawa simulate`` runs the kernel that a launch with these arguments gets where it is legal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

pytestmark = pytest.mark.usefixtures("without_ptx")

KERNEL = """
import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, step_a, inner_a, step_b, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        ks = k + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * step_a + ks * inner_a, mask=(rows[:, None] < M) & (ks < K), other=0.0)
        y = tl.load(b + ks[:, None] * step_b + columns, mask=(ks[:, None] < K) & (columns < N), other=0.0)
        acc = tl.dot(x, y, acc)
    inside = (rows[:, None] < M) & (columns < N)
    tl.store(c + rows[:, None] * N + columns, acc.to(tl.float16), mask=inside)
"""
TENSORS = ["a=randn:64x128:f16", "b=randn:128x128:f16", "c=nan:64x128:f16"]
SIZES = ["M=64", "N=128", "K=128", "inner_a=1", "step_b=128"]

Tawa = Callable[..., Result]


@pytest.fixture
def run(tawa: Tawa, tmp_path: Path) -> Callable[..., Result]:
    path = tmp_path / "strided.py"
    path.write_text(KERNEL)

    def simulated(*more: str, grid: str = "1,1", tensors: list[str] = TENSORS, sizes: list[str] = SIZES) -> Result:
        given = [part for it in (*tensors, *sizes) for part in ("--arg", it)]
        const = ["--const", "BM=64,BN=128,BK=64", "--order", "late", "--grid", grid]
        return tawa("simulate", f"{path}:matmul", *const, *given, *more)

    return simulated


def test_strides_that_tma_takes_run_the_kernel_with_the_launchers_descriptors(run: Callable[..., Result]) -> None:
    result = run("--arg", "step_a=128")
    assert result.exit_code == 0, result.stderr
    assert "same bits: Tawa's kernel and the unspecialised program (1 program, late; " in result.stdout


def test_strides_that_tma_does_not_take_run_stock_tritons_program_and_the_condition_is_named(
    run: Callable[..., Result],
) -> None:
    result = run("--arg", "step_a=100")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("note: not specialised: TMA limits strides (step_a % 8 == 0")
    assert "here step_a = 100); cure: pad the rows of the tensor" in result.stdout
    assert "same bits: the program of stock Triton" in result.stdout


def test_a_number_that_is_not_of_its_type_is_refused(run: Callable[..., Result]) -> None:
    result = run("--arg", "step_a=100", "--sig", "step_a=i32:16")
    assert result.exit_code != 0
    assert "step_a=100 is no i32:16" in result.stderr


def test_a_persistent_program_takes_several_tiles_and_so_do_those_of_stock_triton_beside_it(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    path = tmp_path / "timeline.json"
    tensors = [TENSORS[0].replace("64x", "8512x"), TENSORS[1], TENSORS[2].replace("64x", "8512x")]
    more = ["--arg", "step_a=128", "--option", "persistent=True", "--timeline", str(path)]
    result = run(*more, grid="133,1", tensors=tensors, sizes=["M=8512", *SIZES[1:]])
    assert result.exit_code == 0, result.stderr
    assert "same bits: Tawa's kernel and the unspecialised program (133 programs, late; " in result.stdout
    stock, ours = (cycles(result.stdout, whose) for whose in ("stock Triton", "Tawa's kernel"))
    alone = cycles(run("--arg", "step_a=128", "--timeline", str(path)).stdout, "stock Triton")
    assert 1.9 * alone < stock and ours < stock
    assert json.loads(path.read_text())["traceEvents"]


def cycles(text: str, whose: str) -> int:
    """The length of a timeline."""
    (line,) = (it for it in text.splitlines() if it.strip().startswith(f"{whose}: "))
    return int(line.partition(": ")[2].split()[0])
