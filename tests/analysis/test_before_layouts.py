"""Refusals on TTIR: what is declined before Triton lays the kernel out."""

from __future__ import annotations

from tawa.analysis.before_layouts import check_before_layouts
from tawa.ir import Module, Operation, parse_module

TF32, IEEE = 0, 2


def kernel(element: str = "f16", shape: tuple[int, int, int] = (64, 64, 64), precision: int = TF32,
           loop: bool = True, loads: bool = True) -> Module:  # fmt: skip
    """A dot of tiles that a loop loads. shape: rows, columns, depth."""
    m, n, k = shape
    a, b, c = f"tensor<{m}x{k}x{element}>", f"tensor<{k}x{n}x{element}>", f"tensor<{m}x{n}xf32>"
    load = '"tt.descriptor_load"(%{0}_desc, %k, %k) : (!tt.tensordesc<{1}>, i32, i32) -> {1}'
    read = f"%a = {load.format('a', a)}\n%b = {load.format('b', b)}"
    given = f'%a = "ub.poison"() : () -> {a}\n%b = "ub.poison"() : () -> {b}'
    dot = (
        f'%d = "tt.dot"(%a, %b, %c) <{{inputPrecision = {precision} : i32, maxNumImpreciseAcc = 0 : i32}}> : '
        f"({a}, {b}, {c}) -> {c}"
    )
    body = f"{read if loads else given}\n{dot}"
    inside = (
        f'%r = "scf.for"(%k, %k, %k, %c0) ({{\n^bb0(%i: i32, %c: {c}):\n{body}\n"scf.yield"(%d) : ({c}) -> ()\n}}) : '
        f"(i32, i32, i32, {c}) -> {c}"
    )
    flat = body.replace("%c)", "%c0)")
    types = f"!tt.tensordesc<{a}>, !tt.tensordesc<{b}>, i32"
    return parse_module(
        f'"builtin.module"() ({{\n"tt.func"() <{{function_type = ({types}) -> (), sym_name = "kernel"}}> ({{\n'
        f"^bb0(%a_desc: !tt.tensordesc<{a}>, %b_desc: !tt.tensordesc<{b}>, %k: i32):\n"
        f'%c0 = "arith.constant"() <{{value = dense<0.0> : {c}}}> : () -> {c}\n{inside if loop else flat}\n'
        '"tt.return"() : () -> ()\n}) : () -> ()\n}) : () -> ()\n'
    )


def refusals(module: Module, persistent: bool = False) -> list[str]:
    return [it.reason for it in check_before_layouts(module, persistent)]


def only_dot(module: Module) -> Operation:
    return next(op for op in module.walk() if op.name == "tt.dot")


def test_a_dot_of_full_precision_is_declined() -> None:
    first, *rest = check_before_layouts(kernel("f32", precision=IEEE), False)
    assert first.reason == "no tensor core computes this dot: its operands are f32 of full precision (ieee)"
    assert 'input_precision="tf32"' in first.cure and not rest


def test_a_dot_too_small_for_wgmma_is_left_to_the_prediction() -> None:
    assert refusals(kernel(shape=(16, 64, 64))) == refusals(kernel()) == []


def test_without_a_loop_or_a_load_in_it_there_is_nothing_to_do_ahead() -> None:
    assert refusals(kernel(loop=False)) == ["the dot is not in a loop: there is no next tile to load meanwhile"]
    assert refusals(kernel(loads=False)) == ["no operand of a dot is loaded inside a loop"]
    assert refusals(kernel(loop=False), persistent=True) == [], "a loop over tiles will be around it"
