"""Kernels specialised by hand: correct values, and timelines in which two consumers share the units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.ir import Module
from tawa.sim import Descriptor, SimulationResult, simulate, summary
from tawa.sim.time.timeline import LOADS, TENSOR_CORES, TMA
from tests.matrix.gluon import gluon_module
from tests.support.sample import sample

LENGTH, HEAD_DIM, BLOCK = 512, 128, 128


def attention(causal: bool, ping_pong: bool) -> Module:
    from bench.peers import gluon_attention

    constants = {"BM": BLOCK, "BN": BLOCK, "HD": HEAD_DIM, "D": 2, "CAUSAL": causal, "PP": ping_pong, "num_warps": 4}
    boxes = gluon_attention.blocks(HEAD_DIM)
    scalars = {"M": "*fp32", "scale": "fp32"}
    return gluon_module(gluon_attention.attention, boxes, constants, dict.fromkeys(boxes, "fp16"), scalars)


def launch(module: Module, order: Any = "eager") -> tuple[SimulationResult, dict[str, Any]]:
    random = np.random.default_rng(0)
    arrays = {name: random.standard_normal((LENGTH, HEAD_DIM)).astype(np.float16) for name in "qkv"}
    arrays |= {"o": np.full((LENGTH, HEAD_DIM), np.nan, np.float16), "M": np.full(LENGTH, np.nan, np.float32)}
    arguments: dict[str, Any] = {f"{name}_desc": Descriptor(arrays[name]) for name in "qkvo"}
    arguments |= {"M": arrays["M"], "scale": HEAD_DIM**-0.5, "L": LENGTH}
    return simulate(module, arguments, (LENGTH // BLOCK, 1), order, 1, timing=True), arrays


@pytest.mark.parametrize("ping_pong", [False, True])
@pytest.mark.parametrize("causal", sample([True, False], 2))
def test_hand_written_attention_gives_the_right_values_in_all_orders(causal: bool, ping_pong: bool) -> None:
    module = attention(causal, ping_pong)
    result, arrays = launch(module)
    q, k, v = (arrays[name].astype(np.float64) for name in "qkv")
    scores = q @ k.T * HEAD_DIM**-0.5
    if causal:
        scores = np.where(np.tri(LENGTH, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    wanted = weights @ v / weights.sum(axis=1, keepdims=True)
    # The weights are rounded to fp16 before the product with V, and the result is rounded again.
    np.testing.assert_allclose(arrays["o"], wanted, rtol=4e-3, atol=2e-3)
    for order in ("late", "random"):
        again, others = launch(module, order)
        assert (others["o"].view(np.uint16) == arrays["o"].view(np.uint16)).all(), order
        assert again.timeline() == result.timeline(), order


def test_one_consumer_multiplies_while_the_other_does_its_softmax() -> None:
    timeline = launch(attention(causal=False, ping_pong=True))[0].timeline()
    assert timeline.rows == ("producer", "consumer 0", "consumer 1", TMA, LOADS, TENSOR_CORES)
    softmax = [span for span in timeline.of("consumer 0") if span.kind == "cuda core"]
    beside = [
        dot
        for dot in timeline.of(TENSOR_CORES)
        for span in softmax
        if span.begin_cycles < dot.end_cycles and dot.begin_cycles < span.end_cycles
    ]
    assert beside
    assert 0.3 < summary(timeline).tensor_core_busy < 1
