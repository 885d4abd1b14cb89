"""Dots that work on what other dots of the same iteration computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tawa.analysis.loops.chained_dots import has_chained_dots
from tests.cases.programs import staged
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import alloc, dot, kernel, load, parse, store


def test_a_dot_whose_operand_is_made_of_the_scores_of_another_is_chained() -> None:
    assert has_chained_dots(parse(staged.attention()))


@pytest.mark.parametrize("program", [programs.tile_gemm, programs.gate_up, programs.two_loops, programs.nested_loops])
def test_dots_that_meet_in_accumulators_only_are_not(program: Callable[[], str]) -> None:
    assert not has_chained_dots(parse(program()))


def test_dots_outside_of_loops_are_not() -> None:
    lines = (
        load("a", "a_desc", "%zero, %zero"),
        alloc("x", "a"),
        dot("s", "x", "x", "zeros"),
        staged.op("math.exp2", "%s", programs.ACC, "%p", programs.ACC),
        staged.register_dot("acc", "p", "x", "zeros"),
        store(),
    )
    assert not has_chained_dots(parse(kernel("\n".join(lines))))


def test_what_the_iteration_before_computed_chains_nothing() -> None:
    """The scores are carried to the next iteration, and only its dot works on them."""
    body = "\n".join((programs.iteration("zeros", "s"), staged.register_dot("next", "before", "y", "sum")))
    carried = {"before": ("zeros", "s", programs.ACC), "sum": ("zeros", "next", programs.ACC)}
    loop = programs.for_loop(body, carried=carried, results="%acc:2")
    assert not has_chained_dots(parse(kernel(loop)))
    now = body.replace("%before", "%s")
    assert has_chained_dots(parse(kernel(programs.for_loop(now, carried=carried, results="%acc:2"))))
