"""`column_slices`: slices of the columns of a tile, taken apart by renaming registers."""

from __future__ import annotations

import pytest

from tawa.ir import Builder, Module, Value, parse_type
from tawa.machine.distribution import distribution_at
from tawa.transforms.epilogue.column_slices import column_slices
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import kernel, op, parse, the

ACC = programs.ACC


def negated(type: str) -> Module:
    """A kernel that negates a tile."""
    return parse(kernel(op("arith.negf", "%given", type, "%made", type), arguments={"given": type}))


def sliced(count: int) -> tuple[Value, list[Value]]:
    """The accumulator and its slices."""
    made = the(negated(ACC), "arith.negf")
    return made.result, column_slices(made.result, count, Builder.after(made))


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_a_slice_has_its_share_of_the_columns_and_the_same_threads_of_each_row(count: int) -> None:
    whole, parts = sliced(count)
    place = whole.defining_op
    assert place is not None and len(parts) == count
    before = distribution_at(place, whole.type)
    assert before is not None
    for part in parts:
        assert part.defining_op is not None
        after = distribution_at(part.defining_op, part.type)
        assert parse_type(part.type).shape == (64, 64 // count)  # type: ignore[union-attr]
        assert after is not None and (after.lanes, after.warps) == (before.lanes, before.warps)


def test_slices_are_numbered_by_the_high_bits_of_the_column() -> None:
    """Where element (row, column) goes, followed through reshape, transposition and splits."""
    whole, parts = sliced(4)
    columns: dict[int, int] = {}
    for number, part in enumerate(parts):
        path: list[int] = []
        value = part
        while value.defining_op is not None and value.defining_op.name == "tt.split":
            path.append(value.index)
            value = value.defining_op.operands[0]
        # The last split took the most significant bit, which is the first of the two dimensions.
        columns[number] = path[0] * 2 + path[1]
        assert value.defining_op is not None and value.defining_op.name == "tt.trans"
        assert value.defining_op.operands[0].defining_op.operands[0] is whole  # type: ignore[union-attr]
    assert columns == {0: 0, 1: 1, 2: 2, 3: 3}


def test_one_slice_is_the_tile() -> None:
    made = the(negated(ACC), "arith.negf")
    assert column_slices(made.operands[0], 1, Builder.after(made)) == [made.operands[0]]
