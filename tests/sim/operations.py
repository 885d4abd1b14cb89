"""Small kernels over 64 elements, one per group of operations, and their compile to TTGIR."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.language.extra import libdevice

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.triton.signature import Signature
from tawa.ir import Module, parse_module
from tests.sim.problems import generic_text
from tests.support.back_end import without_ptx


def module_of(kernel: Any, types: dict[str, str], **options: Any) -> Module:
    """The TTGIR of a kernel; types: the types of its parameters in Triton's notation."""
    with without_ptx():
        return parse_module(generic_text(compile_kernel(kernel, Signature(types, {}, {}), None, **options)))


@triton.jit
def special_functions(x, y):
    i = tl.arange(0, 64)
    a = tl.load(x + i)
    p = tl.abs(a) + 1
    tl.store(y + i, tl.exp(a))
    tl.store(y + 64 + i, tl.exp2(a))
    tl.store(y + 128 + i, tl.log(p))
    tl.store(y + 192 + i, tl.log2(p))
    tl.store(y + 256 + i, tl.sin(a))
    tl.store(y + 320 + i, tl.cos(a))
    tl.store(y + 384 + i, tl.sqrt(p))
    tl.store(y + 448 + i, tl.rsqrt(p))
    tl.store(y + 512 + i, tl.erf(a))
    tl.store(y + 576 + i, tl.floor(a))
    tl.store(y + 640 + i, tl.ceil(a))
    tl.store(y + 704 + i, tl.fma(a, a, p))
    tl.store(y + 768 + i, tl.div_rn(a, p))
    tl.store(y + 832 + i, tl.sqrt_rn(p))
    tl.store(y + 896 + i, tl.clamp(a, -0.5, 0.5))
    tl.store(y + 960 + i, tl.maximum(a, p))


@triton.jit
def library_functions(x, y):
    i = tl.arange(0, 64)
    a = tl.load(x + i)
    p = tl.abs(a) + 1
    tl.store(y + i, libdevice.tanh(a))
    tl.store(y + 64 + i, libdevice.pow(p, a))
    tl.store(y + 128 + i, libdevice.rint(a))
    tl.store(y + 192 + i, libdevice.atan2(a, p))
    tl.store(y + 256 + i, libdevice.log1p(p))


@triton.jit
def functions_on_bits(x, y):
    i = tl.arange(0, 64)
    a = tl.load(x + i)
    tl.store(y + i, libdevice.popc(a))
    tl.store(y + 64 + i, libdevice.clz(a))
    tl.store(y + 128 + i, libdevice.ffs(a))
    tl.store(y + 192 + i, libdevice.brev(a))
    tl.store(y + 256 + i, libdevice.popc(tl.load(x)))


@triton.jit
def unknown_library_function(x):
    i = tl.arange(0, 64)
    tl.store(x + i, libdevice.j0(tl.load(x + i)))


@triton.jit
def scans(x, y):
    i = tl.arange(0, 64)
    a = tl.load(x + i)
    tl.store(y + i, tl.cumsum(a))
    tl.store(y + 64 + i, tl.cumprod(a, reverse=True))
    tl.store(y + 128 + i, tl.gather(a, 63 - i, 0))
    left, right = tl.split(tl.reshape(a, (32, 2)))
    tl.store(y + 192 + i, tl.reshape(tl.join(right, left), (64,)))
    tl.store(y + 256 + i, tl.interleave(left, right))
    tl.store(y + 320 + i, tl.cat(left, right, can_reorder=True))
    tl.store(y + 384, tl.sum(a))
    tl.store(y + 385, tl.max(a))
    tl.store(y + 386, tl.argmax(a, 0).to(tl.float32))


@triton.jit
def counts(z, out):
    v = tl.load(z + tl.arange(0, 64))
    tl.store(out + tl.arange(0, 16), tl.histogram(v, 16))
    tl.store(out + 16, tl.xor_sum(v))


@triton.jit
def integer_atomics(z, old):
    i = tl.arange(0, 64)
    v = (i * 37) % 101 - 50
    tl.store(old + i, tl.atomic_add(z + i, v))
    tl.store(old + 64 + i, tl.atomic_max(z + 64 + i, v))
    tl.store(old + 128 + i, tl.atomic_min(z + 128 + i, v))
    tl.store(old + 192 + i, tl.atomic_and(z + 192 + i, v))
    tl.store(old + 256 + i, tl.atomic_or(z + 256 + i, v))
    tl.store(old + 320 + i, tl.atomic_xor(z + 320 + i, v))
    tl.store(old + 384 + i, tl.atomic_xchg(z + 384 + i, v))
    tl.store(old + 448 + i, tl.atomic_cas(z + 448 + i, v, v + 1))


@triton.jit
def unsigned_atomics(z, old):
    i = tl.arange(0, 64)
    v = ((i * 37) % 101 - 50).to(tl.uint32, bitcast=True)
    tl.store(old + i, tl.atomic_max(z + i, v))
    tl.store(old + 64 + i, tl.atomic_min(z + 64 + i, v))
    tl.store(old + 128 + i, tl.umulhi(v, tl.load(z + 128 + i)))


@triton.jit
def float_atomics(x, v):
    i = tl.arange(0, 64)
    tl.atomic_add(x + i, tl.load(v + i))
    tl.atomic_max(x + 64 + i, tl.load(v + 64 + i))
    tl.atomic_min(x + 128 + i, tl.load(v + 128 + i))


@triton.jit
def narrowings(x, half, brain, small):
    i = tl.arange(0, 64)
    a = tl.load(x + i)
    tl.store(half + i, a.to(tl.float16, fp_downcast_rounding="rtz"))
    tl.store(half + 64 + i, a.to(tl.float16))
    tl.store(brain + i, a.to(tl.bfloat16, fp_downcast_rounding="rtz"))
    tl.store(brain + 64 + i, a.to(tl.bfloat16))
    tl.store(small + i, a.to(tl.float8e5, fp_downcast_rounding="rtz"))
    tl.store(small + 64 + i, a.to(tl.float8e5))


@triton.jit
def checked(z):
    v = tl.load(z + tl.arange(0, 64))
    tl.device_print("v", v)
    tl.device_assert(v < 100, "too large")


@triton.jit
def assembly(z):
    i = tl.arange(0, 64)
    v = tl.inline_asm_elementwise("not.b32 $0, $1;", "=r,r", [tl.load(z + i)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(z + i, v)


@triton.jit
def made_descriptors(x, y):
    source = tl.make_tensor_descriptor(x, [40, 64], [64, 1], [32, 64], padding_option="nan")
    target = tl.make_tensor_descriptor(y, [64, 64], [64, 1], [32, 64])
    for k in range(0, 64, 32):
        target.store([k, 0], source.load([k, 0]))


@triton.jit
def given_descriptors(source, target):
    for k in range(0, 64, 32):
        target.store([k, 0], source.load([k, 0]))


@triton.jit
def integer_reductions(target, x):
    tile = tl.load(x + tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :])
    target.atomic_add([0, 0], tile)
    target.atomic_max([32, 0], tile)
    target.atomic_min([64, 0], tile)
    target.atomic_and([96, 0], tile)
    target.atomic_or([128, 0], tile)
    target.atomic_xor([160, 0], tile)


@triton.jit
def float_reduction(target, x):
    tile = tl.load(x + tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :])
    target.atomic_add([8, 0], tile)


@triton.jit
def scaled_dot(a, b, c, a_scale, b_scale):
    m, k, g = tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, 2)
    left = tl.load(a + m[:, None] * 64 + k[None, :])
    right = tl.load(b + k[:, None] * 128 + m[None, :])
    left_scale = tl.load(a_scale + m[:, None] * 2 + g[None, :])
    right_scale = tl.load(b_scale + m[:, None] * 2 + g[None, :])
    product = tl.dot_scaled(left, left_scale, "e4m3", right, right_scale, "e4m3")
    tl.store(c + m[:, None] * 128 + m[None, :], product)
