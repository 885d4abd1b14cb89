"""A stock kernel that needs more shared memory than a CTA has is refused before Triton's back end works on it."""

from __future__ import annotations

from typing import Any

import pytest
import triton
from triton.runtime.errors import OutOfResources

import tawa
from tawa.bridge.driver import driver as driver_module
from tawa.bridge.driver import stock_overflow
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.driver import _Driver
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.signature import parse_signature
from tawa.errors import ResourceError
from tawa.plan.cost.shared_use import LIMIT_BYTES
from tests.bridge import kernels

pytestmark = pytest.mark.contract

HUGE = {"BM": 512, "BN": 512, "BK": 64}


def signature(sizes: dict[str, int]) -> Any:
    m, n, k = sizes.values()
    text = f"a_desc=tensordesc<fp16[{m},{k}]>, b_desc=tensordesc<fp16[{k},{n}]>, c_desc=tensordesc<fp16[{m},{n}]>"
    return parse_signature(f"{text}, K=i32:16", sizes, kernels.gemm_descriptors.arg_names)


def _asked(*_: Any) -> int:
    raise AssertionError("stock Triton was asked what it spills")


@pytest.fixture
def no_back_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes to LLVM has lost."""
    from triton.backends.nvidia.compiler import CUDABackend

    def make_llir(*_: Any, **__: Any) -> None:
        raise AssertionError("the back end was reached")

    monkeypatch.setattr(CUDABackend, "make_llir", make_llir)


@pytest.mark.parametrize("num_warps", [4, 8])
def test_tiles_that_no_launch_can_have_are_refused_before_the_back_end(num_warps: int, no_back_end: None) -> None:
    text = signature(HUGE)
    with pytest.raises(ResourceError) as caught:
        tawa.explain(kernels.gemm_descriptors, text, num_warps=num_warps)
    assert "gemm_descriptors: stock Triton's kernel needs 524288 bytes of shared memory" in str(caught.value)
    assert "kernels.py:" in str(caught.value) and "cure: smaller blocks" in str(caught.value)


def test_a_launch_raises_what_tritons_autotuner_skips(no_back_end: None, driver: None, monkeypatch: Any) -> None:
    kernel = tawa.jit(kernels.gemm_pointers)
    tensors = [kernels.half_tensor() for _ in range(3)]
    with pytest.raises(OutOfResources, match="shared memory"):
        kernel.run(*tensors, 64, **HUGE, num_warps=8, grid=(1,), warmup=False)


def test_the_next_process_is_refused_by_the_cache(no_back_end: None, driver: None, monkeypatch: Any) -> None:
    refused: list[str] = []
    for _ in range(2):
        kernel = tawa.jit(triton.jit(kernels.gemm_pointers.fn))  # knows nothing of an earlier launch
        with pytest.raises(OutOfResources, match="shared memory") as caught:
            kernel.run(*[kernels.half_tensor() for _ in range(3)], 64, **HUGE, num_warps=8, grid=(1,), warmup=False)
        refused.append(str(caught.value))
        monkeypatch.setattr(stock_overflow, "_may_overflow", lambda _: pytest.fail("it was compiled again"))
    assert refused[0] == refused[1] and "cure: smaller blocks" in refused[0]
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    with pytest.raises(pytest.fail.Exception):
        tawa.jit(kernels.gemm_pointers).run(
            *[kernels.half_tensor() for _ in range(3)], 64, **HUGE, num_warps=8, grid=(1,), warmup=False
        )


def test_a_kernel_that_is_only_compiled_is_compiled_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stock_overflow, "_may_overflow", lambda _: True)
    monkeypatch.setattr(stock_overflow, "LIMIT_BYTES", 0)
    small = {"BM": 64, "BN": 64, "BK": 64}
    for by_inductor in (False, True):  # which would report an error of the compile
        with launched_by_us(by_inductor):
            assert compile_kernel(kernels.gemm_descriptors, signature(small), Request()).asm["cubin"]


@pytest.mark.parametrize("sizes, stages", [((128, 256, 64), 4), ((64, 64, 64), 2), ((128, 128, 128), 3)])
def test_what_is_allocated_is_what_triton_says_after_its_back_end(sizes: tuple[int, ...], stages: int) -> None:
    from tawa.bridge.triton.structured import new_context

    given = signature(dict(zip(HUGE, sizes, strict=True)))
    stock = compile_kernel(kernels.gemm_descriptors, given, None, num_warps=8, num_stages=stages)
    found = stock_overflow._allocated(stock.asm["ttgir"], new_context(), 90)
    assert found == stock.metadata.shared
    assert found is not None and found <= LIMIT_BYTES


def test_tiles_that_fill_all_registers_are_declined_before_the_back_end_and_never_tried_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finished: list[Any] = []
    own = driver_module.through_back_end

    def finish(*args: Any) -> Any:
        finished.append(args)
        return own(*args)

    monkeypatch.setattr(driver_module, "through_back_end", finish)
    sizes = {"BM": 256, "BN": 256, "BK": 32}
    text = "a=tensordesc<fp16[256,32]>, b=tensordesc<fp16[32,256]>, out=*fp32:16, K=i32:16"
    given = parse_signature(text, sizes, kernels.gemm_row_sums.arg_names)
    compiled = compile_kernel(kernels.gemm_row_sums, given, Request(), num_warps=8)
    assert "takes all registers of an SM" in compiled.metadata.tawa["reason"]
    assert finished == []
    monkeypatch.setattr(_Driver, "_stock_spills", _asked)
    legal = Request(tawa.PlanOptions(only_if_faster=False))
    compiled = compile_kernel(kernels.gemm_row_sums, given, legal, num_warps=8)
    assert compiled.metadata.tawa["applied"]
    assert len(finished) == 1
