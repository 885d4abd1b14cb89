"""Liveness of registers, and reachability of marked instructions."""

from __future__ import annotations

from tawa.verify.skeleton.live import Live, reached
from tawa.verify.skeleton.lookahead import uses_of
from tawa.verify.skeleton.program import Code

LOOP = [
    (Code.FOR, 0, 1, 2, 3, 4),  # registers: lower 0, upper 1, step 2, induction 3
    (Code.PUT, 0, 4, True, ()),  # count 4
    (Code.ADVANCE, 4, 4),
    (Code.NEXT, 1, 3),
    (Code.IF, 5, 6),
    (Code.PUT, 0, 4, False, ()),
    (Code.END,),
]


def test_a_register_is_live_while_an_instruction_may_still_read_it() -> None:
    found = Live(uses_of(LOOP), dict.fromkeys(range(6), -1))
    live = [{number for number, _ in found[at]} for at in range(len(LOOP))]
    assert live[0] == {0, 1, 2, 4, 5}
    assert live[1] == live[2] == live[3] == {3, 4, 5}, "the next iteration is numbered after this one"
    assert live[5] == {4} and live[6] == set()


def test_a_mark_is_reached_around_the_back_edge_but_not_after_its_loop() -> None:
    found = reached(uses_of(LOOP), {1: 1, 5: 2})
    assert found[3] == 3
    assert found[4] == found[5] == 2 and found[6] == 0
