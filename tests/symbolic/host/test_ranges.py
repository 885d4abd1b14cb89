"""Ranges, multiples and directions of host expressions."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.symbolic.host.expr import HostValue
from tawa.symbolic.host.ranges import direction, is_total, range_of
from tawa.symbolic.range import Range
from tests.support.sample import examples
from tests.symbolic.host.trees import domains, points, trees


@settings(max_examples=examples(200))
@given(trees, domains, st.data())
def test_a_value_lies_in_its_range(value: HostValue, domain: dict[int, Range], data: st.DataObject) -> None:
    found = range_of(value, domain)
    for _ in range(4):
        try:
            number = value.evaluate(points(data, domain))
        except ZeroDivisionError:
            continue
        assert found.and_also(Range(number, number)).value == number
        assert number % found.multiple == 0 if found.multiple else number == 0


@settings(max_examples=examples(200))
@given(trees.filter(is_total), domains, st.data())
def test_a_value_goes_in_its_direction(value: HostValue, domain: dict[int, Range], data: st.DataObject) -> None:
    way = direction(value, domain)
    if way is None:
        return
    for _ in range(4):
        one, other = points(data, domain), points(data, domain)
        low = [min(pair) for pair in zip(one, other, strict=True)]
        high = [max(pair) for pair in zip(one, other, strict=True)]
        step = value.evaluate(high) - value.evaluate(low)
        assert step == 0 if way == 0 else step * way >= 0
