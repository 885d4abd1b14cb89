"""Views of shared memory: which part of an allocation a slice of wider elements, or of a transposed view, is."""

from __future__ import annotations

import pytest

from tawa.ir import Operation
from tawa.verify.run.places import NotUnderstood, Place, viewed

SLOT = Place(3, (1,))


def memdesc(rows: int, columns: int, element: str) -> str:
    return f"!ttg.memdesc<{rows}x{columns}x{element}, #shared, #smem, mutable>"


def seen(*steps: tuple[str, str, dict[str, str]]) -> Place:
    """The memory behind a chain of views of a slot of 64 x 128 bytes."""
    value = Operation("ttg.local_alloc", (), (memdesc(64, 128, "i8"),)).result
    found = SLOT
    for name, type, properties in steps:
        op = Operation(f"ttg.memdesc_{name}", (value,), (type,), properties=properties)
        found = viewed(op, found)
        value = op.result
    return found


WIDE = ("reinterpret", memdesc(64, 32, "i32"), {})
TRANSPOSED = ("trans", memdesc(128, 64, "i8"), {"order": "array<i32: 1, 0>"})


def piece(rows: int, columns: int, at: tuple[int, int]) -> tuple[str, str, dict[str, str]]:
    return "subslice", memdesc(rows, columns, "i32"), {"offsets": f"array<i32: {at[0]}, {at[1]}>"}


def test_a_piece_of_wider_elements_counts_in_those_of_the_allocation() -> None:
    assert seen(WIDE, piece(16, 8, (32, 8))).place == Place(3, (1,), ((32, 48), (32, 64)))


def test_a_piece_of_a_transposed_view_is_a_box_of_the_allocation() -> None:
    wide = ("reinterpret", memdesc(128, 16, "i32"), {})
    assert seen(TRANSPOSED, wide, piece(32, 8, (96, 8))).place == Place(3, (1,), ((32, 64), (96, 128)))


def test_the_whole_is_the_whole_however_it_is_viewed() -> None:
    assert seen(WIDE).place == seen(TRANSPOSED).place == SLOT
    assert seen(WIDE) != SLOT


def test_a_view_with_other_rows_has_no_pieces() -> None:
    with pytest.raises(NotUnderstood, match="a slice of a reshaped view"):
        seen(("reinterpret", memdesc(32, 64, "i32"), {}), piece(16, 8, (0, 0)))
