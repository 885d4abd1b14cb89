"""Operations of Triton's language, compiled to TTGIR and simulated: against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

from tawa.sim import Descriptor, from_floats, simulate, to_floats
from tawa.sim.errors import ArgumentError, FailedAssertion, UnsupportedOp
from tests.sim import operations
from tests.sim.operations import module_of

ROW = 64


def floats(rows: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(rows * ROW).astype(np.float32)


def integers(rows: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-1000, 1000, rows * ROW).astype(np.int32)


def test_special_functions() -> None:
    x, y = floats(1), floats(16)
    simulate(module_of(operations.special_functions, {"x": "*fp32", "y": "*fp32"}), {"x": x, "y": y}, (1,))
    a = x.astype(np.float64)
    p = (np.abs(x) + np.float32(1)).astype(np.float64)
    wanted = [np.exp(a), np.exp2(a), np.log(p), np.log2(p), np.sin(a), np.cos(a), np.sqrt(p), 1 / np.sqrt(p)]
    wanted += [np.array([math.erf(it) for it in a]), np.floor(a), np.ceil(a), a * a + p, a / p, np.sqrt(p)]
    wanted += [np.clip(a, -0.5, 0.5), np.maximum(a, p)]
    # exp is 2 to the power of x · log2(e), which is rounded in between.
    np.testing.assert_allclose(y.reshape(16, ROW), np.stack(wanted), rtol=1e-6, atol=1e-7)


def test_functions_of_libdevice() -> None:
    x, y = floats(1), floats(5)
    simulate(module_of(operations.library_functions, {"x": "*fp32", "y": "*fp32"}), {"x": x, "y": y}, (1,))
    a, p = x.astype(np.float64), (np.abs(x) + np.float32(1)).astype(np.float64)
    wanted = np.stack([np.tanh(a), p**a, np.rint(a), np.arctan2(a, p), np.log1p(p)])
    np.testing.assert_allclose(y.reshape(5, ROW), wanted, rtol=1e-6)


def test_an_unknown_function_of_libdevice_is_named() -> None:
    module = module_of(operations.unknown_library_function, {"x": "*fp32"})
    with pytest.raises(UnsupportedOp, match=r"__nv_j0f[\s\S]*operations\.py:\d+"):
        simulate(module, {"x": floats(1)}, (1,))


def test_scans_gathers_joins_and_reductions() -> None:
    x, y = floats(1), np.full(7 * ROW, np.nan, np.float32)
    simulate(module_of(operations.scans, {"x": "*fp32", "y": "*fp32"}), {"x": x, "y": y}, (1,))
    rows = y.reshape(7, ROW)
    np.testing.assert_allclose(rows[0], np.cumsum(x.astype(np.float64)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows[1], np.cumprod(x[::-1].astype(np.float64))[::-1], rtol=1e-4)
    assert (rows[2] == x[::-1]).all()
    assert (rows[3] == x.reshape(32, 2)[:, ::-1].reshape(ROW)).all()
    assert (rows[4] == x).all()
    assert (np.sort(rows[5]) == np.sort(x)).all()
    np.testing.assert_allclose(rows[6][:3], [x.sum(), x.max(), x.argmax()], rtol=1e-5)


def test_histograms_and_reductions_of_integers() -> None:
    z, out = (integers(1) % 16).astype(np.int32), np.zeros(17, np.int32)
    simulate(module_of(operations.counts, {"z": "*i32", "out": "*i32"}), {"z": z, "out": out}, (1,))
    assert (out[:16] == np.bincount(z, minlength=16)).all()
    assert out[16] == np.bitwise_xor.reduce(z)


def test_atomics_on_integers() -> None:
    v = np.arange(ROW, dtype=np.int32) * 37 % 101 - 50
    before = integers(8)
    before[448::2] = v[::2]
    z, old = before.copy(), integers(8, 1)
    simulate(module_of(operations.integer_atomics, {"z": "*i32", "old": "*i32"}), {"z": z, "old": old}, (1,))
    assert (old == before).all()
    b = before.reshape(8, ROW)
    wanted = [b[0] + v, np.maximum(b[1], v), np.minimum(b[2], v), b[3] & v, b[4] | v, b[5] ^ v, v]
    assert (z.reshape(8, ROW) == np.stack([*wanted, np.where(b[7] == v, v + 1, b[7])])).all()


def test_atomics_on_integers_without_a_sign_and_the_upper_half_of_products() -> None:
    v = (np.arange(ROW, dtype=np.int32) * 37 % 101 - 50).view(np.uint32)
    before = integers(3).view(np.uint32)
    z, old = before.copy(), np.zeros_like(before)
    simulate(module_of(operations.unsigned_atomics, {"z": "*u32", "old": "*u32"}), {"z": z, "old": old}, (1,))
    b = before.reshape(3, ROW)
    assert (z.reshape(3, ROW)[:2] == np.stack([np.maximum(b[0], v), np.minimum(b[1], v)])).all()
    assert (old.reshape(3, ROW)[2] == (b[2].astype(np.uint64) * v) >> np.uint64(32)).all()


def test_atomics_on_floats() -> None:
    before, v = floats(3), floats(3, 1)
    x = before.copy()
    simulate(module_of(operations.float_atomics, {"x": "*fp32", "v": "*fp32"}), {"x": x, "v": v}, (1,))
    b, w = before.reshape(3, ROW), v.reshape(3, ROW)
    assert (x.reshape(3, ROW) == np.stack([b[0] + w[0], np.maximum(b[1], w[1]), np.minimum(b[2], w[2])])).all()


def test_narrowing_rounds_to_nearest_or_towards_zero() -> None:
    x = floats(1) * np.float32(3)
    x[:4] = [7e4, -7e4, np.inf, np.nan]
    half, brain = np.zeros(2 * ROW, np.float16), np.zeros(2 * ROW, np.uint16)
    small = np.zeros(2 * ROW, np.uint8)
    types = {"x": "*fp32", "half": "*fp16", "brain": "*bf16", "small": "*fp8e5"}
    arguments = {"x": x, "half": half, "brain": brain, "small": small}
    simulate(module_of(operations.narrowings, types), arguments, (1,))
    assert ((x.view(np.uint32) >> 16).astype(np.uint16)[:3] == brain[:3]).all()
    assert ((x.view(np.uint32) >> 16).astype(np.uint16)[4:] == brain[4:ROW]).all()
    assert (half[:3] == np.array([65504, -65504, np.inf], np.float16)).all()
    for array, element in ((half, "f16"), (brain, "bf16"), (small, "f8E5M2")):
        cut, nearest = to_floats(array, element)[4:ROW], to_floats(array, element)[ROW + 4 :]
        finite = x[4:]
        assert (np.abs(cut) <= np.abs(finite)).all()
        assert (np.abs(nearest - finite) <= np.abs(cut - finite)).all()
        assert (cut != nearest).any()
        assert np.isnan(to_floats(array, element)[3])


def test_assertions_are_checked_and_prints_ignored() -> None:
    module = module_of(operations.checked, {"z": "*i32"}, debug=True)
    z = np.zeros(ROW, np.int32)
    simulate(module, {"z": z}, (1,))
    z[17] = 100
    with pytest.raises(FailedAssertion, match=r"too large[\s\S]*operations\.py:\d+"):
        simulate(module, {"z": z}, (1,))


def test_inline_assembly_is_named_with_its_line() -> None:
    with pytest.raises(UnsupportedOp, match=r"inline assembly[\s\S]*operations\.py:\d+"):
        simulate(module_of(operations.assembly, {"z": "*i32"}), {"z": np.zeros(ROW, np.int32)}, (1,))


def test_a_descriptor_made_on_the_device_pads_as_it_says() -> None:
    x, y = floats(40).astype(np.float16), np.zeros(64 * ROW, np.float16)
    module = module_of(operations.made_descriptors, {"x": "*fp16", "y": "*fp16"})
    assert "ttng.tensormap_create" in {op.name for op in module.walk()}
    simulate(module, {"x": x, "y": y}, (1,))
    assert (y[: 40 * ROW] == x).all()
    assert np.isnan(y[40 * ROW :]).all()


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_a_descriptor_of_the_host_pads_as_it_says(padding: Any) -> None:
    types = {"source": "tensordesc<fp16[32,64]>", "target": "tensordesc<fp16[32,64]>"}
    x, y = floats(40).astype(np.float16).reshape(40, ROW), np.zeros((64, ROW), np.float16)
    arguments = {"source": Descriptor(x, padding=padding), "target": Descriptor(y)}
    simulate(module_of(operations.given_descriptors, types), arguments, (1,))
    assert (y[:40] == x).all()
    assert np.isnan(y[40:]).all() if padding == "nan" else (y[40:] == 0).all()


def test_nan_padding_needs_a_float_type_that_tma_knows() -> None:
    types = {"source": "tensordesc<fp8e5[32,64]>", "target": "tensordesc<fp8e5[32,64]>"}
    bits = np.zeros((64, ROW), np.uint8)
    with pytest.raises(ArgumentError, match="pads f8E5M2 with 'nan'"):
        simulate(
            module_of(operations.given_descriptors, types),
            {"source": Descriptor(bits, padding="nan"), "target": Descriptor(bits)},
            (1,),
        )


@pytest.mark.parametrize("order", ["eager", "late", "random"])
def test_tma_reductions_of_integers(order: Any) -> None:
    module = module_of(operations.integer_reductions, {"target": "tensordesc<i32[32,64]>", "x": "*i32"})
    before, x = integers(192).reshape(6, 32, ROW), integers(32, 1)
    target = before.reshape(192, ROW).copy()
    simulate(module, {"target": target, "x": x}, (1,), order)
    v = x.reshape(32, ROW)
    wanted = [before[0] + v, np.maximum(before[1], v), np.minimum(before[2], v)]
    wanted += [before[3] & v, before[4] | v, before[5] ^ v]
    assert (target.reshape(6, 32, ROW) == np.stack(wanted)).all()


def test_a_tma_reduction_rounds_and_stays_inside_the_tensor() -> None:
    module = module_of(operations.float_reduction, {"target": "tensordesc<fp16[32,64]>", "x": "*fp16"})
    before, x = floats(30).astype(np.float16).reshape(30, ROW), floats(32, 1).astype(np.float16)
    target = before.copy()
    simulate(module, {"target": target, "x": x}, (1,))
    assert (target[:8] == before[:8]).all()
    wanted = before[8:].astype(np.float32) + x.reshape(32, ROW)[:22].astype(np.float32)
    assert (target[8:] == wanted.astype(np.float16)).all()


def test_a_scaled_dot_that_triton_takes_apart() -> None:
    random = np.random.default_rng(0)
    a, b = (from_floats(random.standard_normal(shape), "f8E4M3FN") for shape in ((128, 64), (64, 128)))
    scales = [random.integers(125, 130, (128, 2)).astype(np.uint8) for _ in range(2)]
    c = np.zeros((128, 128), np.float32)
    types = {"a": "*fp8e4nv", "b": "*fp8e4nv", "c": "*fp32", "a_scale": "*u8", "b_scale": "*u8"}
    arguments = {"a": a, "b": b, "c": c, "a_scale": scales[0], "b_scale": scales[1]}
    simulate(module_of(operations.scaled_dot, types), arguments, (1,))
    left, right = (np.repeat(np.exp2(it.astype(np.float64) - 127), 32, axis=1) for it in scales)
    wanted = (to_floats(a, "f8E4M3FN") * left) @ (to_floats(b, "f8E4M3FN") * right.T)
    np.testing.assert_allclose(c, wanted, rtol=1e-5, atol=1e-5)
