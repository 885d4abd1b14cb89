"""Mutants of correct programs: fast and full effort give the same verdict for each."""

from __future__ import annotations

from functools import cache

import pytest

from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Refuted
from tests.support.sample import sample
from tests.support.verdicts import passes
from tests.verify.barriers.test_check import made
from tests.verify.mutations_barrier import mutants

SOURCES = ("tile", "persistent", "guarded", "while_listed")


@cache
def text(source: str) -> str:
    return made(source)[1]


@pytest.mark.parametrize("source", sample(SOURCES, 6))
def test_fast_refutes_the_mutants_that_full_refutes(source: str) -> None:
    refuted = 0
    for mutant in mutants(text(source)):
        fast, full = (check_barriers(mutant.module, effort=effort) for effort in ("fast", "full"))
        assert type(fast) is type(full), (str(mutant), fast, full)
        if isinstance(fast, Refuted):
            assert fast.witness.steps, str(mutant)
            refuted += 1
        else:
            assert passes(fast), (str(mutant), fast)
    assert refuted > 40
