"""Conditions of a launch as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tawa.symbolic.host.conditions import Clause, simplified
from tawa.symbolic.host.expr import Apply, HostValue, Number, add, multiply
from tawa.symbolic.host.text import DIVIDE, clauses_text, python_text
from tawa.symbolic.range import Range
from tests.symbolic.host.trees import NAMES, K, M, P, S, trees


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


@given(trees, st.lists(st.integers(-300, 300), min_size=4, max_size=4), st.booleans())
def test_python_computes_the_value(value: HostValue, arguments: list[int], natural: bool) -> None:
    """natural: no argument is negative, and that is known."""
    arguments = [abs(it) for it in arguments] if natural else arguments
    domain = {index: Range(0, 300) for index in range(4)} if natural else {}
    try:
        wanted = value.evaluate(arguments)
    except ZeroDivisionError:
        return
    names: dict[str, object] = {**dict(zip(NAMES, arguments, strict=True)), DIVIDE: _divide}
    assert eval(python_text(value, domain), names) == wanted
    assert eval(f"2 * {python_text(value, domain, factor=True)}", names) == 2 * wanted


def _divide(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient
