"""The state of all partitions, relative to itself: what differs, and what does not."""

from __future__ import annotations

from tawa.verify.free.free_run import FreeRun
from tawa.verify.free.sites import Site
from tawa.verify.free.walkers import Iteration, Mark, Walker, WalkerState
from tests.verify.barriers.test_check import made
from tests.verify.free.test_questions import queries


def start() -> FreeRun:
    """A kernel of one loop, before its first step."""
    return FreeRun(*queries(made("tile")[0]))


def after(trips: int) -> WalkerState:
    """The state in which the loop is about to ask whether it goes on, after this many trips."""
    state = start()
    asked = state.advance()
    for _ in range(trips):
        assert asked is not None
        state = state.answered(asked, yes=True)
        asked = state.advance()
    return state


def test_a_state_does_not_depend_on_how_long_the_run_has_been() -> None:
    """Once all slots have been used, the next trips are those before: the ring has two slots."""
    keys = [after(trips).relative() for trips in range(10)]
    assert keys[0] != keys[1]
    assert keys[-1] in keys[:-1] and len(set(keys)) < len(keys)


def test_counts_of_rings_matter_relative_to_the_number_of_puts() -> None:
    one, other = after(6), after(6)
    for channel in other.channels:
        channel.puts += 4
        channel.gets = [got + 4 for got in channel.gets]
        channel.borrowed = [[count + 4 for count in held] for held in channel.borrowed]
    assert one.relative()[1] == other.relative()[1]
    other.channels[0].gets[0] -= 1
    assert one.relative()[1] != other.relative()[1]


def test_a_copy_of_a_walker_goes_its_own_way() -> None:
    walker = start().walkers[0]
    walker.marks[0][7] = Mark(0, 3, False)
    copy = walker.copy()
    copy.marks[0][7].start, copy.pc = 9, walker.pc + 1
    assert (walker.marks[0][7].start, copy.pc - walker.pc) == (3, 1)
    assert isinstance(copy, Walker) and copy.part is walker.part


def test_a_stage_has_a_place_in_its_range_and_is_exact_where_it_ended_right_behind_it() -> None:
    assert Mark(0, 3, False, 1, taken=10).place == 14
    assert Mark(0, 3, True, 1, closed=4).exact and not Mark(0, 3, True, 1, closed=6).exact


def test_an_iteration_counts_from_the_start_of_the_whole_range() -> None:
    (site, *_) = [it for sites in start().questions.sites for it in sites.values()]
    assert isinstance(site, Site)
    assert Iteration(site, 0, taken=5).index == 5 + site.start
