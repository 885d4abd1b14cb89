"""How the dimensions of an operation's tiles are tied, and which of them it mixes."""

from __future__ import annotations

import pytest

from tawa.ir import Operation
from tawa.symbolic.dim_relations import MixedError, box_dims, demanded, has_rows, relations_of
from tests.analysis.tile_programs import TileProgram
from tests.cases.programs.ttgir import parse, the
from tests.cases.programs.ttir import kernel


def tied(op: Operation) -> set[frozenset[str]]:
    """The ties of an operation whose values have names, as text: ``a0`` is the first dimension of %a."""
    ties = relations_of(op).ties
    return {frozenset(f"{place.value.hint}{place.dim}" for place in tie) for tie in ties if tie}


def test_a_dot_ties_its_rows_and_columns_and_mixes_what_it_contracts() -> None:
    dot = the(parse(kernel()), "tt.dot")
    assert tied(dot) == {frozenset(("a0", "zeros0", "s0")), frozenset(("b1", "zeros1", "s1")), frozenset(("a1", "b0"))}
    assert {(it.place.value.hint, it.place.dim) for it in relations_of(dot).mixed} == {("a", 1), ("b", 0)}


@pytest.mark.parametrize(("rows", "ties"), [(64, 2), (32, 0)], ids=["whole", "packed along the rows"])
def test_a_scaled_dot_ties_a_row_to_its_scales(rows: int, ties: int) -> None:
    p = TileProgram(
        a=f"tensor<{rows}x128xi8>", b="tensor<128x32xi8>", c="tensor<64x32xf32>", s="tensor<64x4xi8>",
        t="tensor<32x4xi8>",
    )  # fmt: skip
    sizes = "array<i32: 1, 1, 1, 1, 1>"
    dot = p.op("tt.dot_scaled", list(p.args.values()), "tensor<64x32xf32>", operandSegmentSizes=sizes).defining_op
    assert dot is not None
    found = relations_of(dot)
    assert [sorted(it.index for it in tie if it.user) for tie in found.ties] == [[0, 2, 3], [1, 2, 4]][:ties]
    mixed = {(it.place.index, it.place.dim) for it in found.mixed if it.place.user}
    assert mixed == ({(0, 1), (1, 0), (3, 1), (4, 1)} if ties else {(at, dim) for at in range(5) for dim in (0, 1)})


def test_a_transposed_tile_needs_the_other_dimension() -> None:
    p = TileProgram(x="tensor<64x32xf16>")
    transposed = p.op("tt.trans", [p.args["x"]], "tensor<32x64xf16>", order="array<i32: 1, 0>").defining_op
    assert transposed is not None
    assert (demanded(transposed, 0), demanded(transposed, 1)) == ({0: 1}, {0: 0})


def test_a_reshape_mixes_only_the_dimensions_that_it_cuts() -> None:
    p = TileProgram(x="tensor<64x32xf16>")
    cut = p.op("tt.reshape", [p.args["x"]], "tensor<64x4x8xf16>").defining_op
    assert cut is not None
    assert demanded(cut, 0) == {0: 0}
    with pytest.raises(MixedError) as found:
        demanded(cut, 1)
    assert found.value.mixed.reason == "a reshape of 64x32 to 64x4x8 mixes {} with other dimensions"


def test_an_operation_that_no_rule_knows_needs_everything_whole() -> None:
    p = TileProgram(x="tensor<64x32xf16>")
    unknown = p.op("mystery.tile", [p.args["x"]], "tensor<64x32xf16>").defining_op
    assert unknown is not None
    found = relations_of(unknown)
    assert found.ties == () and len(found.mixed) == 4
    assert found.mixed[0].reason == "nothing is known of what mystery.tile does with {}"


def test_a_size_of_one_ties_nothing() -> None:
    p = TileProgram(x="tensor<1x32xf16>", y="tensor<64x32xf16>")
    spread = p.broadcast(p.args["x"], 64, 32).defining_op
    assert spread is not None
    assert (demanded(spread, 0), demanded(spread, 1)) == ({}, {0: 1})
    assert has_rows(p.args["y"]) and not has_rows(p.args["x"])


@pytest.mark.parametrize(
    ("box", "tile", "expected"),
    [
        ((128, 64), (128, 64), (0, 1)),
        ((1, 128, 64), (128, 64), (1, 2)),
        ((1, 128, 64), (1, 128, 64), (0, 1, 2)),
        ((128, 1, 64), (128, 64), None),
        ((128, 64), (64, 64), None),
        ((64,), (1, 64), None),
    ],
)
def test_a_tile_may_leave_out_leading_ones_of_its_box(
    box: tuple[int, ...], tile: tuple[int, ...], expected: tuple[int, ...] | None
) -> None:
    assert box_dims(box, tile) == expected
