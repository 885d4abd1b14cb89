"""A kernel that is stock Triton's although Tawa is there says who asked for that."""

from __future__ import annotations

from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget

import tawa
from tests.bridge import fakes, kernels

TILE = "tensordesc<fp16[64,64]>"
TEXT = f"a_desc={TILE}, b_desc={TILE}, c_desc={TILE}, K=i32:16"
BLOCKS = {"BM": 64, "BN": 64, "BK": 64}
ASKED = "stock Triton was asked for: enable_warp_specialization=False"
OFF = "TAWA_ENABLE=off: stock Triton compiles every kernel"


def warmup(kernel: Any, **options: Any) -> Any:
    tensors = [kernels.half_tensor() for _ in range(3)]
    return kernel.warmup(*tensors, 64, grid=(1,), **BLOCKS, **options)


def fresh() -> Any:
    return triton.jit(kernels.gemm_pointers.fn)


@pytest.fixture
def off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWA_ENABLE", "off")


def test_a_launch_that_asks_for_stock_triton(driver: None) -> None:
    kernel = tawa.jit(fresh())
    compiled = warmup(kernel, enable_warp_specialization=False)
    for found in (tawa.explain(kernel), tawa.explain(compiled)):
        assert found.reason == ASKED and found.cure == "leave enable_warp_specialization out"


def test_a_scope_or_an_installation_that_asks_for_stock_triton(driver: None) -> None:
    scoped, installed = fresh(), fresh()
    with tawa.scope(enable_warp_specialization=False):
        warmup(scoped)
    tawa.install(enable_warp_specialization=False)
    try:
        warmup(installed)
        assert ASKED in tawa.report().reason
    finally:
        tawa.uninstall()
    assert tawa.explain(scoped).reason == tawa.explain(installed).reason == ASKED


def test_ahead_of_time_too() -> None:
    found = tawa.explain(kernels.gemm_descriptors, TEXT, BLOCKS, enable_warp_specialization=False)
    assert found.reason == ASKED


def test_a_kernel_that_asks_for_stock_triton_beside_others_under_an_installation(
    pipeline_is: Any, driver: None
) -> None:
    pipeline_is(fakes.untouched)
    tawa.install()
    try:
        warmup(tawa.jit(fresh()), enable_warp_specialization=False)
        reasons = [verdict.reason for kernel in tawa.report().kernels for verdict in kernel.verdicts]
        assert ASKED in reasons
    finally:
        tawa.uninstall()


def test_the_setting_that_switches_tawa_off(off: None, driver: None) -> None:
    kernel, installed = tawa.jit(fresh()), fresh()
    warmup(kernel, enable_warp_specialization=True)
    tawa.install()
    try:
        warmup(installed)
        assert OFF in tawa.report().reason and OFF in " ".join(str(tawa.report()).split())
    finally:
        tawa.uninstall()
    found = [
        tawa.explain(kernel),
        tawa.explain(installed),
        tawa.explain(kernels.gemm_descriptors, TEXT, BLOCKS),
        tawa.explain(kernels.gemm_descriptors, TEXT, BLOCKS, enable_warp_specialization=True),
    ]
    assert [it.reason for it in found] == [OFF] * 4


def test_another_gpu() -> None:
    types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "columns": "i32", "BLOCK": "constexpr"}
    source = triton.compiler.ASTSource(kernels.softmax_rows, types, {(3,): 128})
    compiled = triton.compile(source, target=GPUTarget("cuda", 80, 32))
    from tawa.bridge.launch.why_stock import why_stock

    assert "compute capability 80" in why_stock(compiled).reason


def test_nobody_asked(driver: None) -> None:
    kernel = fresh()
    warmup(kernel)
    assert "Tawa was not asked" in tawa.explain(kernel).reason
