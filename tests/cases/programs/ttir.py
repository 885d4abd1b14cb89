"""The smallest TTIR programs: one dot between a load and a store, and operations that a test adds.

    %a = descriptor_load %a_desc, %row, 0       rows x 64
    %b = descriptor_load %b_desc, 0, 0          64 x 128
    %s = dot %a, %b, %zeros                     rows x 128
    …
    descriptor_store %c_desc, %s, %row, 0

Arguments: %a_desc, %b_desc, %c_desc (TMA descriptors), %out (pointer to f32), %n (i32), %flag (i1), %row (i32).
Constants: %zero (i32), %zeros (rows x 128, f32). Line 3 of kernel.py is the load of A, 4 that of B, 5 the dot.
"""

from __future__ import annotations

from tests.cases.programs.ttgir import op

PLAIN = "boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32"
LOAD = f"{PLAIN}, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>"


def constant(result: str, value: str, type: str) -> str:
    """A constant; the type of a dense one is added."""
    text = f"{value} : {type}" if value.startswith("dense") else value
    return op("arith.constant", "", "", f"%{result}", type, properties=f"value = {text}")


def load(result: str, desc: str, box: str, at: str, line: int = 0) -> str:
    """A load of one box."""
    properties = "cache = 1 : i32, evict = 1 : i32"
    types = f"!tt.tensordesc<tensor<{box}>>, i32, i32"
    return op(
        "tt.descriptor_load", f"%{desc}, {at}", types, f"%{result}", f"tensor<{box}>", line=line, properties=properties
    )


def dot(result: str, a: str, b: str, c: str, m: int, k: int, n: int, line: int = 0) -> str:
    """``result = a · b + c`` in f16 and f32."""
    types = f"tensor<{m}x{k}xf16>, tensor<{k}x{n}xf16>, tensor<{m}x{n}xf32>"
    properties = "inputPrecision = 0 : i32, maxNumImpreciseAcc = 0 : i32"
    operands = f"%{a}, %{b}, %{c}"
    return op("tt.dot", operands, types, f"%{result}", f"tensor<{m}x{n}xf32>", line=line, properties=properties)


def store(value: str = "s", rows: int = 128, desc: str = "c_desc", at: str = "%row, %zero", line: int = 0) -> str:
    """A store of one box of rows x 128."""
    tile = f"tensor<{rows}x128xf32>"
    return op("tt.descriptor_store", f"%{desc}, %{value}, {at}", f"!tt.tensordesc<{tile}>, {tile}, i32, i32", line=line)


def fold(combine: str, name: str = "tt.reduce", element: str = "f32", line: int = 7) -> str:
    """``%f``: the rows of a tile of 128 x 64, folded by `combine`, which computes %p from %l and %r."""
    tile = f"tensor<128x64x{element}>"
    result = tile if name == "tt.scan" else f"tensor<128x{element}>"
    zero = "0.000000e+00" if element.startswith("f") else "0"
    body = f'^bb0(%l: {element}, %r: {element}):\n{combine}\n"{name}.return"(%p) : ({element}) -> ()'
    properties = "axis = 1 : i32" + (", reverse = false" if name == "tt.scan" else "")
    return (
        f"{constant('folded', f'dense<{zero}>', tile)}\n"
        f'%f = "{name}"(%folded) <{{{properties}}}> ({{\n{body}\n}}) : ({tile}) -> {result} loc("kernel.py":{line}:0)'
    )


def on_registers(text: str, line: int = 6) -> str:
    """``%m``: inline assembly on %n that claims to be pure."""
    properties = f'asm_string = "{text}", constraints = "=r,r", packed_element = 1 : i32, pure = true'
    return op("tt.elementwise_inline_asm", "%n", "i32", "%m", "i32", line=line, properties=properties)


def kernel(middle: str = "", end: str | None = None, rows: int = 128, inner: int = 64) -> str:
    """The program, with `middle` after the dot and `end` in place of the store."""
    types = {
        "a_desc": f"!tt.tensordesc<tensor<{rows}x{inner}xf16>>",
        "b_desc": f"!tt.tensordesc<tensor<{inner}x128xf16>>",
        "c_desc": f"!tt.tensordesc<tensor<{rows}x128xf32>>",
        "out": "!tt.ptr<f32>",
        "n": "i32",
        "flag": "i1",
        "row": "i32",
    }
    lines = (
        constant("zero", "0 : i32", "i32"),
        constant("zeros", "dense<0.000000e+00>", f"tensor<{rows}x128xf32>"),
        load("a", "a_desc", f"{rows}x{inner}xf16", "%row, %zero", 3),
        load("b", "b_desc", f"{inner}x128xf16", "%zero, %zero", 4),
        dot("s", "a", "b", "zeros", rows, inner, 128, 5),
        middle,
        store(rows=rows, line=9) if end is None else end,
        op("tt.return", "", ""),
    )
    body = "\n".join(lines)
    arguments = ", ".join(f"%{name}: {type}" for name, type in types.items())
    function = f'function_type = ({", ".join(types.values())}) -> (), sym_name = "kernel", sym_visibility = "public"'
    return (
        f'"builtin.module"() ({{\n"tt.func"() <{{{function}}}> ({{\n^bb0({arguments}):\n{body}\n}}) : () -> ()\n}})'
        ' : () -> () loc("kernel.py":1:0)\n'
    )
