"""What `tawa.jit` stands over, and what stands over it: whatever cannot be is refused with the cure."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl

import tawa
from tests.bridge import kernels

pytestmark = pytest.mark.contract


class Callable_:
    def __call__(self, x: Any) -> None:
        pass


def typed_at_the_prompt() -> Any:
    scope: dict[str, Any] = {}
    exec(compile("def kernel(x):\n    pass\n", "<stdin>", "exec"), scope)
    return scope["kernel"]


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "lambda": (lambda: lambda x: x, r"not a lambda \(.*test_decorated.py:\d+\)(.|\n)*cure: def kernel"),
    "class": (lambda: Callable_, "not the class Callable_; cure: put it over a function"),
    "object": (lambda: Callable_(), r"takes a kernel, not .*\(Callable_\); cure"),
    "partial": (lambda: functools.partial(print, 1), r"\(partial\); cure: put it over a function"),
    "builtin": (lambda: len, r"built-in function len(.|\n)*cure"),
    "text": (lambda: "gemm", "takes a kernel, not 'gemm'"),
    "no source": (typed_at_the_prompt, r"kernel has no source: <stdin> is no file(.|\n)*cure: write the kernel to a"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_kernel_is_refused_with_the_cure(what: str) -> None:
    make, message = REFUSED[what]
    with pytest.raises(tawa.KernelError, match=message):
        tawa.jit(make())


def test_a_lambda_that_went_through_triton_is_refused_too(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text("def around(): return lambda x: x\n")  # Triton takes the source of the function around it
    scope: dict[str, Any] = {"__name__": "kernels"}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    jitted = triton.jit(scope["around"]())
    with pytest.raises(tawa.KernelError, match="not a lambda"):
        tawa.jit(jitted)


@pytest.mark.parametrize("inner", [lambda f: tawa.jit(triton.jit(f)), tawa.jit], ids=["over both", "over tawa.jit"])
def test_triton_jit_over_tawa_jit_is_refused_with_the_right_order(inner: Any) -> None:
    def kernel(x_ptr, BLOCK: tl.constexpr):
        tl.store(x_ptr + tl.arange(0, BLOCK), 0.0)

    with pytest.raises(tawa.KernelError, match=r"kernel: triton.jit stands over tawa.jit(.|\n)*cure: @tawa.jit over @"):
        triton.jit(inner(kernel))


def test_others_find_no_wrapped_function_in_a_kernel_under_tawa_jit() -> None:
    kernel = tawa.jit(kernels.gemm_pointers)
    assert not hasattr(kernel, "__wrapped__")
    assert inspect.unwrap(kernel) is kernel
    assert inspect.signature(kernel) == inspect.signature(kernels.gemm_pointers)
    assert triton.autotune(configs=[triton.Config({})], key=[])(kernel).fn is kernel
