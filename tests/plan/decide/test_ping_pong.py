"""Which dots of a consumer group are issued in one section."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tawa.dialects.scf import enclosing_loops
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.dialects.warp import GroupOp, find_groups
from tawa.ir import Module
from tawa.plan import Plan
from tawa.plan.decide.ping_pong import choose_sections, dots_of_group, find_sections
from tawa.transforms.pipelining.pipeline_mma import PipelineMma
from tests.cases.programs import staged
from tests.cases.programs import ttgir as programs
from tests.support.passes import after

PING_PONG = Plan(ping_pong=True)


def piped(text: str, mma_depth: int = 1) -> tuple[Module, GroupOp]:
    """A program behind `pipeline_mma`, and its consumer."""
    module, _ = after(PipelineMma, text, mma_depth=mma_depth)
    return module, next(group for group in find_groups(module) if group.role == "consumer")


def sizes(text: str, mma_depth: int = 1) -> list[int]:
    """How many dots each section has."""
    _, group = piped(text, mma_depth)
    order = dots_of_group(group)
    return [order.index(it.last) - order.index(it.first) + 1 for it in find_sections(group)]


@pytest.mark.parametrize(
    ("program", "found"),
    [(programs.tile_gemm, [1]), (programs.two_loops, [1, 1]), (programs.gate_up, [2]), (programs.nested_loops, [1, 1])],
)
def test_dots_that_are_issued_one_after_another_are_one_section(program: Callable[[], str], found: list[int]) -> None:
    assert sizes(program()) == found


def test_dots_with_arithmetic_between_them_are_a_section_each() -> None:
    assert sizes(staged.attention()) == [1, 1]


def test_a_dot_behind_the_last_loop_is_in_no_section_and_one_in_front_of_it_is() -> None:
    def lone(tag: str) -> str:
        tiles = (programs.load(f"q{tag}", "c_desc", "%zero, %zero"), programs.alloc(f"z{tag}", f"q{tag}"))
        return "\n".join((*tiles, programs.dot(f"lone{tag}", f"z{tag}", f"z{tag}", "zeros")))

    total = programs.op("arith.addf", "%acc, %lone", f"{programs.ACC}, {programs.ACC}", "%total", programs.ACC)
    end = f"{total}\n{programs.store('total')}"
    before = programs.kernel(f"{lone('')}\n{programs.gemm_loop()}\n{end}")
    behind = programs.kernel(f"{programs.gemm_loop()}\n{lone('')}\n{end}")
    found: list[list[bool]] = []
    for text in (before, behind):
        _, group = piped(text)
        assert len(dots_of_group(group)) == 2
        found.append([bool(enclosing_loops(it.first)) for it in find_sections(group)])
    assert found == [[False, True], [True]]


def test_sections_are_chosen_where_groups_alternate_and_the_plan_does_not_say_which() -> None:
    module, group = piped(programs.two_loops())
    assert all(WarpGroupDotOp.of(op) for op in dots_of_group(group))
    assert choose_sections(module, PING_PONG).ping_pong_sections == ((0, 0), (1, 1))
    assert choose_sections(module, replace(PING_PONG, ping_pong_sections=((0, 1),))) == Plan()
    assert choose_sections(module, replace(PING_PONG, ping_pong=False)) == Plan()


def test_a_section_is_told_by_its_first_and_its_last_dot() -> None:
    module, _ = piped(programs.gate_up())
    assert choose_sections(module, PING_PONG).ping_pong_sections == ((0, 1),)
