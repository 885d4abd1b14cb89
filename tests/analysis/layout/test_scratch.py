"""The scratch memory of conversions and reductions, against Triton's own allocation."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("triton")

from tawa.analysis.layout.scratch import conversion_bytes, reduction_bytes
from tawa.analysis.loops.costs import stays_in_registers
from tawa.bridge.driver.stock_overflow import _allocated
from tawa.bridge.triton.generic_print import parse_module as parse_with_triton
from tawa.bridge.triton.generic_print import print_generic
from tawa.bridge.triton.structured import new_context
from tawa.ir import parse_module

CAPABILITY = 90
SHAPES = [(rows, columns) for rows in (64, 128) for columns in (64, 128, 256)]
ELEMENTS = ("f16", "bf16", "f32", "f8E4M3FN", "i8")


def accumulator(warps: int, columns: int) -> str:
    return (
        "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, "
        f"warpsPerCTA = [{warps}, 1], instrShape = [16, {min(columns, 256)}, 16]}}>"
    )


def rows(warps: int, columns: int, bits: int, order: tuple[int, int] = (1, 0)) -> str:
    """The layout of a load or store of rows, or of columns: 16 bytes to a thread."""
    vector = 128 // bits
    lanes = min(32, max(1, columns // vector))
    per_thread, threads = [1, vector], [32 // lanes, lanes]
    sides = [list(reversed(it)) if order == (0, 1) else it for it in (per_thread, threads, [warps, 1])]
    return (
        f"#ttg.blocked<{{sizePerThread = {sides[0]}, threadsPerWarp = {sides[1]}, "
        f"warpsPerCTA = {sides[2]}, order = {list(order)}}}>"
    )


def program(source: str, body: str, shape: tuple[int, int], element: str, warps: int) -> str:
    return (
        f'#a = {source}\nmodule attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32, '
        'ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {\n'
        f"  tt.func public @f(%x: tensor<{shape[0]}x{shape[1]}x{element}, #a>) {{\n{body}\n    tt.return\n  }}\n}}"
    )


def used(value: str, type: str) -> str:
    """An operation that keeps a value alive."""
    text = '{constraints = "=r,r", packed_element = 1 : i32, pure = false}'
    return f'    %z = tt.elementwise_inline_asm "" {text} {value} : {type} -> {type}'


def compared(text: str, name: str) -> tuple[int, int]:
    """Bytes by Triton, and by Tawa, of the operation called so."""
    context = new_context()
    allocated = _allocated(text, context, CAPABILITY)
    assert allocated is not None
    module = parse_module(print_generic(parse_with_triton(text, context)))
    op = next(op for op in module.walk() if op.name == name)
    if name == "tt.reduce":
        return allocated, reduction_bytes(op)
    return allocated, 0 if stays_in_registers(op) else conversion_bytes(op)


def converted(source: str, target: str, shape: tuple[int, int], element: str, warps: int) -> tuple[int, int]:
    of = f"tensor<{shape[0]}x{shape[1]}x{element}, "
    body = f"    %y = ttg.convert_layout %x : {of}#a> -> {of}{target}>\n{used('%y', f'{of}{target}>')}"
    return compared(program(source, body, shape, element, warps), "ttg.convert_layout")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("element", ["f16", "bf16", "f32"])
def test_what_is_stored_or_added_goes_through_as_much_as_triton_allocates(shape: tuple[int, int], element: str) -> None:
    """An accumulator of four warps that becomes rows, and rows that become an accumulator."""
    layouts = accumulator(4, shape[1]), rows(4, shape[1], 32 if element == "f32" else 16)
    for source, target in (layouts, layouts[::-1]):
        allocated, estimated = converted(source, target, shape, element, 4)
        assert estimated == allocated


def test_a_conversion_never_takes_more() -> None:
    choice = random.Random(0)
    for _ in range(60):
        shape, element, warps = choice.choice(SHAPES), choice.choice(ELEMENTS), choice.choice((4, 8))
        layouts = [accumulator(warps, shape[1])]
        for order in ((1, 0), (0, 1)):
            layouts += [rows(warps, shape[order[0]], bits, order) for bits in (8, 16, 32, 64)]
        source, target = choice.sample(layouts, 2)
        allocated, estimated = converted(source, target, shape, element, warps)
        assert allocated <= estimated <= shape[0] * shape[1] * (4 if element == "f32" else 2)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("warps", [4, 8])
def test_a_reduction_takes_at_most_an_element_for_each_warp_along_its_axis(axis: int, warps: int) -> None:
    """All of that on Triton 3.6; newer releases take less."""
    source, result = accumulator(warps, 64), "tensor<128xf32" if axis else "tensor<64xf32"
    type = f"{result}, #ttg.slice<{{dim = {axis}, parent = #a}}>>"
    body = (
        f'    %y = "tt.reduce"(%x) <{{axis = {axis} : i32}}> ({{\n    ^bb0(%a: f32, %b: f32):\n'
        "      %s = arith.addf %a, %b : f32\n      tt.reduce.return %s : f32\n"
        f"    }}) : (tensor<128x64xf32, #a>) -> {type}\n{used('%y', type)}"
    )
    allocated, estimated = compared(program(source, body, (128, 64), "f32", warps), "tt.reduce")
    assert allocated <= estimated == (0 if axis else 64 * 4 * warps)
