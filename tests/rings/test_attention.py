"""Attention with three groups of consumers: proved, and right in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.cli.inputs.kernel_file import load_kernel
from tawa.sim import Descriptor, simulate
from tawa.verify.barriers import check_barriers
from tests.matrix.gluon import gluon_module
from tests.support.verdicts import passes

pytestmark = pytest.mark.usefixtures("without_ptx")

FILE = Path(__file__).parents[2] / "examples" / "rings" / "attention_three_groups.py"
HEADS, L, HD, BN = 2, 384, 64, 64


@pytest.fixture(scope="module")
def module() -> Any:
    boxes = {"q": [64, HD], "k": [BN, HD], "v": [BN, HD], "o": [64, HD]}
    constants = {"BN": BN, "HD": HD, "D": 2, "num_warps": 4}
    kernel = load_kernel(f"{FILE}:attention")
    return gluon_module(kernel, boxes, constants, dict.fromkeys(boxes, "fp16"), {"scale": "fp32"})


def test_it_is_proved(module: Any) -> None:
    assert passes(check_barriers(module))


@pytest.mark.parametrize("order", ["eager", "late", "random"])
def test_it_is_right(module: Any, order: Any) -> None:
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((HEADS * L, HD)).astype(np.float16) for _ in "qkv")
    o = np.full_like(q, np.nan)
    tensors = {name: Descriptor(x) for name, x in zip("qkvo", (q, k, v, o), strict=True)}
    scale = HD**-0.5
    simulate(module, {**tensors, "scale": scale * np.log2(np.e), "L": L}, (L // 192, HEADS, 1), order, 0)
    for head in range(HEADS):
        x, y, z, found = (it[head * L : (head + 1) * L].astype(np.float64) for it in (q, k, v, o))
        scores = x @ y.T * scale
        weights = np.exp(scores - scores.max(1, keepdims=True))
        np.testing.assert_allclose(found, weights @ z / weights.sum(1, keepdims=True), rtol=4e-3, atol=2e-3)
