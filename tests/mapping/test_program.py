"""Names of loads, stores and loops, from the IR and the source."""

from __future__ import annotations

import pytest

from tawa.mapping.program import Program, triton_type


def test_operands_are_arguments_and_loops_are_induction_variables(attend: Program) -> None:
    assert [it.text for it in attend.loads] == ["q", "k", "v"]
    assert [it.text for it in attend.stores] == ["o"] and [it.text for it in attend.loops] == ["n"]
    assert attend.lefts == ("q", "") and attend.rights == ("k", "v")
    assert attend.name == "attend" and "kernels.py" in attend.place


def test_several_of_a_name_are_numbered_also_where_a_helper_has_the_loop(helped: Program) -> None:
    assert [it.text for it in helped.loads] == ["a.0", "b.0", "a.1", "b.1"]
    assert [it.text for it in helped.loops] == ["step.0", "step.1"]
    helper, *callers = helped.loops[0].lines[0], helped.loops[0].lines[1], helped.loops[1].lines[1]
    assert helped.loops[1].lines[0] == helper and callers[0] < callers[1]


def test_a_loop_without_a_variable_is_named_by_its_line(until: Program) -> None:
    (loop,) = until.loops
    assert loop.text == f"line {loop.lines[0]}" and until.plain == ("tile",)


@pytest.mark.parametrize(
    "ir, type",
    [
        ("!tt.ptr<f16>", "*fp16"), ("!tt.tensordesc<tensor<128x64xbf16>>", "tensordesc<bf16[128,64]>"), ("i32", "i32"),
        ("f32", "fp32"), ("!tt.ptr<f8E4M3FN>", "*fp8e4nv"),
    ],
)  # fmt: skip
def test_types_are_told_in_tritons_notation(ir: str, type: str) -> None:
    assert triton_type(ir) == type
