"""Printing in generic form and parsing back lose nothing."""

from __future__ import annotations

from typing import Any

import pytest
from triton._C.libtriton import ir
from triton.backends.nvidia.compiler import CUDABackend

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.triton.device import gpu_target
from tawa.bridge.triton.generic_print import parse_module, print_generic
from tawa.bridge.triton.signature import Signature
from tawa.machine.machines import SM_90
from tests.bridge import kernels

pytestmark = pytest.mark.contract


@pytest.fixture
def ttgir(gemm_signature: Signature) -> Any:
    compiled = compile_kernel(kernels.gemm_descriptors, gemm_signature, None)
    context = ir.context()
    ir.load_dialects(context)
    CUDABackend(gpu_target(SM_90)).load_dialects(context)
    return parse_module(compiled.asm["ttgir"], context)


def test_every_operation_is_in_generic_form_and_has_its_location(ttgir: Any) -> None:
    text = print_generic(ttgir)
    assert '"tt.func"() <{' in text
    assert "kernels.py" in text
    assert "tt.func public" not in text


def test_printing_leaves_the_module_as_it_was(ttgir: Any) -> None:
    before = str(ttgir)
    print_generic(ttgir)
    assert str(ttgir) == before
    assert ttgir.get_int_attr("ttg.num-warps") == 4


def test_the_printed_number_of_warps_is_the_real_one(ttgir: Any) -> None:
    text = print_generic(ttgir)
    assert '"ttg.num-warps" = 4 : i32' in text
    assert '"tawa"' not in text


def test_parsing_the_generic_form_gives_the_same_module(ttgir: Any) -> None:
    again = parse_module(print_generic(ttgir), ttgir.context)
    assert str(again) == str(ttgir)
    assert again.context is ttgir.context


def test_a_module_without_warps_is_refused(ttgir: Any) -> None:
    ttir = parse_module("module {}", ttgir.context)
    with pytest.raises(RuntimeError, match="not TTGIR"):
        print_generic(ttir)


def test_text_that_is_no_module_is_refused(ttgir: Any) -> None:
    with pytest.raises(RuntimeError):
        parse_module('"tt.nonsense"(', ttgir.context)


@pytest.mark.parametrize("kernel", [kernels.store_number, kernels.do_nothing])
def test_a_program_without_tensors_is_printed_in_generic_form_and_stays_as_it_was(kernel: Any) -> None:
    compiled = compile_kernel(kernel, Signature({"out": "*i32", "n": "i32"}, {}, {}), None)
    context = ir.context()
    ir.load_dialects(context)
    CUDABackend(gpu_target(SM_90)).load_dialects(context)
    module = parse_module(compiled.asm["ttgir"], context)
    before = str(module)
    text = print_generic(module)
    assert '"tt.func"() <{' in text and '"ttg.num-warps" = 4 : i32' in text and "spoilt" not in text
    assert str(module) == before
