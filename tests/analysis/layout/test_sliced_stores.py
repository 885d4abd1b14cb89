"""`sliced_stores`: whether a tile can be stored by TMA in slices of its columns."""

from __future__ import annotations

import pytest

from tawa.analysis.layout.sliced_stores import slices_in_registers, unconverted, why_no_slices
from tawa.dialects.tt import DescriptorStoreOp
from tawa.ir import Module
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import kernel, op, parse, the

ACC, TILE = programs.ACC, programs.TILE


def negated(type: str) -> Module:
    """A kernel that negates a tile."""
    return parse(kernel(op("arith.negf", "%given", type, "%made", type), arguments={"given": type}))


@pytest.mark.parametrize(
    ("type", "count", "fits"), [(ACC, 8, True), (ACC, 16, False), (ACC, 3, False), (TILE, 2, False)]
)
def test_columns_that_lanes_number_cannot_be_taken_apart(type: str, count: int, fits: bool) -> None:
    """A thread of an accumulator has 2 of 8 neighbouring columns; eight threads have a row of a blocked tile."""
    assert slices_in_registers(the(negated(type), "arith.negf").result, count) is fits


def test_an_argument_has_no_layout_that_is_known() -> None:
    assert not slices_in_registers(the(negated(ACC), "arith.negf").operands[0], 2)


def test_a_slice_holds_whole_boxes_of_tma() -> None:
    """Rows of the stored tile are one box wide, so that there are no slices of them."""
    module = parse(kernel("\n".join((programs.gemm_loop(), programs.store()))))
    store = next(view for op in module.walk() if (view := DescriptorStoreOp.of(op)))
    assert why_no_slices(store, 1) == ""
    assert "a box of TMA" in why_no_slices(store, 2)
    assert unconverted(store).type != store.source.type or unconverted(store) is store.source
