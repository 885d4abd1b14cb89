"""Operands of dots that a loop does not change, and for which registers are left."""

from __future__ import annotations

import pytest

from tawa.analysis.loops.register_operands import dots_of, kept_type, may_be_kept, operands_to_keep
from tawa.ir import Module
from tests.cases.programs.ttgir import ACC, OPERAND, alloc, dot, for_loop, kernel, load, parse, store, the

ROOM = 16 + 32
"""Registers of each of 128 threads for the operand, 64 x 64 halves, and for the sums."""


def program(query_inside: bool = False, element: str = "f16") -> Module:
    """A loop over %b tiles; its left operand is loaded in front of it, or in it."""
    query = f"{load('a', 'a_desc', '%zero, %zero')}\n{alloc('x', 'a')}"
    body = "\n".join(
        (query if query_inside else "", load("b", "b_desc"), alloc("y", "b"), dot("next", "x", "y", "sum"))
    )
    loop = for_loop(body, carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    text = kernel("\n".join(("" if query_inside else query, loop, store())))
    return parse(text.replace("f16", element))


@pytest.mark.parametrize(("registers", "count"), [(ROOM, 1), (ROOM - 1, 0)])
def test_an_operand_is_kept_where_it_fits_beside_the_results(registers: int, count: int) -> None:
    module = program()
    kept = [it.op for it in operands_to_keep(module.op, 4, registers)]
    assert kept == [it.op for it in dots_of(the(module, "scf.for"))][:count]


def test_more_warps_have_more_room() -> None:
    assert len(operands_to_keep(program().op, 8, ROOM // 2)) == 1


def test_an_operand_that_each_iteration_brings_is_not_kept() -> None:
    assert operands_to_keep(program(query_inside=True).op, 4, 255) == []


def test_only_halves_are_kept() -> None:
    assert len(operands_to_keep(program(element="bf16").op, 4, 255)) == 1
    module = program(element="f8E4M3FN")
    assert operands_to_keep(module.op, 4, 255) == []
    loop = the(module, "scf.for")
    assert not may_be_kept(dots_of(loop)[0], loop)


def test_in_registers_it_has_the_layout_of_the_dot() -> None:
    (found,) = operands_to_keep(program().op, 4, ROOM)
    assert str(kept_type(found)) == OPERAND
