"""Ahead-of-time compiles: of the function under every wrapper, for Hopper, without a GPU."""

from __future__ import annotations

import warnings
from importlib import import_module
from types import SimpleNamespace

import pytest

from tawa.bridge.driver.compile import compile_kernel, compile_ttir, jit_function
from tawa.bridge.driver.request import Request
from tawa.bridge.triton.device import gpu_target
from tawa.bridge.triton.signature import Signature
from tawa.errors import KernelError
from tawa.machine.machines import SM_90
from tawa.plan import PlanOptions
from tawa.runtime.explain.explaining import explain_compiled
from tests.bridge.kernels import gemm_descriptors

pytestmark = pytest.mark.contract


def test_the_function_is_found_under_every_wrapper() -> None:
    wrapped = SimpleNamespace(fn=SimpleNamespace(fn=gemm_descriptors))
    assert jit_function(wrapped) is gemm_descriptors is jit_function(gemm_descriptors)


@pytest.mark.parametrize("kernel", [len, SimpleNamespace(fn=len)], ids=["a function", "a wrapper of one"])
def test_what_is_no_triton_kernel_is_refused(kernel: object) -> None:
    with pytest.raises(KernelError, match=r"is not a Triton kernel: a function under @triton\.jit is needed"):
        jit_function(kernel)


def test_the_target_is_hopper() -> None:
    target = gpu_target(SM_90)
    assert (target.backend, target.arch, target.warp_size) == ("cuda", 90, 32)


def test_without_a_request_the_kernel_is_stock_and_with_one_it_has_our_levels(gemm_signature: Signature) -> None:
    stock = compile_kernel(gemm_descriptors, gemm_signature, None)
    assert {"ttir", "ttgir", "ptx", "cubin"} <= set(stock.asm) and "aref" not in stock.asm
    ours = compile_kernel(gemm_descriptors, gemm_signature, Request(PlanOptions(enable_warp_specialization=True)))
    assert {"aref", "barrier", "ptx"} <= set(ours.asm)
    assert ours.asm["ptx"] != stock.asm["ptx"]


def test_a_compile_ahead_of_time_is_not_warned_of_a_default_that_a_later_triton_changes(
    gemm_signature: Signature, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Triton 3.9 does so once in a process, before the output of the first command or cell that compiles."""
    monkeypatch.delenv("TRITON_DEFAULT_FP_FUSION", raising=False)
    forget = getattr(getattr(import_module("triton._utils"), "warn_once", None), "cache_clear", lambda: None)
    forget()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = compile_kernel(gemm_descriptors, gemm_signature, None)
        explained = explain_compiled(made)
    assert made.metadata.enable_fp_fusion and not explained.applied


def test_a_kernel_compiles_from_its_ttir_to_as_many_dots(gemm_signature: Signature) -> None:
    whole = compile_kernel(gemm_descriptors, gemm_signature, None)
    again = compile_ttir(whole.asm["ttir"], None, num_warps=4, num_stages=3)
    assert again.asm["ttgir"].count("warp_group_dot ") == whole.asm["ttgir"].count("warp_group_dot ") > 0
