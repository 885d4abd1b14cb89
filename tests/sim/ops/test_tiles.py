"""Operations on tiles against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.sim import from_floats, simulate, to_floats
from tests.cases.programs.ttgir import op
from tests.sim.language import WIDTH, floats, integers, language_kernel
from tests.sim.small import LOAD, ROW, STORE, kernel, row

MATRIX = "tensor<8x8xf32, #blocked>"


def reshape(result: str, value: str, source: str, target: str) -> str:
    return op("tt.reshape", f"%{value}", source, f"%{result}", target)


def computed(*lines: str) -> Any:
    """x[0:64] = f(x[0:64]), where the lines make %result of %v."""
    x = np.arange(64, dtype=np.float32)[::-1].copy()
    simulate(kernel(*row(), LOAD, *lines, STORE), {"x": x, "n": 0}, (1,))
    return x


X = np.arange(64, dtype=np.float32)[::-1].reshape(8, 8)


def region(name: str, function: str) -> str:
    return (
        "({\n^bb0(%l: f32, %r: f32):\n"
        f'%c = "{function}"(%l, %r) : (f32, f32) -> f32\n"{name}.return"(%c) : (f32) -> ()\n}})'
    )


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("function", "wanted"), [("arith.addf", np.sum), ("arith.maxnumf", np.max)])
def test_a_reduction_is_that_of_numpy(axis: int, function: str, wanted: Any) -> None:
    part = "tensor<8xf32, #part>"
    wide = "tensor<8x1xf32, #blocked>" if axis else "tensor<1x8xf32, #blocked>"
    got = computed(
        reshape("m", "v", ROW, MATRIX),
        f'%s = "tt.reduce"(%m) <{{axis = {axis} : i32}}> {region("tt.reduce", function)} : ({MATRIX}) -> {part}',
        op("tt.expand_dims", "%s", part, "%w", wide, properties=f"axis = {axis} : i32"),
        op("tt.broadcast", "%w", wide, "%b", MATRIX),
        reshape("result", "b", MATRIX, ROW),
    )
    assert (got.reshape(8, 8) == np.broadcast_to(wanted(X, axis=axis, keepdims=True), (8, 8))).all()


@pytest.mark.parametrize("reverse", ["false", "true"])
def test_a_scan_is_that_of_numpy(reverse: str) -> None:
    got = computed(
        reshape("m", "v", ROW, MATRIX),
        f'%s = "tt.scan"(%m) <{{axis = 1 : i32, reverse = {reverse}}}> {region("tt.scan", "arith.addf")} '
        f": ({MATRIX}) -> {MATRIX}",
        reshape("result", "s", MATRIX, ROW),
    )
    wanted = np.cumsum(X[:, ::-1], axis=1)[:, ::-1] if reverse == "true" else np.cumsum(X, axis=1)
    assert (got.reshape(8, 8) == wanted).all()


def test_a_transposition_moves_elements() -> None:
    got = computed(
        reshape("m", "v", ROW, MATRIX),
        op("tt.trans", "%m", MATRIX, "%t", MATRIX, properties="order = array<i32: 1, 0>"),
        reshape("result", "t", MATRIX, ROW),
    )
    assert (got.reshape(8, 8) == X.T).all()


def test_split_and_join_are_inverse() -> None:
    pairs, half = "tensor<32x2xf32, #blocked>", "tensor<32xf32, #blocked>"
    got = computed(
        reshape("p", "v", ROW, pairs),
        op("tt.split", "%p", pairs, "%e, %o", f"({half}, {half})"),
        op("tt.join", "%o, %e", f"{half}, {half}", "%j", pairs),
        reshape("result", "j", pairs, ROW),
    )
    assert (got.reshape(32, 2) == X.reshape(32, 2)[:, ::-1]).all()


def test_scans_gathers_joins_and_reductions() -> None:
    x, y = floats(1), np.full(7 * WIDTH, np.nan, np.float32)
    simulate(language_kernel("scans", {"x": "*fp32", "y": "*fp32"}), {"x": x, "y": y}, (1,))
    rows = y.reshape(7, WIDTH)
    np.testing.assert_allclose(rows[0], np.cumsum(x.astype(np.float64)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows[1], np.cumprod(x[::-1].astype(np.float64))[::-1], rtol=1e-4)
    assert (rows[2] == x[::-1]).all()
    assert (rows[3] == x.reshape(32, 2)[:, ::-1].reshape(WIDTH)).all()
    assert (rows[4] == x).all()
    assert (np.sort(rows[5]) == np.sort(x)).all()
    np.testing.assert_allclose(rows[6][:3], [x.sum(), x.max(), x.argmax()], rtol=1e-5)


def test_histograms_and_reductions_of_integers() -> None:
    z, out = (integers(1) % 16).astype(np.int32), np.zeros(17, np.int32)
    simulate(language_kernel("counts", {"z": "*i32", "out": "*i32"}), {"z": z, "out": out}, (1,))
    assert (out[:16] == np.bincount(z, minlength=16)).all()
    assert out[16] == np.bitwise_xor.reduce(z)


def test_a_scaled_dot_that_triton_decomposes() -> None:
    random = np.random.default_rng(0)
    a, b = (from_floats(random.standard_normal(shape), "f8E4M3FN") for shape in ((128, 64), (64, 128)))
    scales = [random.integers(125, 130, (128, 2)).astype(np.uint8) for _ in range(2)]
    c = np.zeros((128, 128), np.float32)
    types = {"a": "*fp8e4nv", "b": "*fp8e4nv", "c": "*fp32", "a_scale": "*u8", "b_scale": "*u8"}
    arguments = {"a": a, "b": b, "c": c, "a_scale": scales[0], "b_scale": scales[1]}
    simulate(language_kernel("scaled_dot", types), arguments, (1,))
    left, right = (np.repeat(np.exp2(it.astype(np.float64) - 127), 32, axis=1) for it in scales)
    wanted = (to_floats(a, "f8E4M3FN") * left) @ (to_floats(b, "f8E4M3FN") * right.T)
    np.testing.assert_allclose(c, wanted, rtol=1e-5, atol=1e-5)
