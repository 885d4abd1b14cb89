"""Operations of kernels in emitted Gluon modules: the same bits in the simulator as the kernel they came from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.language.extra import libdevice

pytest.importorskip("triton.experimental.gluon")

import tawa
from tawa.bridge.gluon.emit import compile_emitted, emit_gluon
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.read_module import read_final
from tawa.bridge.triton.versions import triton_version
from tawa.emit.operations.functions import LIBDEVICE
from tawa.errors import EmitError
from tawa.runtime.explain.explaining import compile_with_options
from tests.support.sample import sample

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("without_ptx")]

SIZE = 64


@triton.jit
def larger(a, i, b, j):
    return tl.maximum(a, b), tl.where(a > b, i, tl.where(b > a, j, tl.minimum(i, j)))


@triton.jit
def both(a, b):
    return a * b + a + b


@triton.jit
def gemm(a_desc, b_desc, c_desc, c_ptr, n_ptr, K, KIND: tl.constexpr, B: tl.constexpr):
    acc = tl.zeros((B, B), dtype=tl.float32)
    for k in range(0, K, B):
        acc = tl.dot(a_desc.load([0, k]), b_desc.load([k, 0]), acc)
    rows, columns = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    at = rows * B + columns
    whole = (acc * 4).to(tl.int32)
    if KIND == "scan":
        acc = tl.associative_scan(acc, 1, both, reverse=True)
    elif KIND == "argmax":
        best, index = tl.reduce((acc, columns + tl.zeros((B, B), tl.int32)), 1, larger)
        acc += (best * index)[:, None]
    elif KIND == "max with nan":
        acc += tl.max(acc, 1)[:, None] + tl.min(acc, 0)[None, :]
    elif KIND == "atomics":
        tl.atomic_add(n_ptr + at, whole, mask=whole > 0, sem="relaxed")
        tl.atomic_max(n_ptr + at, whole, sem="relaxed", scope="cta")
        tl.atomic_xor(n_ptr + at, 5 + tl.zeros((B, B), tl.int32), sem="release")
        acc += tl.atomic_xchg(n_ptr + at, whole).to(tl.float32)
    elif KIND == "unsigned atomics":
        unsigned = n_ptr.to(tl.pointer_type(tl.uint32), bitcast=True)
        acc += tl.atomic_min(unsigned + at, whole.to(tl.uint32)).to(tl.float32)
    elif KIND == "compare and swap":
        acc += tl.atomic_cas(n_ptr + at, tl.zeros((B, B), tl.int32), whole).to(tl.float32)
    elif KIND == "library":
        acc = libdevice.tanh(acc) + libdevice.pow(tl.abs(acc), acc * 0.125)
    elif KIND == "unsigned":
        acc += (tl.maximum(whole.to(tl.uint32), 7) % 1000).to(tl.float32) + tl.clamp(acc, -2.0, 2.0)
    elif KIND == "gather":
        acc += tl.gather(acc, (columns + rows) % B, 1)
    elif KIND == "histogram":
        tl.atomic_add(n_ptr + tl.arange(0, 16), tl.histogram(tl.max(whole, 1) & 15, 16))
    elif KIND == "assembly with two results":
        first, second = tl.inline_asm_elementwise(
            "mov.b32 $0, $2; mov.b32 $1, $3;", "=r,=r,r,r", [acc, whole], (tl.float32, tl.int32), True, 1
        )
        acc = first + second
    elif KIND == "assertion":
        tl.device_assert(acc < 1000.0, "a large sum")
    elif KIND == "print":
        tl.device_print("sum ", tl.sum(tl.sum(whole, 1), 0), hex=True)
    if KIND == "TMA reduction":
        c_desc.atomic_add([0, 0], acc)
    else:
        tl.store(c_ptr + at, acc)


KINDS = (
    "scan", "argmax", "max with nan", "atomics", "unsigned atomics", "compare and swap", "library", "unsigned",
    "gather", "histogram", "assembly with two results", "assertion", "print",
)  # fmt: skip
TYPES = {
    "a_desc": f"tensordesc<fp16[{SIZE},{SIZE}]>", "b_desc": f"tensordesc<fp16[{SIZE},{SIZE}]>",
    "c_desc": f"tensordesc<fp32[{SIZE},{SIZE}]>", "c_ptr": "*fp32:16", "n_ptr": "*i32:16", "K": "i32",
}  # fmt: skip


def compiled(kind: str) -> Any:
    signature = ", ".join(f"{name}={type}" for name, type in TYPES.items())
    with launched_by_us(function=gemm):
        options = {"only_if_faster": False, "debug": kind == "assertion"}
        return compile_with_options(gemm, signature, {"KIND": kind, "B": SIZE}, **options)


def simulated(module: Any) -> dict[str, Any]:
    lot = np.random.default_rng(1)
    a, b = (lot.standard_normal((SIZE, SIZE)).astype(np.float16) for _ in "ab")
    c, n = np.zeros((SIZE, SIZE), np.float32), lot.integers(-50, 50, (SIZE, SIZE)).astype(np.int32)
    tawa.simulate(module, {"a_desc": a, "b_desc": b, "c_desc": c, "c_ptr": c, "n_ptr": n, "K": SIZE})
    return {"c": c, "n": n}


@pytest.mark.parametrize("kind", sample(KINDS, 4))
def test_an_operation_has_the_same_bits_in_gluon(kind: str) -> None:
    made = compiled(kind)
    module = emit_gluon(made)
    wanted, found = simulated(read_final(made)), simulated(read_final(compile_emitted(module)))
    assert all(found[name].tobytes() == wanted[name].tobytes() for name in wanted)
    assert np.isfinite(wanted["c"]).any()


def test_assertions_stay_in_a_kernel_that_was_compiled_with_them() -> None:
    module = emit_gluon(compiled("assertion"))
    assert "gl.device_assert(" in module.text and "debug=True" in module.text


def test_tma_reductions_need_triton_3_8() -> None:
    made = compiled("TMA reduction")
    if triton_version()[:2] < (3, 8):
        with pytest.raises(EmitError, match=r"TMA reductions are in Gluon from Triton 3\.8 on"):
            emit_gluon(made)
        return
    module = emit_gluon(made)
    assert "tma.async_atomic_add(c_desc, [0, 0]" in module.text


@pytest.mark.parametrize("name", sorted(LIBDEVICE))
def test_a_function_of_the_library_has_the_name_of_its_symbol(name: str) -> None:
    import inspect

    from triton.language.extra.cuda import libdevice as functions

    text = inspect.getsource(getattr(functions, name))
    assert f'"__nv_{name}"' in text or f'"__nv_{name}f"' in text
