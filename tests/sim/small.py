"""Kernels in generic form with the parameters x (pointer to f32) and n, which work on a row of 64 elements."""

from __future__ import annotations

import numpy as np

from tawa.ir import Module, parse_module
from tawa.sim import simulate
from tests.cases.programs.ttgir import op

ROW = "tensor<64xf32, #blocked>"
BUFFER = "!ttg.memdesc<64xf32, #shared, #smem, mutable>"
POINTERS = "tensor<64x!tt.ptr<f32>, #blocked>"
STORE = op("tt.store", "%at, %result", f"{POINTERS}, {ROW}")
LOAD = op("tt.load", "%at", POINTERS, "%v", ROW, properties="operandSegmentSizes = array<i32: 1, 0, 0>")


def kernel(*lines: str) -> Module:
    """A kernel with the parameters x (pointer to f32) and n (i32)."""
    body = "\n".join((*lines, '"tt.return"() : () -> ()'))
    return parse_module(
        '"builtin.module"() ({\n"tt.func"() <{function_type = (!tt.ptr<f32>, i32) -> (), sym_name = "kernel"}> ({\n'
        f'^bb0(%x: !tt.ptr<f32>, %n: i32):\n{body}\n}}) : () -> () loc("kernel.py":1:0)\n}}) : () -> ()\n'
    )


def row(name: str = "at") -> tuple[str, ...]:
    """Pointers to x[0:64]."""
    return (
        op("tt.make_range", "", "", "%range", "tensor<64xi32, #blocked>", properties="end = 64 : i32, start = 0 : i32"),
        op("tt.splat", "%x", "!tt.ptr<f32>", "%base", POINTERS),
        op("tt.addptr", "%base, %range", f"{POINTERS}, tensor<64xi32, #blocked>", f"%{name}", POINTERS),
    )


def run(module: Module, x: np.ndarray | None = None, n: int = 0) -> np.ndarray:
    """Simulates one program and returns x, by default 64 zeros before the run."""
    x = np.zeros(64, np.float32) if x is None else x
    simulate(module, {"x": x, "n": n}, (1,))
    return x
