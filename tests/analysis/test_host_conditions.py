"""Simplified values and conditions of a launch say what the given ones say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.analysis.host_conditions import NEVER, Clause, simplified
from tawa.analysis.host_ranges import Domain, Range, direction, is_total, range_of
from tawa.analysis.host_simplify import simplified_value
from tawa.analysis.host_text import clauses_text
from tawa.analysis.launch_values import Apply, Argument, HostValue, Number, add, multiply

NAMES = ("M", "K", "S", "programs")
M, K, S, P = (Argument(index, name) for index, name in enumerate(NAMES))

numbers = st.integers(-100, 200)
divisors = st.sampled_from([1, 2, 3, 8, 16, 64, 127, -1, -16])
leaves: st.SearchStrategy[HostValue] = st.one_of(st.builds(Number, numbers), st.sampled_from([M, K, S, P]))


def _larger(inner: st.SearchStrategy[HostValue]) -> st.SearchStrategy[HostValue]:
    divisor = divisors.map(Number)
    positive = st.sampled_from([1, 2, 8, 64, 132]).map(Number)
    return st.one_of(
        st.builds(add, inner, inner),
        st.builds(multiply, inner, inner),
        st.builds(multiply, inner, numbers.map(Number)),
        st.builds(lambda a, b: Apply("divide", (a, b)), inner, divisor),
        st.builds(lambda a, n: Apply("divide", (add(a, Number(n.value - 1)), n)), inner, positive),
        st.builds(lambda a, b: Apply("ceiling", (a, b)), inner, positive),
        st.builds(lambda a, b: Apply("remainder", (a, b)), inner, divisor),
        st.builds(lambda a, n: add(a, multiply(Apply("divide", (a, n)), Number(-n.value))), inner, positive),
        st.builds(
            lambda a, n: add(Apply("divide", (a, n)), Apply("ceiling", (Apply("remainder", (a, n)), n))),
            inner,
            positive,
        ),
        st.builds(lambda a, b: Apply("divide", (a, b)), inner, inner),
        st.builds(lambda a, b: Apply("smallest", (a, b)), inner, inner),
        st.builds(lambda a: Apply("largest", (Number(0), a)), inner),
        st.builds(lambda a, b: Apply("largest", (a, b)), inner, inner),
    )


trees = st.recursive(leaves, _larger, max_leaves=8)
bounds = st.none() | st.integers(-300, 9000)
clauses = st.builds(Clause, trees, bounds, bounds, st.sampled_from([1, 1, 1, 2, 8, 16]), st.booleans(), st.booleans())
ranges = st.builds(
    lambda low, size, multiple: Range(low * multiple, (low + size) * multiple, multiple),
    st.integers(-20, 20), st.integers(0, 400), st.sampled_from([1, 1, 2, 16]),
)  # fmt: skip
domains: st.SearchStrategy[dict[int, Range]] = st.fixed_dictionaries(
    {0: ranges, 1: ranges, 2: ranges, 3: st.builds(Range, st.just(1), st.integers(1, 5000))}
)


def _points(data: st.DataObject, domain: Domain) -> list[int]:
    """Arguments of the domain, its corners among them."""
    values: list[int] = []
    for index in range(4):
        it = domain[index]
        assert it.low is not None and it.high is not None
        step = max(1, it.multiple)
        steps = (it.high - it.low) // step
        at = data.draw(st.one_of(st.sampled_from([0, steps]), st.integers(0, steps)))
        values.append(it.low + step * at)
    return values


@settings(max_examples=200, deadline=None)
@given(trees, domains, st.data())
def test_a_simplified_value_is_the_same_number(value: HostValue, domain: dict[int, Range], data: st.DataObject) -> None:
    found = simplified_value(value, domain)
    for _ in range(4):
        point = _points(data, domain)
        try:
            wanted = value.evaluate(point)
        except ZeroDivisionError:
            assert not is_total(value)
            continue
        assert found.evaluate(point) == wanted


@settings(max_examples=200, deadline=None)
@given(trees, domains, st.data())
def test_a_value_lies_in_its_range(value: HostValue, domain: dict[int, Range], data: st.DataObject) -> None:
    found = range_of(value, domain)
    for _ in range(4):
        try:
            number = value.evaluate(_points(data, domain))
        except ZeroDivisionError:
            continue
        assert found.and_also(Range(number, number)).value == number
        assert number % found.multiple == 0 if found.multiple else number == 0


@settings(max_examples=200, deadline=None)
@given(trees.filter(is_total), domains, st.data())
def test_a_value_goes_in_its_direction(value: HostValue, domain: dict[int, Range], data: st.DataObject) -> None:
    way = direction(value, domain)
    if way is None:
        return
    for _ in range(4):
        one, other = _points(data, domain), _points(data, domain)
        low = [min(pair) for pair in zip(one, other, strict=True)]
        high = [max(pair) for pair in zip(one, other, strict=True)]
        step = value.evaluate(high) - value.evaluate(low)
        assert step == 0 if way == 0 else step * way >= 0


@settings(max_examples=400, deadline=None)
@given(st.lists(clauses, min_size=1, max_size=4), domains, st.data())
def test_simplified_clauses_hold_of_the_same_arguments(
    given: list[Clause], domain: dict[int, Range], data: st.DataObject
) -> None:
    found = simplified(given, domain)
    for _ in range(6):
        point = _points(data, domain)
        assert all(it.holds(point) for it in found) == all(it.holds(point) for it in given)


def tiles(size: HostValue, block: int) -> HostValue:
    return Apply("largest", (Number(0), Apply("divide", (add(size, Number(block - 1)), Number(block)))))


WIDE = Range(-(1 << 31), 2147418112)
DOMAIN = {0: WIDE, 1: WIDE, 2: WIDE, 3: Range(1, 1 << 62)}
WORK = multiply(Apply("ceiling", (P, Number(132))), tiles(K, 64), Number(862))
WHOLE = Apply("divide", (K, Number(128)))
LEFT = add(K, multiply(WHOLE, Number(-128)))
LOOPS = add(multiply(tiles(multiply(WHOLE, Number(128)), 128), Number(862)), multiply(tiles(LEFT, 128), Number(862)))
"""Of attention without a mask: a loop over whole tiles of keys, and one over what is left."""


@pytest.mark.parametrize(
    ("clauses", "known", "text"),
    [
        ([Clause(WORK, 8000)], {}, "ceil(programs / 132) * ceil(K / 64) >= 10"),
        ([Clause(WORK, 8000), Clause(K, 1)], {}, "ceil(programs / 132) * ceil(K / 64) >= 10 and K > 0"),
        ([Clause(WORK, 8000), Clause(K, 1)], {3: Range(100, 100)}, "K >= 577"),
        ([Clause(WORK, 8000)], {3: Range(100, 100), 1: Range(0, 1 << 30, 16)}, "K >= 592"),
        ([Clause(WORK, 8000)], {1: Range(64, 64)}, "programs >= 1189"),
        ([Clause(WORK, 8000)], {1: Range(4096, 4096)}, ""),
        ([Clause(WORK, 8000)], {1: Range(0, 0)}, "never"),
        ([Clause(add(tiles(K, 64), tiles(K, 64)), 7)], {}, "K >= 193"),
        ([Clause(multiply(S, Number(2)), 16, 2**40 - 1, 16)], {}, "S % 8 == 0 and S > 0"),
        ([Clause(multiply(S, Number(2)), 16, 2**40 - 1, 16)], {2: Range(-1 << 20, 1 << 20, 16)}, "S > 0"),
        ([Clause(M, 1), Clause(K, 1), Clause(M, 0)], {}, "M, K > 0"),
        ([Clause(P, most=132)], {}, "programs <= 132"),
        ([Clause(add(M, multiply(K, Number(-1))), 0)], {}, "M - K >= 0"),
        ([Clause(multiply(tiles(K, 64), tiles(M, 64)), 1)], {}, "M, K > 0"),
        ([Clause(Apply("divide", (K, Number(8))), 1, 2147418112)], {}, "K >= 8"),
        ([Clause(Apply("divide", (K, S)), 1)], {}, "trunc(K / S) >= 1"),
        ([Clause(Apply("divide", (K, S)), 1), Clause(K, 1), Clause(S, 1)], {}, "(K // S) >= 1, and K, S > 0"),
        ([Clause(multiply(P, LOOPS), 8000), Clause(K, 1)], {}, "programs * ceil(K / 128) >= 10 and K > 0"),
    ],
)
def test_a_condition_is_said_plainly(clauses: list[Clause], known: dict[int, Range], text: str) -> None:
    domain = {**DOMAIN, **known}
    assert clauses_text(simplified(clauses, domain), domain) == text


def test_what_contradicts_itself_never_holds() -> None:
    assert simplified([Clause(M, 5), Clause(M, None, 4)], DOMAIN) == (NEVER,)
