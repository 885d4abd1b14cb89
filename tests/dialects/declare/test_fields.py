"""Operands and attributes of a declared operation have names."""

from __future__ import annotations

from tawa.dialects import OpView
from tawa.dialects.declare.fields import Field, attribute, operands, optional_operand, segment
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import LoadOp
from tawa.ir import Operation
from tawa.ir.attributes import read_int
from tests.dialects.declare.test_declaration import values


def test_operands_have_names() -> None:
    lower, upper, step, first = values(4)
    loop = ForOp(Operation("scf.for", [lower, upper, step, first]))
    assert (loop.lower, loop.upper, loop.step) == (lower, upper, step)
    assert loop.bounds == [lower, upper, step] and loop.inits == [first]
    assert ForOp.step.index == 2


def test_an_optional_operand_is_found_by_its_group() -> None:
    pointers, mask, other = values(3)
    plain = LoadOp(Operation("tt.load", [pointers, mask]))
    assert (plain.mask, plain.other) == (mask, None)
    sized = {"operandSegmentSizes": "array<i32: 1, 0, 1>"}
    grouped = LoadOp(Operation("tt.load", [pointers, other], properties=sized))
    assert (grouped.mask, grouped.other) == (None, other)


def test_groups_of_operands_have_names() -> None:
    class Grouped(OpView):
        first, rest = segment(0), segment(1)
        behind, all = operands(1), operands(0)
        last = optional_operand(2)
        count = attribute("count", read_int, "7 : i32")

    a, b, c = values(3)
    view = Grouped.__new__(Grouped)
    view.op = Operation("some.op", [a, b, c], properties={"operandSegmentSizes": "array<i32: 1, 2, 0>"})
    assert (view.first, view.rest, view.behind, view.all, view.last) == ([a], [b, c], [b, c], [a, b, c], None)
    assert view.count == 7 and isinstance(Grouped.count, Field)
