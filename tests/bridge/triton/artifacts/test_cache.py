"""A stock kernel is never served for a specialised one, nor the reverse, in memory or on disk."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.compiler.compiler
import triton.runtime.autotuner
import triton.runtime.jit

from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import PROCESS, Request, activate
from tawa.bridge.triton.device import gpu_target
from tawa.bridge.triton.signature import Signature
from tawa.machine.machines import SM_90
from tawa.plan import PlanOptions
from tests.bridge import fakes, kernels

pytestmark = [pytest.mark.usefixtures("all_pay"), pytest.mark.contract]

AUTO = Request()
DEEP = Request(PlanOptions(aref_depth=3))
TWO = Request(PlanOptions(aref_depth=2))
STOCK = None


def depth(compiled: Any) -> str:
    """What a compiled kernel is: ``stock``, or the D in its aref text."""
    return compiled.asm["aref"].strip() if "aref" in compiled.asm else "stock"


def expected(request: Request | None) -> str:
    return "stock" if request is None else f"// aref D={request.options.aref_depth or 2}"


ORDERS = [(STOCK, DEEP), (DEEP, STOCK), (TWO, DEEP), (DEEP, TWO), (AUTO, DEEP)]


@pytest.mark.parametrize("first, second", ORDERS)
def test_on_disk_each_request_has_its_own_kernel(
    first: Request | None, second: Request | None, gemm_signature: Signature, pipeline_is: Any
) -> None:
    pipeline_is(fakes.untouched)
    for request in (first, second, first):
        compiled = compile_kernel(kernels.gemm_descriptors, gemm_signature, request)
        assert depth(compiled) == expected(request)


@pytest.mark.parametrize("first, second", ORDERS)
def test_in_memory_each_request_has_its_own_kernel(
    first: Request | None, second: Request | None, pipeline_is: Any, driver: None
) -> None:
    pipeline_is(fakes.untouched)
    kernel = triton.jit(kernels.gemm_pointers.fn)
    tensors = [kernels.half_tensor() for _ in range(3)]
    seen = {}
    for request in (first, second, first, second):
        with attached(), activate(request):
            compiled = kernel.warmup(*tensors, 64, BM=64, BN=64, BK=64, grid=(1,))
        assert depth(compiled) == expected(request)
        assert seen.setdefault(request, compiled) is compiled, "compiled twice"


def test_a_kernel_on_disk_is_served_again_with_its_record(
    gemm_signature: Signature, pipeline_is: Any, own_cache: Path
) -> None:
    pipeline_is(fakes.untouched)
    first = compile_kernel(kernels.gemm_descriptors, gemm_signature, DEEP)
    pipeline_is(fakes.broken)  # would show if anything were compiled again
    second = compile_kernel(kernels.gemm_descriptors, gemm_signature, DEEP)
    assert second.hash == first.hash
    assert second.asm["aref"] == first.asm["aref"]
    assert second.metadata.tawa == first.metadata.tawa
    assert second.metadata.tawa["plan"]["rings"][0]["depth"] == 3


def keys_of_stock(signature: Signature) -> tuple[str, str]:
    """Triton's keys of one kernel, on disk and in memory, as they come out now."""
    source = triton.compiler.ASTSource(
        kernels.gemm_descriptors, signature.types, signature.constants, signature.attributes
    )
    from triton.backends.nvidia.compiler import CUDABackend

    backend = CUDABackend(gpu_target(SM_90))
    options = backend.parse_options({"num_warps": 4})
    on_disk = triton.compiler.compiler.get_cache_key(source, backend, options, env_vars={})
    in_memory = triton.runtime.jit.compute_cache_key({}, [("i32", "D")], {"num_warps": 4})
    return on_disk, in_memory


def test_without_a_request_the_keys_are_tritons_own(gemm_signature: Signature) -> None:
    before = keys_of_stock(gemm_signature)
    with attached():
        assert keys_of_stock(gemm_signature) == before
        with activate(DEEP):
            assert all(
                ours.startswith(own) and ours != own
                for ours, own in zip(keys_of_stock(gemm_signature), before, strict=True)
            )
            with activate(None):
                assert keys_of_stock(gemm_signature) == before


def test_a_stock_kernel_from_before_is_found_while_attached(gemm_signature: Signature) -> None:
    before = compile_kernel(kernels.gemm_descriptors, gemm_signature, None)
    with attached():
        during = compile_kernel(kernels.gemm_descriptors, gemm_signature, None)
    assert during.hash == before.hash


@pytest.mark.parametrize("process_wide", [False, True])
def test_the_request_reaches_the_threads_of_asynchronous_compiles(
    process_wide: bool, pipeline_is: Any, driver: None
) -> None:
    pipeline_is(fakes.untouched)
    kernel = triton.jit(kernels.gemm_pointers.fn)
    tensors = [kernels.half_tensor() for _ in range(3)]
    PROCESS.replace(DEEP if process_wide else None)
    with attached(), ThreadPoolExecutor(2) as pool, triton.AsyncCompileMode(pool):
        if process_wide:
            ours = kernel.warmup(*tensors, 64, BM=64, BN=64, BK=64, grid=(1,))
            with activate(None):
                stock = kernel.warmup(*tensors, 64, BM=64, BN=64, BK=64, grid=(1,))
        else:
            with activate(DEEP):
                ours = kernel.warmup(*tensors, 64, BM=64, BN=64, BK=64, grid=(1,))
            stock = kernel.warmup(*tensors, 64, BM=64, BN=64, BK=64, grid=(1,))
        assert depth(ours.result()) == expected(DEEP)
        assert depth(stock.result()) == "stock"


def test_a_tuning_kept_on_disk_is_keyed_by_the_request() -> None:
    from triton.runtime import autotuner

    plain = autotuner.get_cache_invalidating_env_vars()
    with attached():
        assert autotuner.get_cache_invalidating_env_vars() == plain
        with activate(Request()):
            ours = autotuner.get_cache_invalidating_env_vars()
        with activate(Request(PlanOptions(aref_depth=2))):
            other = autotuner.get_cache_invalidating_env_vars()
    assert len({str(sorted(it.items())) for it in (plain, ours, other)}) == 3
    assert autotuner.get_cache_invalidating_env_vars() == plain
