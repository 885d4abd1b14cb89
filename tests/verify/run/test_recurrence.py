"""Settled facts are left out, and the others numbered anew: that changes nothing which later steps find."""

from __future__ import annotations

import pytest

from tawa.ir import Module
from tawa.verify.run.machine import Machine
from tawa.verify.run.places import NotUnderstood
from tawa.verify.run.recurrence import covers, settle
from tawa.verify.run.state import FaultError, NeedError, Thread
from tawa.verify.skeleton.compiler import compile_barriers
from tawa.verify.skeleton.program import Program, Term
from tests.support.sample import sample
from tests.verify.barriers.test_check import PROGRAMS, barrier, made
from tests.verify.mutations_barrier import mutants

ENDED = "ended"


class Settling(Machine):
    """A run that settles its state after every event."""

    settled = 0

    def _act(self, index: int, thread: Thread, act: object) -> bool:
        done = super()._act(index, thread, act)  # type: ignore[arg-type]
        assert self.order is not None
        touches, writes = [-1] * len(self.threads), [0] * len(self.threads)
        for at in self.alive:
            it = self.threads[at]
            touches[at], writes[at] = it.part.touches[it.pc], it.part.writes[it.pc]
        settle(self.order, touches, writes, {}, lambda number: number)
        self.settled += 1
        return done


def outcome(kind: type[Machine], program: Program, numbers: dict[Term, int], size: int) -> tuple[str, object]:
    """How a run ends. Whatever it needs besides `numbers` is of this size."""
    while True:
        machine = kind(program, numbers, program.leader)
        try:
            machine.run()
        except NeedError as need:
            term = need.term
            while term.key[0].startswith("arith."):
                term = next(part for part in term.parts if part not in numbers)
            numbers[term] = size
        except FaultError as fault:
            return fault.kind, fault.op
        else:
            return ENDED, None


def same(module: Module, sizes: range) -> set[str]:
    """Holds the runs of a program against each other; returns how they end."""
    program = compile_barriers(module)
    found: set[str] = set()
    for size in sizes:
        numbers: dict[Term, int] = dict.fromkeys(program.arguments.values(), size)
        one = outcome(Machine, program, numbers, size)
        assert outcome(Settling, program, numbers, size) == one, (size, one)
        found.add(one[0])
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_right_program_is_right_with_settled_states(name: str) -> None:
    assert same(barrier(name), range(6)) == {ENDED}


@pytest.mark.parametrize("name", sample(PROGRAMS, 6))
def test_a_wrong_program_has_the_same_fault_with_settled_states(name: str) -> None:
    found: set[str] = set()
    for mutant in mutants(made(name)[1], 6):
        try:
            found |= same(mutant.module, range(2, 6))
        except NotUnderstood:
            continue
    assert len(found) > 4 and ENDED in found, found


def test_a_state_covers_another_if_it_lacks_as_much_of_the_same_facts() -> None:
    more, less = {("a",): 0b11, ("b",): 0b01}, {("a",): 0b10}
    assert covers(more, less) and covers(more, more) and not covers(less, more)
    assert not covers({("a",): 0b01, ("c",): 0b01}, less)
