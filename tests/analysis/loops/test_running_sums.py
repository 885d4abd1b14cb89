"""Running sums: which values that a loop carries are sums of the rows of a dot's result."""

from __future__ import annotations

import pytest

from tawa.analysis.loops.running_sums import RunningSum, running_sums
from tawa.ir import parse_module
from tests.cases.programs.running_sum import ROW, TILE, USUAL, add, loop, program, total
from tests.cases.programs.ttgir import op
from tests.cases.programs.ttir import constant


def found(*lines: str) -> tuple[RunningSum, ...]:
    return running_sums(parse_module(program(loop(*lines))))


def test_the_sum_of_a_softmax_is_one() -> None:
    (it,) = found(*USUAL)
    assert (it.loop.name, it.index, len(it.reduces)) == ("scf.for", 0, 1)
    assert [(step.name, summed) for step, summed in it.steps] == [("arith.mulf", (0,)), ("arith.addf", (0, 1))]


def test_a_sum_without_a_factor_with_two_terms_or_with_a_fused_multiplication_is_one() -> None:
    assert len(found(total("r"), add("next", "r", "l"))) == 1
    (two,) = found(total("r"), total("q"), add("m", "l", "r"), add("next", "q", "m"))
    assert len(two.reduces) == 2
    fused = op("math.fma", "%alpha, %l, %r", f"{ROW}, {ROW}, {ROW}", "%next", ROW)
    (it,) = found(total("r"), fused)
    assert [summed for _, summed in it.steps] == [(1, 2)]


OTHERS = {
    "a maximum": (total("r", combine="arith.maxnumf"), add("next", "l", "r")),
    "a maximum so far": (total("r"), add("next", "l", "r", "arith.maxnumf")),
    "the square of the sum": (add("m", "l", "l", "arith.mulf"), total("r"), add("next", "m", "r")),
    "the product with the sums": (total("r"), add("next", "l", "r", "arith.mulf")),
    "a difference": (total("r"), add("next", "l", "r", "arith.subf")),
    "nothing added": (add("next", "l", "alpha", "arith.mulf"),),
    "a term that is no sum of columns": (total("r"), add("m", "l", "alpha"), add("next", "m", "r")),
    "a sum that starts anew": (total("r"), total("q"), add("next", "q", "r")),
    "a sum that is read in the loop": (*USUAL[:2], add("next", "m", "r"), add("other", "next", "alpha")),
    "sums that are read elsewhere": (*USUAL, add("other", "r", "alpha")),
    "a tile that no dot computed": (
        constant("p2", "dense<1.000000e+00>", TILE),
        total("r", "p2"), add("next", "l", "r"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("lines", OTHERS.values(), ids=OTHERS)
def test_nothing_else_is_one(lines: tuple[str, ...]) -> None:
    assert found(*lines) == ()
