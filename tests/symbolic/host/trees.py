"""Random host expressions, clauses and domains."""

from __future__ import annotations

from hypothesis import strategies as st

from tawa.symbolic.host.conditions import Clause
from tawa.symbolic.host.expr import Apply, Argument, HostValue, Number, add, multiply
from tawa.symbolic.host.ranges import Domain
from tawa.symbolic.range import Range

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


def points(data: st.DataObject, domain: Domain) -> list[int]:
    """Arguments of the domain, its corners among them."""
    values: list[int] = []
    for index in range(4):
        it = domain[index]
        low, step = int(it.low), max(1, it.multiple)
        steps = (int(it.high) - low) // step
        at = data.draw(st.one_of(st.sampled_from([0, steps]), st.integers(0, steps)))
        values.append(low + step * at)
    return values
