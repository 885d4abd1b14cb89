"""On a Hopper GPU: launches are right before, while and after the specialised kernel is made, also in a CUDA graph."""

from __future__ import annotations

from typing import Any

import pytest
import triton

import tawa
from tawa.bridge.launch.first.background import parser_fails_in_threads
from tawa.bridge.launch.first.stock_first import StockFirst
from tests.bridge import kernels

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(parser_fails_in_threads(), reason="this Python waits at the first launch"),
]
TILE = 128
BLOCKS = {"BM": TILE, "BN": TILE, "BK": 64, "num_warps": 8}


def operands() -> tuple[Any, ...]:
    """One tile of A and B with 4096 columns and rows, C, and the product in float64."""
    import torch

    a, b = (torch.randn(TILE, 4096, device="cuda", dtype=torch.float16) for _ in "ab")
    c = torch.full((TILE, TILE), float("nan"), device="cuda", dtype=torch.float16)
    return a, b.T.contiguous(), c, a.double() @ b.T.double()


def launch(function: Any, a: Any, b: Any, c: Any) -> Any:
    c.fill_(float("nan"))
    return function[(1,)](a, b, c, a.shape[1], **BLOCKS)


def error(c: Any, wanted: Any) -> float:
    return ((c.double() - wanted).abs().max() / wanted.abs().max()).item()


def test_results_are_right_before_and_after_and_in_a_graph() -> None:
    import torch

    function, (a, b, c, wanted) = triton.jit(kernels.gemm_pointers.fn), operands()
    with tawa.scope(start="stock"):
        made = launch(function, a, b, c)
        assert isinstance(made._run, StockFirst) and error(c, wanted) < 2e-3
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            launch(function, a, b, c)
        c.fill_(float("nan"))
        graph.replay()
        assert error(c, wanted) < 2e-3
        while made._run.ready is None and not made._run.settled:
            launch(function, a, b, c)
            assert error(c, wanted) < 2e-3
        launch(function, a, b, c)
        assert error(c, wanted) < 2e-3
        after = c.clone()
    with tawa.scope(start="ready"):
        launch(triton.jit(kernels.gemm_pointers.fn), a, b, c)
    assert torch.equal(after, c)
    graph.replay()
    assert error(c, wanted) < 2e-3
