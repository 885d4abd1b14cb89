"""On a Hopper GPU: launches are right before, while and after they learn, also in a CUDA graph, and never differ."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import triton

import tawa
from tawa.bridge.launch.first.stock_first import StockFirst
from tawa.bridge.launch.launcher import Launcher
from tests.bridge import kernels

pytestmark = pytest.mark.gpu
TILE = 128
BLOCKS = {"BM": TILE, "BN": TILE, "BK": 64, "num_warps": 8}


@pytest.fixture(autouse=True)
def in_the_background(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[None]:
    """Worker processes, and no table of another test."""
    monkeypatch.setenv("TAWA_BACKGROUND", "on")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield
    tawa.wait()


def operands(rows: int = TILE) -> tuple[Any, ...]:
    """Rows of A and one tile of columns of B with 4096 columns and rows, C, and the product in float64."""
    import torch

    a = torch.randn(rows, 4096, device="cuda", dtype=torch.float16)
    b = torch.randn(4096, TILE, device="cuda", dtype=torch.float16)
    c = torch.full((rows, TILE), float("nan"), device="cuda", dtype=torch.float16)
    return a, b, c, a.double() @ b.double()


def launch(function: Any, a: Any, b: Any, c: Any) -> Any:
    c.fill_(float("nan"))
    return function[(a.shape[0] // TILE,)](a, b, c, a.shape[1], **BLOCKS)


def error(c: Any, wanted: Any) -> float:
    return ((c.double() - wanted).abs().max() / wanted.abs().max()).item()


def test_results_are_right_and_the_same_at_any_time_and_in_a_graph() -> None:
    import torch

    function, (a, b, c, wanted) = triton.jit(kernels.gemm_pointers.fn), operands(132 * TILE)
    with tawa.scope():
        made = launch(function, a, b, c)
        assert isinstance(made._run, StockFirst) and error(c, wanted) < 2e-3
        first = c.clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            launch(function, a, b, c)
        for _ in range(300):
            launch(function, a, b, c)
            assert torch.equal(c, first)
        tawa.warmup(lambda: launch(function, a, b, c))
        launch(function, a, b, c)
        assert torch.equal(c, first) and isinstance(made._run, Launcher)
        assert any("learned" in it for it in made._run.states())
    later = torch.cuda.CUDAGraph()
    with tawa.scope(), torch.cuda.graph(later):
        launch(function, a, b, c)
    for it in (graph, later):
        c.fill_(float("nan"))
        it.replay()
        assert torch.equal(c, first)


def test_a_capture_on_another_thread_is_not_disturbed() -> None:
    import torch

    function, stream = triton.jit(kernels.gemm_pointers.fn), torch.cuda.Stream()
    a, b, c, wanted = operands(64 * TILE)
    failed, stop = list[BaseException](), threading.Event()

    def learn() -> None:
        try:
            with torch.cuda.stream(stream), tawa.scope():
                while not stop.is_set():
                    launch(function, a, b, c)
        except BaseException as it:
            failed.append(it)

    launch(function, a, b, c)  # loads what stock Triton needs
    x = torch.randn(64, device="cuda")
    thread = threading.Thread(target=learn)
    thread.start()
    try:
        for _ in range(50):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="global"):
                y = x * 2
            graph.replay()
            torch.cuda.synchronize()
            assert torch.equal(y, x * 2)
    finally:
        stop.set()
        thread.join(60)
    assert not failed
    torch.cuda.synchronize()
    assert error(c, wanted) < 2e-3


def test_two_devices_learn_apart() -> None:
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    function = triton.jit(kernels.gemm_pointers.fn)
    with tawa.scope():
        for device in (0, 1):
            with torch.cuda.device(device):
                a, b, c, wanted = operands(32 * TILE)
                tawa.warmup(lambda a=a, b=b, c=c: launch(function, a, b, c))
                assert error(c, wanted) < 2e-3
