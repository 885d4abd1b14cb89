"""Simulates a case of the kernel list: its levels as modules, its tensors as arrays, its result in float64."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from triton._C.libtriton import ir
from triton.compiler.compiler import make_backend

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.triton.device import gpu_target
from tawa.bridge.triton.generic_print import parse_module as parse_with_triton
from tawa.bridge.triton.generic_print import print_generic
from tawa.bridge.triton.signature import Signature
from tawa.ir import Module, parse_module
from tawa.machine.machines import SM_90
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.sim import to_floats
from tests.cases.arrays import Arrays, make_arrays
from tests.cases.arrays import simulate_case as run
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find
from tests.support.back_end import without_ptx
from tests.support.fronts import front
from tests.support.pipeline import specialise

Level = Literal["ttgir", "aref", "barrier"]


@functools.cache
def ttgir(name: str) -> str:
    """TTGIR of a case before Triton's pipeliner, in generic form."""
    return ttgir_of(find(name))


def ttgir_of(case: Specimen) -> str:
    """The same of a case that need not be in the list."""
    names = case.kernel.arg_names
    constants = {(names.index(it),): value for it, value in case.constants().items()}
    signature = Signature(case.signature(), constants, case.attributes())
    return front(case.kernel, signature, **case.options()).structured_text()


def generic_text(compiled: Any) -> str:
    """The TTGIR of a compiled kernel in generic form."""
    context = ir.context()
    ir.load_dialects(context)
    make_backend(gpu_target(SM_90)).load_dialects(context)
    return print_generic(parse_with_triton(compiled.asm["ttgir"], context))


@functools.cache
def stock_text(name: str) -> str:
    """TTGIR of a case from stock Triton, including its software pipeline, in generic form."""
    case = find(name)
    names = case.kernel.arg_names
    constants = {(names.index(it),): value for it, value in case.constants().items()}
    signature = Signature(case.signature(), constants, case.attributes())
    with without_ptx():
        compiled = compile_kernel(case.kernel, signature, None, num_warps=case.num_warps, num_stages=case.num_stages)
    return generic_text(compiled)


@functools.cache
def level_text(name: str, level: Level, depth: int = 2, mma_depth: int = 1) -> str:
    """One level of a case in generic form."""
    case, text = find(name), ttgir(name)
    if level == "ttgir":
        return text
    options = PlanOptions(aref_depth=depth, mma_depth=mma_depth)
    outcome = specialise(text, options, Target(case.num_warps, case.num_stages))
    assert outcome.applied, outcome.remarks
    return outcome.aref if level == "aref" else outcome.barrier


def level_module(name: str, level: Level, depth: int = 2, mma_depth: int = 1) -> Module:
    """A fresh module of one level, which tests may mutate."""
    return parse_module(level_text(name, level, depth, mma_depth))


def output(case: Specimen, module: Module, order: Any = "eager", seed: int = 0) -> Any:
    """The bits of ``c`` after one launch on fresh tensors."""
    arrays = make_arrays(case)
    run(case, module, arrays, order, seed)
    c = arrays["c"]
    return c.view(f"u{c.itemsize}")


def exact(case: Specimen, arrays: Arrays) -> Any:
    """``c`` in float64."""
    floats = {
        name: to_floats(array, case.tensors[name].dtype).astype(np.float64)
        for name, array in arrays.items()
        if case.tensors[name].dtype != "i32"
    }
    k = case.size("K")
    a = floats["a"].T if case.tensors["a"].shape[0] == "K" else floats["a"]
    b = floats["b"].T if case.tensors["b"].shape[0] == "N" else floats["b"]
    if case.tensors["a"].dtype == "fp32":
        a, b = (it.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000) for it in (a, b))
        a, b = (it.view(np.float32).astype(np.float64) for it in (a, b))
    return _AFTER[case.reference](case, floats, a[..., :k], b[:k])


def _silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def _epilogue(case: Specimen, t: Arrays, a: Any, b: Any) -> Any:
    c, parts = a @ b, case.constexprs
    c = c * (float(np.float32(0.37)) if parts["SCALE"] == "scalar" else 1.0)
    c = c * t["scale"][:, None] if parts["SCALE"] == "rows" else c
    c = c + t["bias"] if parts["BIAS"] else c
    match parts["ACT"]:
        case "relu":
            c = np.maximum(c, 0)
        case "silu":
            c = _silu(c)
        case "gelu":
            with np.errstate(over="ignore"):
                c = c / (1 + np.exp(-2 * 0.7978845608028654 * (c + 0.044715 * c**3)))
        case _:
            pass
    return c + t["residual"] if parts["RESIDUAL"] else c


def _triangular(case: Specimen, t: Arrays, a: Any, b: Any) -> Any:
    first = np.arange(a.shape[0]) // case.size("BM") * case.size("BM")
    return np.where(np.arange(a.shape[1])[None, :] < first[:, None], a, 0) @ b


def _split_k(case: Specimen, t: Arrays, a: Any, b: Any) -> Any:
    part = np.arange(a.shape[1]) // case.size("BK") % case.size("SPLIT")
    return np.stack([np.where(part == number, a, 0) @ b for number in range(case.size("SPLIT"))])


def _invariant(case: Specimen, t: Arrays, a: Any, b: Any) -> Any:
    return a @ b / np.sqrt((t["x"] ** 2).mean(axis=1))[:, None] * t["gain"]


_AFTER: dict[str, Callable[[Specimen, Arrays, Any, Any], Any]] = {
    "gemm": lambda case, t, a, b: a @ b,
    "two_loops": lambda case, t, a, b: a @ b + t["a2"][:, : case.size("K2")] @ t["b2"][: case.size("K2")],
    "gate_up": lambda case, t, a, b: _silu(a @ b) * (a @ t["u"][: case.size("K")]),
    "if_accumulate": lambda case, t, a, b: t["c0"] + (0 if case.size("SKIP") else a @ b),
    "initial_bias": lambda case, t, a, b: t["bias"] + a @ b,
    "bias_relu": lambda case, t, a, b: np.maximum(a @ b + t["bias"], 0),
    "epilogue": _epilogue,
    "triangular": _triangular,
    "split_k": _split_k,
    "invariant": _invariant,
}
