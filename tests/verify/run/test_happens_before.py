"""One run with happens-before agrees with an exhaustive exploration of all interleavings."""

from __future__ import annotations

import itertools

import pytest

from tawa.ir import parse_module
from tawa.verify.run.machine import Machine
from tawa.verify.run.state import FaultError
from tawa.verify.skeleton.compiler import compile_barriers
from tawa.verify.skeleton.program import Program
from tests.verify.barriers.explore import TooManyStates, goes_wrong, recorded
from tests.verify.barriers.test_check_mutants import text
from tests.verify.mutations_barrier import mutants
from tests.verify.mutations_edits import Mutant


def fault_of_one_run(program: Program, numbers: dict[str, int]) -> str:
    """The fault that one run with these arguments has, whichever interleaving it is; empty if it has none."""
    known = {program.arguments[name]: number for name, number in numbers.items()}
    try:
        Machine(program, known, program.leader).run()
    except FaultError as fault:
        return str(fault)
    return ""


@pytest.mark.parametrize(("source", "trips"), [("tile", 3), ("persistent", 1)])
def test_one_run_finds_a_fault_exactly_if_some_interleaving_has_one(source: str, trips: int) -> None:
    compared = 0
    cases: list[Mutant | None] = [None, *mutants(text(source), 2)]
    for mutant in cases:
        program = compile_barriers(mutant.module if mutant else parse_module(text(source)))
        names = list(program.arguments)
        for given in itertools.product(range(trips + 1), repeat=len(names)):
            numbers = dict(zip(names, given, strict=True))
            try:
                explored = goes_wrong(recorded(program, numbers), 20_000)
            except TooManyStates:
                continue
            found = fault_of_one_run(program, numbers)
            assert bool(found) == bool(explored), (str(mutant), numbers, found, explored)
            compared += 1
    assert compared > 100
