"""Operators under `torch.compile` and in CUDA graphs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch


def check_traced_and_captured(call: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Raises AssertionError unless a call gives the same bits compiled and in each replay of a graph."""
    wanted = call(*arguments)
    assert torch.equal(torch.compile(call, fullgraph=True)(*arguments), wanted)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call(*arguments)
    for _ in range(3):
        found.fill_(math.nan)
        graph.replay()
        assert torch.equal(found, wanted)
