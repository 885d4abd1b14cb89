"""What Triton refuses is told with the innermost message and the user's file and line at every call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import triton.language as tl
from triton.compiler.errors import CompilationError

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.triton.signature import Signature, parse_signature
from tawa.errors import CompileError
from tests.bridge import fakes, faulty_kernels, faulty_library, kernels

pytestmark = pytest.mark.contract

KERNELS, LIBRARY = Path(faulty_kernels.__file__), Path(faulty_library.__file__)


def line_of(file: Path, mark: str) -> int:
    """The number of the line that bears a mark."""
    return next(number for number, text in enumerate(file.read_text().splitlines(), start=1) if mark in text)


def refused(kernel: Any) -> CompileError:
    signature = parse_signature("p=*fp32", {"BLOCK": 64}, kernel.arg_names)
    with pytest.raises(CompileError) as caught:
        compile_kernel(kernel, signature, Request())
    return caught.value


def test_a_mistake_two_calls_deep_is_shown_where_it_is_with_every_call_that_leads_there() -> None:
    error = refused(faulty_kernels.shapes)
    said = error.what.replace("ValueError: ", "")  # Triton 3.9 leaves it out
    assert said.startswith("Triton cannot compile the kernel shapes: in adds: Cannot make_shape_compatible")
    assert said.endswith("incompatible dimensions at index 0: 64 and 128")
    assert str(error.location) == f"{KERNELS}:{line_of(KERNELS, 'shapes: the mistake')}"
    inner, outer = error.calls
    assert inner.startswith(f"{KERNELS}:{line_of(KERNELS, 'shapes: the inner call')}, in helper: return adds(x, BLOCK)")
    assert outer.startswith(f"{KERNELS}:{line_of(KERNELS, 'shapes: the outer call')}, in shapes: tl.store(")
    assert all(call in str(error) for call in error.calls)


def test_a_static_assert_in_another_file_is_shown_there() -> None:
    error = refused(faulty_kernels.asserts)
    assert error.what.endswith("in needs_many: BLOCK must be a multiple of 128")
    assert str(error.location) == f"{LIBRARY}:{line_of(LIBRARY, 'asserts: the mistake')}"
    assert [call.partition(",")[0] for call in error.calls] == [f"{KERNELS}:{line_of(KERNELS, 'asserts: the call')}"]


def test_a_mistake_in_the_kernel_itself_has_a_place_and_no_calls() -> None:
    error = refused(faulty_kernels.unknown_name)
    assert error.what == "Triton cannot compile the kernel unknown_name: NameError: no_such_name is not defined"
    assert str(error.location) == f"{KERNELS}:{line_of(KERNELS, 'unknown_name: the mistake')}"
    assert error.calls == ()


def test_a_tile_for_a_function_without_inlining_is_shown_at_the_call() -> None:
    """Triton's error has the source of the callee, and the call in the caller."""
    error = refused(faulty_kernels.far_call)
    assert "noinline" in error.what
    assert str(error.location) == f"{KERNELS}:{line_of(KERNELS, 'far_call: the mistake')}"


def test_tritons_own_error_is_the_cause() -> None:
    assert isinstance(refused(faulty_kernels.shapes).__cause__, CompilationError)


def test_the_column_is_that_of_an_indented_function() -> None:
    import triton

    @triton.jit
    def indented(p, BLOCK: tl.constexpr):
        tl.store(p, unheard_of)  # noqa: F821

    error = refused(indented)
    assert error.location is not None
    line = Path(__file__).read_text().splitlines()[error.location.line - 1]
    assert line[error.location.column :].startswith("unheard_of")


@pytest.mark.parametrize("problem", [ZeroDivisionError("ours"), KeyboardInterrupt()])
def test_what_does_not_come_out_of_triton_is_never_called_a_refusal(
    problem: BaseException, gemm_signature: Signature, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tawa.bridge.driver import compilation

    def fails(*_: Any, **__: Any) -> None:
        raise problem

    monkeypatch.setattr(compilation.record, "make_record", fails)
    with pytest.raises(type(problem)):
        compile_kernel(kernels.gemm_descriptors, gemm_signature, Request())


def test_an_error_that_triton_raises_in_its_own_code_is_a_refusal(gemm_signature: Signature) -> None:
    signature = Signature({**gemm_signature.types, "K": "i33"}, gemm_signature.constants, gemm_signature.attributes)
    with pytest.raises(CompileError, match="Triton cannot compile the kernel gemm_descriptors: KeyError: 'i33'"):
        compile_kernel(kernels.gemm_descriptors, signature, Request())


def test_a_declined_kernel_that_triton_refuses_says_so_once(gemm_signature: Signature, pipeline_is: Any) -> None:
    pipeline_is(fakes.declines)
    options = {"ptx_options": "--no-such-option"}
    with pytest.raises(CompileError, match=r"Triton cannot compile the kernel gemm_descriptors: PTXASError"):
        compile_kernel(kernels.gemm_descriptors, gemm_signature, Request(), **options)


def test_a_launch_raises_tritons_own_error_with_a_note_of_the_places(driver: None) -> None:
    import tawa

    kernel = tawa.jit(faulty_kernels.asserts)
    with pytest.raises(CompilationError) as caught:
        kernel.warmup(kernels.half_tensor(), BLOCK=64, grid=(1,))
    (note,) = caught.value.__notes__
    assert f"\n  at {LIBRARY}:{line_of(LIBRARY, 'asserts: the mistake')}\n  called at {KERNELS}:" in note


def test_the_autotuner_still_skips_what_fails_a_static_assert(driver: None) -> None:
    import triton
    from triton.compiler.errors import CompileTimeAssertionFailure

    import tawa

    @triton.jit
    def picky(p, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK % 128 == 0)
        tl.store(p + tl.arange(0, BLOCK), 0.0)

    with pytest.raises(CompileTimeAssertionFailure):
        tawa.jit(picky).warmup(kernels.half_tensor(), BLOCK=64, grid=(1,))


def test_a_mistake_that_shows_inside_tritons_library_is_shown_at_the_users_line() -> None:
    error = refused(faulty_kernels.bad_size)
    assert "power of 2" in error.what
    assert str(error.location) == f"{KERNELS}:{line_of(KERNELS, 'bad_size: the mistake')}"
    assert error.calls == ()
