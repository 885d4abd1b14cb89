"""Host expressions and conditions: evaluation, folding, JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tawa.symbolic.host.expr import Apply, Argument, Condition, HostValue, Number, add, host_value_from_json, multiply

M, K = Argument(1, "M"), Argument(2, "K")


def test_a_value_is_computed_from_the_arguments() -> None:
    assert add(M, multiply(K, Number(3)), Number(-1)).evaluate((0, 10, 20)) == 69
    assert Apply("smallest", (M, K)).evaluate((0, 10, 20)) == 10
    assert Apply("largest", (M, K)).evaluate((0, 10, 20)) == 20


@pytest.mark.parametrize(("left", "right"), [(7, 2), (-7, 2), (7, -2), (-7, -2)])
def test_division_is_that_of_the_kernel(left: int, right: int) -> None:
    quotient = Apply("divide", (M, K)).evaluate((0, left, right))
    assert quotient == int(left / right)
    assert Apply("remainder", (M, K)).evaluate((0, left, right)) == left - quotient * right


def test_numbers_are_folded() -> None:
    assert add(Number(2), M, Number(-2)) == M
    assert multiply(Number(2), Number(3)) == Number(6)
    assert add() == Number(0)


@pytest.mark.parametrize(("value", "holds"), [(0, False), (8, False), (16, True), (32, True), (48, False)])
def test_a_condition_is_a_range_and_a_multiple(value: int, holds: bool) -> None:
    assert Condition(M, "why", 1, 40, 16).holds((0, value)) == holds


def test_what_cannot_be_computed_does_not_hold() -> None:
    assert not Condition(Apply("divide", (M, K)), "why", 0).holds((0, 1, 0))


numbers = st.integers(-100, 100)
leaves: st.SearchStrategy[HostValue] = st.one_of(
    st.builds(Number, numbers), st.builds(Argument, st.integers(0, 3), st.just("x"))
)
trees: st.SearchStrategy[HostValue] = st.recursive(
    leaves,
    lambda inner: st.builds(
        Apply,
        st.sampled_from(["sum", "product", "divide", "remainder", "smallest", "largest"]),
        st.tuples(inner, inner),
    ),
    max_leaves=8,
)


@given(trees)
def test_a_value_survives_json(value: HostValue) -> None:
    assert host_value_from_json(json.loads(json.dumps(value.to_json()))) == value


def test_other_json_is_refused() -> None:
    with pytest.raises(ValueError, match="not a host expression"):
        host_value_from_json(["power", ["number", 2]])
