"""Shared memory: uninitialised reads, visibility to the async proxy, races."""

from __future__ import annotations

import pytest

from tawa.sim.errors import MissingFence, OutOfBounds, SharedMemoryRace, UnwrittenRead
from tawa.sim.machine.shared import (
    IN_FLIGHT,
    VISIBLE,
    allocate,
    copied,
    deallocate,
    dirty,
    filled,
    index,
    memdesc,
    require_quiet,
    require_visible,
    require_written,
)
from tawa.sim.machine.values import SharedView
from tests.cases.programs.ttgir import op
from tests.sim.small import BUFFER, ROW, kernel, run


def test_a_read_of_uninitialised_shared_memory_traps() -> None:
    module = kernel(
        op("ttg.local_alloc", "", "", "%stage", BUFFER),
        op("ttg.local_load", "%stage", BUFFER, "%v", ROW),
    )
    with pytest.raises(UnwrittenRead, match="64 of 64 elements of stage"):
        run(module)


def buffer() -> SharedView:
    return allocate("stage", memdesc(BUFFER))


def test_unfenced_writes_are_invisible_to_the_async_proxy() -> None:
    view = buffer()
    view.state[...] = dirty(agent=0)
    require_written(view)
    with pytest.raises(MissingFence, match="written through the generic proxy"):
        require_visible(view, fills_are_fenced=True, copies=0)
    view.state[...] = VISIBLE
    require_visible(view, fills_are_fenced=False, copies=0)


def test_the_contents_of_a_local_alloc_are_fenced_for_wgmma_only() -> None:
    view = buffer()
    view.state[...] = filled(agent=1)
    require_visible(view, fills_are_fenced=True, copies=0)
    with pytest.raises(MissingFence):
        require_visible(view, fills_are_fenced=False, copies=0)


def test_a_copy_is_visible_after_a_fence_that_follows_its_landing() -> None:
    view = buffer()
    view.state[...] = copied(number=2)
    require_visible(view, fills_are_fenced=True, copies=3)
    with pytest.raises(MissingFence):
        require_visible(view, fills_are_fenced=True, copies=2)


def test_memory_in_use_by_an_asynchronous_operation_is_neither_written_nor_freed() -> None:
    view = buffer()
    with pytest.raises(SharedMemoryRace, match="written while the wgmma"):
        require_quiet(view, [(view, "the wgmma of main")])
    with pytest.raises(SharedMemoryRace, match="freed while the wgmma"):
        deallocate(view, [(view, "the wgmma of main")])
    require_quiet(view, [(buffer(), "the wgmma of main")])
    view.state[...] = IN_FLIGHT
    with pytest.raises(SharedMemoryRace, match="while a TMA copy into it is in flight"):
        require_quiet(view, [])


def test_a_slot_index_outside_the_ring_traps() -> None:
    kind = memdesc(BUFFER)
    ring = allocate("ring", kind.with_slots(2))
    assert index(ring, 1, kind).label == "ring[1]"
    with pytest.raises(OutOfBounds, match="slot 2 of ring, which has 2 slots"):
        index(ring, 2, kind)
