"""Elementwise operations of Triton's language against NumPy; assertions and assumptions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tawa.sim import simulate, to_floats
from tawa.sim.errors import (
    FailedAssertion,
)
from tests.cases.programs.ttgir import op
from tests.sim.language import WIDTH, floats, language_kernel
from tests.sim.small import kernel, run


def test_special_functions() -> None:
    x, y = floats(1), floats(16)
    simulate(language_kernel("special_functions", {"x": "*fp32", "y": "*fp32"}), {"x": x, "y": y}, (1,))
    a = x.astype(np.float64)
    p = (np.abs(x) + np.float32(1)).astype(np.float64)
    wanted = [np.exp(a), np.exp2(a), np.log(p), np.log2(p), np.sin(a), np.cos(a), np.sqrt(p), 1 / np.sqrt(p)]
    wanted += [np.array([math.erf(it) for it in a]), np.floor(a), np.ceil(a), a * a + p, a / p, np.sqrt(p)]
    wanted += [np.clip(a, -0.5, 0.5), np.maximum(a, p)]
    # exp is 2 to the power of x · log2(e), which is rounded in between.
    np.testing.assert_allclose(y.reshape(16, WIDTH), np.stack(wanted), rtol=1e-6, atol=1e-7)


def test_narrowing_rounds_to_nearest_or_towards_zero() -> None:
    x = floats(1) * np.float32(3)
    x[:4] = [7e4, -7e4, np.inf, np.nan]
    half, brain = np.zeros(2 * WIDTH, np.float16), np.zeros(2 * WIDTH, np.uint16)
    small = np.zeros(2 * WIDTH, np.uint8)
    types = {"x": "*fp32", "half": "*fp16", "brain": "*bf16", "small": "*fp8e5"}
    arguments = {"x": x, "half": half, "brain": brain, "small": small}
    simulate(language_kernel("narrowings", types), arguments, (1,))
    assert ((x.view(np.uint32) >> 16).astype(np.uint16)[:3] == brain[:3]).all()
    assert ((x.view(np.uint32) >> 16).astype(np.uint16)[4:] == brain[4:WIDTH]).all()
    assert (half[:3] == np.array([65504, -65504, np.inf], np.float16)).all()
    for array, element in ((half, "f16"), (brain, "bf16"), (small, "f8E5M2")):
        cut, nearest = to_floats(array, element)[4:WIDTH], to_floats(array, element)[WIDTH + 4 :]
        finite = x[4:]
        assert (np.abs(cut) <= np.abs(finite)).all()
        assert (np.abs(nearest - finite) <= np.abs(cut - finite)).all()
        assert (cut != nearest).any()
        assert np.isnan(to_floats(array, element)[3])


def test_assertions_are_checked_and_prints_ignored() -> None:
    module = language_kernel("checked", {"z": "*i32"}, debug=True)
    z = np.zeros(WIDTH, np.int32)
    simulate(module, {"z": z}, (1,))
    z[17] = 100
    with pytest.raises(FailedAssertion, match=r"too large[\s\S]*operations\.py:\d+"):
        simulate(module, {"z": z}, (1,))


def test_a_false_assumption_traps() -> None:
    zero = op("arith.constant", "", "", "%zero", "i32", properties="value = 0 : i32")
    positive = op("arith.cmpi", "%n, %zero", "i32, i32", "%p", "i1", properties="predicate = 4 : i64")
    module = kernel(zero, positive, op("llvm.intr.assume", "%p", "i1"))
    run(module, n=1)
    with pytest.raises(FailedAssertion):
        run(module, n=0)
