"""Rings of the barrier level: which numbers are the count of one, and what rotates with it."""

from __future__ import annotations

import pytest

from tawa.verify.skeleton.program import Code, Program
from tests.cases.programs.ttgir import binary, branch, compare, op
from tests.verify.skeleton.counting import Carried, wait, waits

Ring = tuple[int, int, int, int]
COUNT: Carried = {"it": ("zero", "it_next", "i32")}
PAIR: Carried = {"s": ("zero", "s_next", "i32"), "p": ("zero", "p_next", "i32")}


def following(of: str = "", to: str = "_next", last: str = "c3") -> tuple[str, ...]:
    """The slot and the parity after these, by a comparison; last: the number of slots."""
    return (
        binary(f"up{of}", "addi", f"s{of}", "c1"),
        compare(f"wraps{of}", f"up{of}", last, 0),
        op("arith.select", f"%wraps{of}, %zero, %up{of}", "i1, i32, i32", f"%s{to}", "i32"),
        op("arith.extui", f"%wraps{of}", "i1", f"%rotation{of}", "i32"),
        binary(f"p{to}", "xori", f"p{of}", f"rotation{of}"),
    )


def divided(of: str = "it", last: str = "c3", tag: str = "") -> tuple[str, ...]:
    """Slot and parity of a running count."""
    return (
        binary(f"s{tag}", "remsi", of, last),
        binary(f"round{tag}", "divsi", of, last),
        binary(f"p{tag}", "andi", f"round{tag}", "c1"),
    )


NEXT = binary("it_next", "addi", "it", "c1")


def rings(program: Program) -> list[Ring]:
    """Of each ring: depth, and how many slots, parities and running counts are registers of it."""
    return [(it.depth, len(it.slots), len(it.parities), len(it.counters)) for it in program.lifted]


def test_a_pair_of_slot_and_parity_is_a_count() -> None:
    ((depth, slots, parities, counters),) = rings(waits(wait("s", "p"), *following(), carried=PAIR))
    assert (depth, counters) == (3, 0) and slots == parities > 0


def test_a_running_count_is_one() -> None:
    ((depth, slots, parities, counters),) = rings(waits(*divided(), wait("s", "p"), NEXT, carried=COUNT))
    assert (depth, slots, parities) == (3, 0, 0) and counters > 0


def test_a_count_that_a_loop_of_two_accesses_advances_by_two_is_one() -> None:
    body = (wait("s", "p"), *following("", "_2"), wait("s_2", "p_2", "2"), *following("_2"))
    assert [it[0] for it in rings(waits(*body, carried=PAIR))] == [3]
    two = (*divided(), wait("s", "p"), binary("it_2", "addi", "it", "c1"), *divided("it_2", tag="_2"))
    body = (*two, wait("s_2", "p_2", "2"), binary("it_next", "addi", "it", "c2"))
    assert [it[0] for it in rings(waits(*body, carried=COUNT))] == [3]


def test_a_parity_alone_is_the_count_of_a_ring_of_one_slot() -> None:
    flip = binary("p_next", "xori", "p", "c1")
    program = waits(wait("zero", "p", depth=1), flip, carried={"p": ("zero", "p_next", "i32")}, depth=1)
    ((depth, slots, parities, counters),) = rings(program)
    assert (depth, slots, counters) == (1, 0, 0) and parities > 0


def test_a_parity_that_is_denied_rotates_as_well() -> None:
    body = (binary("not", "xori", "p", "c1"), wait("s", "not"), *following())
    assert [it[0] for it in rings(waits(*body, carried=PAIR))] == [3]


# -- what is none ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", ["c2", "c4"])
def test_a_slot_that_wraps_at_another_number_than_that_of_slots_is_none(last: str) -> None:
    assert rings(waits(wait("s", "p"), *following(last=last), carried=PAIR)) == []
    assert rings(waits(*divided(last=last), wait("s", "p"), NEXT, carried=COUNT)) == []


def test_a_parity_that_does_not_flip_where_the_slot_wraps_is_none() -> None:
    body = (wait("s", "p"), *following()[:-1], binary("p_next", "xori", "p", "c1"))
    assert rings(waits(*body, carried=PAIR)) == []


def test_a_slot_that_decides_a_condition_is_none() -> None:
    body = (compare("first", "s", "zero", 0), branch(wait("s", "p", "2"), condition="first"), wait("s", "p"))
    assert rings(waits(*body, *following(), carried=PAIR)) == []


def test_a_step_of_the_count_that_depends_on_it_is_none() -> None:
    body = (*divided(), wait("s", "p"), binary("it_next", "muli", "it", "c2"))
    assert rings(waits(*body, carried=COUNT)) == []


def test_where_a_count_may_still_be_reset_the_ring_does_not_rotate() -> None:
    """A ring whose count starts anew in each iteration of an outer loop is not symmetric before that."""
    once, anew = (waits(wait("s", "p"), *following(), carried=PAIR, around=around) for around in (False, True))
    for program, rotates in ((once, True), (anew, False)):
        (part,) = program.parts
        inside = [at for at, it in enumerate(part.code) if it[0] == Code.ACT]
        assert all((part.fixed[at + 1] == 0) == rotates for at in inside), part.fixed
