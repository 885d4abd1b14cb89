"""`difference`: programs that differ in layouts only are equal, and any other change is told."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import pytest

from tawa.bridge.triton.generic_print import parse_module as parse_with_triton
from tawa.bridge.triton.generic_print import print_generic
from tawa.dialects.scf import ForOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Builder, Module, Operation, copy_module, parse_module
from tawa.transforms.pipelining.hoist_conversions import HoistConversions
from tawa.verify.layouts import difference
from tests.cases.small.row_kernels import decayed, multiplied
from tests.matrix.test_unpartitioned import launch
from tests.support.fronts import front


@cache
def _stock(kernel: object, num_warps: int) -> Module:
    """Stock Triton's program."""
    given = launch(kernel)
    made = front(given.kernel, given.signature(), num_warps=num_warps)
    mod = parse_with_triton(made.ttir, made.context)
    for part in (made.stages.front, made.stages.middle, made.stages.back):
        mod = part(mod, {}, made.options, 90)
    return parse_module(print_generic(mod))


def hoisted(num_warps: int = 1) -> tuple[Module, Module]:
    before = copy_module(_stock(decayed, num_warps))
    after = copy_module(before)
    assert HoistConversions().run(after).changed
    return before, after


def body(module: Module) -> list[Operation]:
    """The operations of the last loop."""
    return [loop for op in module.walk() if (loop := ForOp.of(op))][-1].body.ops


@pytest.mark.parametrize("num_warps", [1, 2, 4])
def test_a_program_whose_conversions_left_the_loops_is_the_same(num_warps: int) -> None:
    assert difference(*hoisted(num_warps)) == ""


def test_every_operand_that_becomes_another_value_is_told() -> None:
    count = len([op for op in body(hoisted()[1]) if op.operands])
    told = 0
    for at in range(count):
        before, after = hoisted()
        ops = [op for op in body(after) if op.operands]
        op = ops[at]
        kinds = [other.results[0] for other in ops[:at] if len(other.results) == 1 and not ConvertLayoutOp.matches(op)]
        for index, operand in enumerate(op.operands):
            others = [it for it in kinds if it.type == operand.type and it is not operand]
            if others:
                op.set_operand(index, others[-1])
                assert difference(before, after), (op.name, index)
                op.set_operand(index, operand)
                told += 1
    assert told > 5


def test_operands_that_change_places_are_told() -> None:
    told = 0
    for op in (op for op in body(hoisted()[1]) if len(op.operands) > 1):
        for one, other in combinations(range(len(op.operands)), 2):
            before, after = hoisted()
            twin = body(after)[op.parent.index_of(op)] if op.parent is not None else op
            if twin.operands[one].type == twin.operands[other].type and twin.operands[one] is not twin.operands[other]:
                first, second = twin.operands[one], twin.operands[other]
                twin.set_operand(one, second)
                twin.set_operand(other, first)
                assert difference(before, after), op.name
                told += 1
    assert told > 5


def test_an_operation_that_is_lost_is_told() -> None:
    before, after = hoisted()
    (term,) = [op for op in body(after) if op.name == "arith.select"]
    term.result.replace_all_uses_with(term.operands[1])
    term.erase()
    assert "select" in difference(before, after)


def test_another_constant_is_told() -> None:
    before, after = hoisted()
    constant = next(
        op for op in after.walk() if op.name == "arith.constant" and "0.000000e+00" in op.properties["value"]
    )
    constant.properties["value"] = constant.properties["value"].replace("0.000000e+00", "1.000000e+00")
    assert "another value" in difference(before, after)


def test_an_operand_of_a_dot_in_another_layout_is_told() -> None:
    before, after = hoisted()
    dot = next(op for op in after.walk() if op.name == "tt.dot")
    dot.operands[0].type = dot.operands[0].type.replace("kWidth = 2", "kWidth = 1")
    assert "a result has another type" in difference(before, after)


def test_a_product_that_is_no_longer_rounded_before_it_is_added_is_told() -> None:
    before = copy_module(_stock(multiplied, 4))
    after = copy_module(before)
    convert = next(
        op for op in body(after) if ConvertLayoutOp.matches(op) and op.operands[0].type.startswith("tensor<16x")
    )
    sums = convert.result.users
    convert.result.replace_all_uses_with(convert.operands[0])
    assert [it.name for it in sums] == ["arith.addf"]
    assert "is rounded before it is added in one program only" in difference(before, after)


def test_a_conversion_more_is_no_difference() -> None:
    before, after = hoisted()
    term = next(op for op in body(after) if op.name == "math.exp2")
    builder = Builder.after(term)
    other = term.result.type
    made = builder.create(ConvertLayoutOp.NAME, (term.result,), (other,)).result
    for use in list(term.result.uses):
        if use.op is not made.defining_op:
            use.op.set_operand(use.index, made)
    assert difference(before, after) == ""
