"""The split of Triton's pipeline changes nothing for stock kernels."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from triton import knobs
from triton.backends.nvidia.compiler import CUDABackend

from tawa.bridge.driver.compile import compile_kernel, jit_function
from tawa.bridge.triton.signature import Signature, parse_signature
from tawa.bridge.triton.stages import clean_up, split_make_ttgir
from tests.bridge import kernels

pytestmark = pytest.mark.contract

TILE = "tensordesc<fp16[64,64]>"
BLOCKS = {"BM": 64, "BN": 64, "BK": 64}
CASES = {
    "gemm_descriptors": (f"a_desc={TILE}, b_desc={TILE}, c_desc={TILE}, K=i32:16", BLOCKS, 4, 3),
    "gemm_pointers": ("a_ptr=*fp16:16, b_ptr=*fp16:16, c_ptr=*fp16:16, K=i32:16", BLOCKS, 4, 4),
    "gemm_persistent": (f"a_desc={TILE}, b_desc={TILE}, c_desc={TILE}, M=i32, N=i32, K=i32", BLOCKS, 8, 2),
    "softmax_rows": ("x_ptr=*fp32:16, y_ptr=*fp32:16, columns=i32", {"BLOCK": 1024}, 4, 3),
}


@contextlib.contextmanager
def hook_that_replaces_ttgir(make_ttgir: Any) -> Iterator[None]:
    def hook(backend=None, stages=None, options=None, language=None, capability=None):
        if stages is None:
            return "-split", "0"
        stages["ttgir"] = lambda mod, metadata: make_ttgir(mod, metadata, options, capability)
        return None

    knobs.runtime.add_stages_inspection_hook = hook
    try:
        yield
    finally:
        del knobs.runtime.add_stages_inspection_hook


def compile_case(name: str) -> Any:
    text, constants, num_warps, num_stages = CASES[name]
    kernel = getattr(kernels, name)
    signature: Signature = parse_signature(text, constants, jit_function(kernel).arg_names)
    return compile_kernel(kernel, signature, None, num_warps=num_warps, num_stages=num_stages)


@pytest.mark.parametrize("name", CASES)
def test_stock_through_the_split_gives_the_bytes_of_stock_triton(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    split = split_make_ttgir(CUDABackend)
    assert split is not None

    def through_the_split(mod: Any, metadata: dict[str, Any], options: Any, capability: int) -> Any:
        for part in (split.front, split.middle, split.back):
            mod = part(mod, metadata, options, capability)
        return mod

    stock = compile_case(name)
    with hook_that_replaces_ttgir(through_the_split):
        ours = compile_case(name)
    assert ours.asm["ptx"] == stock.asm["ptx"]
    assert ours.asm["cubin"] == stock.asm["cubin"]
    assert ours.metadata.tensordesc_meta == stock.metadata.tensordesc_meta


def test_leaving_the_middle_out_is_seen_by_the_byte_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    split = split_make_ttgir(CUDABackend)
    assert split is not None

    def without_pipeliner(mod: Any, metadata: dict[str, Any], options: Any, capability: int) -> Any:
        mod = clean_up(split.front(mod, metadata, options, capability), capability)
        return split.back(mod, metadata, options, capability)

    stock = compile_case("gemm_descriptors")
    with hook_that_replaces_ttgir(without_pipeliner):
        ours = compile_case("gemm_descriptors")
    assert ours.asm["ptx"] != stock.asm["ptx"]
    assert "tensordesc_meta" in ours.metadata._fields


class RenamedPasses(CUDABackend):
    @staticmethod
    def make_ttgir(mod, metadata, opt, capability):
        if capability // 10 in [8, 9]:
            passes.add_everything(mod)  # noqa: F821
        return mod


class OtherParameters(CUDABackend):
    @staticmethod
    def make_ttgir(mod, metadata, opt, capability, extra):
        return mod


@pytest.mark.parametrize("backend", [RenamedPasses, OtherParameters, object, int])
def test_a_pipeline_of_another_shape_is_not_split(backend: type) -> None:
    assert split_make_ttgir(backend) is None


def test_the_front_ends_before_the_loops_are_fused() -> None:
    source = inspect.getsource(CUDABackend.make_ttgir)
    split = split_make_ttgir(CUDABackend)
    assert split is not None
    assert "add_fuse_nested_loops" in source
    assert "add_fuse_nested_loops" not in split.front.__code__.co_names
    assert "add_optimize_descriptor_encoding" in split.front.__code__.co_names
    assert "add_pipeline" in split.middle.__code__.co_names
    assert "add_pipeline" not in split.back.__code__.co_names
    assert "get_tensordesc_metadata" in split.back.__code__.co_names
