"""Kernels specialised by hand: correct values, and timelines in which two consumers share the units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.ir import Module
from tawa.sim import Descriptor, SimulationResult, from_floats, simulate, summary, to_floats
from tawa.sim.time.timeline import LOADS, TENSOR_CORES, TMA
from tests.matrix.gluon import backward_attention, gluon_module
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
@pytest.mark.parametrize("causal", sample([True, False], 3))
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


BACKWARD = [(it, causal) for causal in (False, True) for it in ("1 part", "2 parts", "1 and 2 parts", "TMA")]


@pytest.mark.parametrize(("variant", "causal"), sample(BACKWARD, 4))
def test_hand_written_backward_attention_gives_the_right_gradients(variant: str, causal: bool) -> None:
    length, head_dim = 192, 256
    random = np.random.default_rng(0)
    bits = {name: from_floats(random.standard_normal((length, head_dim)), "bf16") for name in ("q", "k", "v", "do")}
    q, k, v, do = (to_floats(it, "bf16").astype(np.float64) for it in bits.values())
    scale = head_dim**-0.5
    scores = np.where(np.tri(length, dtype=bool), q @ k.T * scale, -np.inf) if causal else q @ k.T * scale
    lse = np.log2(np.exp(scores).sum(axis=1))
    p = np.exp2(scores * np.log2(np.e) - lse[:, None])
    delta = (p @ v * do).sum(axis=1)
    ds = p * (do @ v.T - delta[:, None])
    wanted = {"dq": ds @ k * scale, "dk": ds.T @ q * scale, "dv": p.T @ do}

    sums = np.zeros(length * head_dim, np.float32)
    made = {name: np.full((length, head_dim), 0x7FC0, np.uint16) for name in ("dk", "dv")}
    rows = {"lse": lse.astype(np.float32), "delta": delta.astype(np.float32), "dq": sums.reshape(-1, 256)}
    arguments: dict[str, Any] = {f"{name}_d": Descriptor(it) for name, it in (bits | rows | made).items()}
    arguments |= {"dq_p": sums, "L": length, "scale": scale}
    simulate(backward_attention(variant, causal), arguments, (length // 64, 1), "random", 1)
    # (block, half, 8 columns, 16 rows, row, 2 columns, 8 rows, column): as in `after`
    parts = sums.reshape(length // 64, 2, 16, 4, 8, 4, 2, 2).transpose(0, 3, 6, 4, 1, 2, 5, 7)
    found = {name: to_floats(it, "bf16") for name, it in made.items()}
    found["dq"] = parts.reshape(length, head_dim) * scale
    # P and dS are rounded to bf16 before they are multiplied, and dK and dV again.
    for name, exact in wanted.items():
        assert np.abs(found[name] - exact).max() < 6e-3 * np.abs(exact).max(), name


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
