"""Two states with one key become one that covers both; what a state covers is no more than that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tawa.verify.free import proof
from tawa.verify.free.free_run import FreeRun
from tawa.verify.run.happens_before import Barrier, Order
from tawa.verify.run.memory import Access, Region
from tawa.verify.run.merge import merge
from tawa.verify.run.places import Place
from tawa.verify.run.recurrence import Settled, covers, settle
from tawa.verify.run.state import TooLongError
from tawa.verify.skeleton.compiler import compile_barriers
from tests.verify.barriers.test_check import PROGRAMS, barrier

DATA, EMPTY = Place(0, (0,)), Place(1, (0,))
BOTH = 0b110
"""Accesses to both allocations, as bits one above their numbers."""
KNOWN, READ, PHASE, PART = 1, 2, 4, 8


def order(masks: tuple[int, int], *, read: int = 0, recent: tuple[int, int, int] | None = None) -> Order:
    """Two partitions with these causal pasts; a read of the data that ends at a step; the last phase of a barrier."""
    made = Order(cast(Any, SimpleNamespace(name=str)), ("one", "two"), records=False)
    for actor, mask in zip(made.actors, masks, strict=True):
        actor.mask = mask
    made.barriers[EMPTY] = Barrier(KNOWN, 1, 1, complete=1, recent=[recent] if recent else [])
    if read:
        event = SimpleNamespace(kind="copy out", number=None, op=SimpleNamespace(name="read"))
        access = Access(KNOWN, cast(Any, event), 0, True, KNOWN)
        access.end = read
        made.memory.regions[0] = {DATA: Region(reads={(0, "copy out"): access})}
    return made


def settled(it: Order) -> Settled:
    """What a state is, in which both partitions may access all memory."""
    return settle(it, (BOTH, BOTH), (BOTH, BOTH), {}, lambda number: number)


def test_a_state_with_a_settled_phase_is_not_covered_by_one_whose_phase_will_tell_more() -> None:
    """Partition two would learn of the read when it waits for that phase; in the other state it never does."""
    waits = settled(order((KNOWN | READ | PHASE | PART, KNOWN), read=READ, recent=(PHASE, READ | PHASE | PART, PART)))
    knows = settled(order((KNOWN | READ, KNOWN), read=READ))
    assert waits.key == knows.key and set(waits.lacks) > set(knows.lacks)
    assert not covers(waits.lacks, knows.lacks)


def test_a_merged_state_lacks_what_either_lacks() -> None:
    one = order((KNOWN | READ, KNOWN), read=READ)
    other = order((KNOWN | PHASE | PART, KNOWN), recent=(PHASE, PHASE | PART, PART))
    kinds = settled(one), settled(other)
    assert not covers(kinds[0].lacks, kinds[1].lacks) and not covers(kinds[1].lacks, kinds[0].lacks)
    merge(one, kinds[0], other, kinds[1])
    made = settled(one)
    assert made.key == kinds[0].key
    assert all(covers(made.lacks, it.lacks) for it in kinds)


def test_more_recent_phases_than_have_a_bit_are_given_up() -> None:
    it = order((KNOWN, KNOWN))
    it.barriers[EMPTY].recent = [(2 << number, KNOWN, 0x1000 << number) for number in range(8)]
    with pytest.raises(TooLongError, match="more than 7 phases"):
        settled(it)


@pytest.mark.parametrize("name", [it for it in PROGRAMS if it != "nested"])  # its states do not recur
def test_every_program_is_proved_with_one_state_for_each_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 0
    widened = proof._widened  # pyright: ignore[reportPrivateUsage]

    def counted(state: FreeRun, known: list[FreeRun], few: int) -> FreeRun | None:
        nonlocal most
        found = widened(state, known, few)
        most = max(most, len(known))
        return found

    monkeypatch.setattr(proof, "_widened", counted)
    assert proof.prove(compile_barriers(barrier(name)), 300_000).holds
    assert most == 1
