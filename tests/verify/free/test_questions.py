"""The queries of the partitions: equal ranges share an unknown."""

from __future__ import annotations

from tawa.ir import parse_module
from tawa.verify.free.questions import Questions, find_questions
from tawa.verify.skeleton.compiler import compile_skeleton
from tawa.verify.skeleton.program import Code, Program
from tests.verify.barriers.test_check import made
from tests.verify.free.test_proof import long_loop


def queries(aref: str, free_from: int = 1 << 62) -> tuple[Program, Questions]:
    program = compile_skeleton(parse_module(aref))
    assert program is not None
    return program, find_questions(program, free_from)


def loops(program: Program, questions: Questions) -> dict[str, set[int]]:
    """The unknowns of the loops, by partition."""
    pairs = list(zip(program.parts, questions.sites, strict=True))
    return {
        part.name.rstrip("0123456789"): {site.unknown for at, site in sites.items() if part.code[at][0] == Code.FOR}
        for part, sites in pairs
    }


def test_loops_of_two_partitions_with_equal_bounds_query_one_unknown() -> None:
    found = loops(*queries(made("tile")[0]))
    assert len(found["consumer"]) == 1 and found["consumer"] <= found["producer"]


def test_loops_with_different_bounds_query_different_unknowns() -> None:
    found = loops(*queries(made("two_loops")[0]))
    assert len(found["consumer"]) == 2


def test_a_large_constant_trip_count_is_unconstrained_only_on_request() -> None:
    text = long_loop(500)
    assert 500 in queries(text)[1].constant.values()
    free = queries(text, free_from=8)[1]
    assert 500 not in free.constant.values() and free.least
