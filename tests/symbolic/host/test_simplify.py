"""A simplified host expression is the same number."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.symbolic.host.expr import HostValue
from tawa.symbolic.host.ranges import is_total
from tawa.symbolic.host.simplify import simplified_value
from tawa.symbolic.range import Range
from tests.support.sample import examples
from tests.symbolic.host.trees import domains, points, trees


@settings(max_examples=examples(200))
@given(trees, domains, st.data())
def test_a_simplified_value_is_the_same_number(value: HostValue, domain: dict[int, Range], data: st.DataObject) -> None:
    found = simplified_value(value, domain)
    for _ in range(4):
        point = points(data, domain)
        try:
            wanted = value.evaluate(point)
        except ZeroDivisionError:
            assert not is_total(value)
            continue
        assert found.evaluate(point) == wanted
