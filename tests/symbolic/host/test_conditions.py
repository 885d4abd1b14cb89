"""Simplified conditions of a launch hold for the same arguments as the given ones."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.symbolic.host.conditions import NEVER, Clause, simplified
from tawa.symbolic.range import Range
from tests.support.sample import examples
from tests.symbolic.host.trees import M, clauses, domains, points


@settings(max_examples=examples(400))
@given(st.lists(clauses, min_size=1, max_size=4), domains, st.data())
def test_simplified_clauses_hold_of_the_same_arguments(
    given: list[Clause], domain: dict[int, Range], data: st.DataObject
) -> None:
    found = simplified(given, domain)
    for _ in range(6):
        point = points(data, domain)
        assert all(it.holds(point) for it in found) == all(it.holds(point) for it in given)


def test_what_contradicts_itself_never_holds() -> None:
    assert simplified([Clause(M, 5), Clause(M, None, 4)], {}) == (NEVER,)
