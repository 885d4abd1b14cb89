"""The search with concrete numbers."""

from __future__ import annotations

from tawa.ir import Module, parse_module
from tawa.verify.numbers.facts import Facts
from tawa.verify.skeleton.compiler import compile_skeleton
from tawa.verify.numbers.search import FULL, Search
from tawa.verify.verdict import Proved, Refuted, Unknown, Verdict
from tests.verify import mutations_aref as change
from tests.verify.barriers.test_check import made, ops


def search(module: Module, budget: int = FULL) -> Verdict:
    program = compile_skeleton(module)
    assert program is not None
    return Search(program, Facts(program, ()), budget).verdict()


def test_a_recurrence_proves_all_trip_counts() -> None:
    assert search(parse_module(made("tile")[0])) == Proved()


def test_the_first_failing_vector_is_a_smallest_one() -> None:
    module = parse_module(made("tile", 3, 1)[0])
    assert change.drop(ops(module, "aref.consumed")[0])
    verdict = search(module)
    assert isinstance(verdict, Refuted)
    (trips,) = verdict.witness.inputs.values()
    assert trips <= 2


def test_a_small_budget_is_unknown() -> None:
    assert isinstance(search(parse_module(made("tile")[0]), budget=50), Unknown)
