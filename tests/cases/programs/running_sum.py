"""TTIR programs with a loop that carries the sums of rows of a dot's result, as the softmax of attention does."""

from __future__ import annotations

from tests.cases.programs.ttgir import op
from tests.cases.programs.ttir import constant, kernel

ROW, TILE = "tensor<128xf32>", "tensor<128x128xf32>"


def add(result: str, a: str, b: str, name: str = "arith.addf") -> str:
    """A sum of two rows, or another operation on them."""
    return op(name, f"%{a}, %{b}", f"{ROW}, {ROW}", f"%{result}", ROW, properties="fastmath = #arith.fastmath<none>")


def total(result: str, tile: str = "p", combine: str = "arith.addf", line: int = 7) -> str:
    """The sums (or another fold) of the rows of a tile."""
    inside = op(combine, "%x, %y", "f32, f32", "%z", "f32", properties="fastmath = #arith.fastmath<none>")
    body = f'^bb0(%x: f32, %y: f32):\n{inside}\n"tt.reduce.return"(%z) : (f32) -> ()'
    return (
        f'%{result} = "tt.reduce"(%{tile}) <{{axis = 1 : i32}}> ({{\n{body}\n}}) : ({TILE}) -> {ROW} '
        f'loc("kernel.py":{line}:0)'
    )


USUAL = (total("r"), add("m", "l", "alpha", "arith.mulf"), add("next", "m", "r"))
"""A step of softmax: the sum so far, times a factor, plus the sums of this iteration."""


def loop(*lines: str, init: str = "none", result: str = "sum") -> str:
    """A loop that carries %l; `lines` compute %next."""
    body = "\n".join((f"^bb0(%i: i32, %l: {ROW}):", *lines, op("scf.yield", "%next", ROW)))
    types = f"i32, i32, i32, {ROW}"
    return f'%{result} = "scf.for"(%zero, %n, %one, %{init}) ({{\n{body}\n}}) : ({types}) -> {ROW} loc("kernel.py":6:0)'


def program(*loops: str, after: str = "sum") -> str:
    """The smallest kernel with loops behind its dot; the last sum is multiplied into the stored tile."""
    types = "tensor<128x1xf32>"
    return kernel(
        "\n".join(
            (
                constant("one", "1 : i32", "i32"),
                constant("none", "dense<0.000000e+00>", ROW),
                constant("alpha", "dense<0.500000e+00>", ROW),
                op("math.exp2", "%s", TILE, "%p", TILE, properties="fastmath = #arith.fastmath<none>"),
                *loops,
                op("tt.expand_dims", f"%{after}", ROW, "%column", types, properties="axis = 1 : i32"),
                op("tt.broadcast", "%column", types, "%spread", TILE),
            )
        )
    )
