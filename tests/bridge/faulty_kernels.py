"""Kernels with a mistake of the user's, some of them two calls deep; each line with one is marked."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.bridge import faulty_library


@triton.jit
def adds(x, BLOCK: tl.constexpr):
    wide = tl.zeros((BLOCK * 2,), tl.float32)
    return x + wide  # shapes: the mistake


@triton.jit
def helper(x, BLOCK: tl.constexpr):
    return adds(x, BLOCK)  # shapes: the inner call


@triton.jit
def shapes(p, BLOCK: tl.constexpr):
    x = tl.load(p + tl.arange(0, BLOCK))
    tl.store(p + tl.arange(0, BLOCK), helper(x, BLOCK))  # shapes: the outer call


@triton.jit
def asserts(p, BLOCK: tl.constexpr):
    faulty_library.needs_many(BLOCK)  # asserts: the call
    tl.store(p + tl.arange(0, BLOCK), 0.0)


@triton.jit
def unknown_name(p, BLOCK: tl.constexpr):
    tl.store(p + tl.arange(0, BLOCK), no_such_name)  # noqa: F821  unknown_name: the mistake


@triton.jit
def bad_size(p, BLOCK: tl.constexpr):
    x = tl.zeros((BLOCK + 1,), tl.float32)  # bad_size: the mistake
    tl.store(p + tl.arange(0, BLOCK), x)


@triton.jit
def assembly(p):
    """LLVM ends the process: there is no operand 7."""
    value = tl.inline_asm_elementwise("mov.b32 $0, $7;", "=r,r", [tl.load(p)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(p, value)


@triton.jit(noinline=True)
def apart(x):
    return x + 1


@triton.jit
def far_call(p, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(p + offsets)
    x = x * 2
    x = apart(x)  # far_call: the mistake
    tl.store(p + offsets, x)
