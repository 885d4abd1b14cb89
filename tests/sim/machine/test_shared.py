"""Shared memory: uninitialised reads, visibility to the async proxy, races."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.ir import Operation
from tawa.sim.errors import MissingFence, OutOfBounds, SharedMemoryRace, UnsupportedOp, UnwrittenRead
from tawa.sim.machine.shared import (
    IN_FLIGHT,
    UNWRITTEN,
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
    view_op,
)
from tawa.sim.machine.values import SharedView
from tawa.sim.ops.scales import rows_of
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


# -- wider elements ----------------------------------------------------------------------------------------------------

BYTES = "!ttg.memdesc<8x16xi8, #shared, #smem, mutable>"
WORDS = "!ttg.memdesc<8x4xi32, #shared, #smem, mutable>"


def seen_as(view: SharedView, type: str, name: str = "ttg.memdesc_reinterpret", **properties: str) -> SharedView:
    made = Operation(name, (), (type,), properties=properties)
    return view_op(made, [view])


def test_a_view_of_wider_elements_has_the_bytes_of_each_row() -> None:
    view = allocate("stage", memdesc(BYTES))
    words = seen_as(view, WORDS)
    words.bits[...] = np.arange(32, dtype=np.uint32).reshape(8, 4) * 0x01010101
    words.state[...] = VISIBLE
    require_written(view)
    assert (view.bits == np.arange(32).reshape(8, 4).repeat(4, axis=1)).all()


def test_a_piece_of_such_a_view_writes_its_own_bytes_only() -> None:
    view = allocate("stage", memdesc(BYTES))
    piece = seen_as(seen_as(view, WORDS), "!ttg.memdesc<4x2xi32, #shared, #smem, mutable, 8x4>",
                    "ttg.memdesc_subslice", offsets="array<i32: 4, 2>")  # fmt: skip
    piece.state[...] = dirty(agent=0)
    assert (view.state[4:, 8:] == dirty(agent=0)).all() and (view.state == UNWRITTEN).sum() == 8 * 16 - 4 * 8
    transposed = seen_as(piece, "!ttg.memdesc<2x4xi32, #shared, #smem, mutable, 4x8>",
                     "ttg.memdesc_trans", order="array<i32: 1, 0>")  # fmt: skip
    require_written(transposed)
    with pytest.raises(UnwrittenRead):
        require_written(view)


def test_rows_that_no_strides_reach_can_be_seen_as_a_matrix_but_not_be_cut() -> None:
    view = allocate("scales", memdesc("!ttg.memdesc<2x4x2xi8, #shared, #smem, mutable>"))
    turned = seen_as(view, "!ttg.memdesc<4x2x2xi8, #shared, #smem, mutable>", "ttg.memdesc_trans",
                     order="array<i32: 1, 0, 2>")  # fmt: skip
    rows = seen_as(turned, "!ttg.memdesc<8x2xi8, #shared, #smem, mutable>", "ttg.memdesc_reshape")
    view.bits[...] = np.arange(16, dtype=np.uint8).reshape(2, 4, 2)
    assert np.shares_memory(rows.bits, view.bits) and rows.type.shape == (8, 2)
    assert rows_of(rows, rows.type)[:, 0].tolist() == [0, 8, 2, 10, 4, 12, 6, 14]
    with pytest.raises(UnsupportedOp, match="non-contiguous view"):
        seen_as(rows, "!ttg.memdesc<4x2xi8, #shared, #smem, mutable, 8x2>", "ttg.memdesc_subslice",
                offsets="array<i32: 0, 0>")  # fmt: skip


def test_a_buffer_whose_columns_are_contiguous_is_widened_along_them() -> None:
    view = allocate("stage", memdesc(BYTES), transposed=True)
    assert view.bits.shape == (8, 16) and view.bits.strides == (1, 8)
    columns = seen_as(view, "!ttg.memdesc<16x8xi8, #shared, #smem, mutable>", "ttg.memdesc_trans",
                      order="array<i32: 1, 0>")  # fmt: skip
    words = seen_as(columns, "!ttg.memdesc<16x2xi32, #shared, #smem, mutable>")
    words.bits[3, 1] = 0x04030201
    assert view.bits[4:, 3].tolist() == [1, 2, 3, 4]
    with pytest.raises(UnsupportedOp, match="the width or number of elements differs"):
        seen_as(view, WORDS)
