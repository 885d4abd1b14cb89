"""What depends on the consumer group: values, also through loops, and the control flow that they decide."""

from __future__ import annotations

from tawa.analysis.dims.dependents import dependent_values, divergent_control_flow
from tawa.dialects.inline.markers import GroupIndexOp
from tawa.ir import Block, Module, Operation
from tests.cases.programs.ttgir import binary, for_loop, kernel, op, parse

GROUP = op(
    "tt.elementwise_inline_asm",
    "%two",
    "i32",
    "%g",
    "i32",
    properties='asm_string = "tawa.group", constraints = "=r,r", packed_element = 1 : i32, pure = true',
)
TWO = op("arith.constant", "", "", "%two", "i32", properties="value = 2 : i32")


def is_group(operation: Operation) -> bool:
    return GroupIndexOp.of(operation) is not None


def body(module: Module) -> Block:
    return next(it for it in module.body.ops if it.name == "tt.func").regions[0].block


def add(left: str, right: str, result: str) -> str:
    return binary(result, "addi", left, right)


def test_a_carried_value_depends_on_the_group_if_its_initial_or_yielded_value_does() -> None:
    loop = for_loop(
        "\n".join((add("at", "one", "next"), add("free", "one", "more"))),
        carried={"at": ("g", "next", "i32"), "free": ("n", "more", "i32")},
        results="%end:2",
    )
    found = dependent_values(body(parse(kernel(f"{TWO}\n{GROUP}\n{loop}"))), is_group)
    assert sorted({value.hint for value in found}) == ["at", "end", "g", "next"]


def test_a_loop_diverges_if_a_bound_depends_on_the_group() -> None:
    text = f"{TWO}\n{GROUP}\n{for_loop(add('at', 'one', 'next'), carried={'at': ('n', 'next', 'i32')}, results='%end')}"
    for source, found in ((text, False), (text.replace('"scf.for"(%zero, %n,', '"scf.for"(%zero, %g,'), True)):
        block = body(parse(kernel(source)))
        assert (divergent_control_flow(block, dependent_values(block, is_group)) is not None) == found
