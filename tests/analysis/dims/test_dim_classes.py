"""`dim_classes`: which dimensions of which tiles are one, element by element."""

from __future__ import annotations

from tawa.analysis.dims.dim_classes import DimClasses
from tawa.dialects.tt import DotOp
from tests.analysis.tile_programs import TileProgram

DOT = {"inputPrecision": "0 : i32", "maxNumImpreciseAcc": "0 : i32"}
TILE = "tensor<64x64xf32>"


def product() -> tuple[TileProgram, DimClasses]:
    """a · b + row, with a range beside it that indexes nothing."""
    program = TileProgram(a=TILE, b=TILE, row="tensor<64xf32>")
    program.range(64)
    a, b, row = (program.args[name] for name in ("a", "b", "row"))
    made = program.op("tt.dot", [a, b, program.spread(row, 0, 64, 64)], TILE, **DOT)
    program.op("math.exp2", [made], TILE)
    return program, DimClasses(list(program.finish().walk()))


def test_rows_of_a_product_are_those_of_its_left_operand_and_columns_those_of_its_right_one() -> None:
    program, classes = product()
    a, b, row = (program.args[name] for name in ("a", "b", "row"))
    (dot,) = [op for op in classes.ops if DotOp.matches(op)]
    (power,) = [op for op in classes.ops if op.name == "math.exp2"]
    rows, columns, summed = (classes.root(node) for node in ((a, 0), (b, 1), (a, 1)))
    assert len({rows, columns, summed}) == 3
    assert classes.root((dot.result, 0)) == classes.root((power.result, 0)) == rows
    assert classes.root((dot.result, 1)) == classes.root((row, 0)) == columns
    assert classes.root((b, 0)) == summed
    assert set(classes.members(summed)) == {(a, 1), (b, 0)}


def test_a_tie_that_is_not_followed_joins_nothing() -> None:
    program, classes = product()
    a, b = program.args["a"], program.args["b"]
    apart = DimClasses(classes.ops, lambda op, tie: not DotOp.matches(op))
    assert apart.root((a, 1)) != apart.root((b, 0))


def test_tiles_that_are_computed_from_scalars_alone_are_free() -> None:
    _, classes = product()
    assert {value.defining_op.name for value in classes.free if value.defining_op} == {"tt.make_range"}
