"""`ordered_rows`: the descriptor that brings rows in another order, and what a launch must satisfy for it."""

from __future__ import annotations

from typing import Any

from tawa.analysis.tma.ordered_rows import OrderedRows, RowLoad
from tawa.dialects.tt import DescriptorLoadOp
from tawa.ir import Module, Operation
from tawa.machine.row_order import RowOrder
from tawa.symbolic.host.launch_spec import LaunchSpec
from tests.analysis.tile_programs import TileProgram

ORDER = RowOrder((1, 2, 3, 4, 5, 0))
SHAPE, STRIDES = (2, 3, 100, 64), (19200, 6400, 64, 1)


def program(box: str = "1x1x64x64", element: str = "f8E4M3FN", step: int = 64) -> tuple[Module, Operation]:
    """A load of rows at a multiple of `step`, by a descriptor that the user passes."""
    rank = box.count("x") + 1
    types = {f"{kind}{at}": type for kind, type in (("n", "i32"), ("s", "i64")) for at in range(rank)}
    found = TileProgram(d=f"!tt.tensordesc<tensor<{box}x{element}>>", **types)
    zero, row = found.number(0), found.mul(found.pid(), found.number(step))
    indices = [zero] * (rank - 2) + [row, zero]
    tile = found.op("tt.descriptor_load", [found.args["d"], *indices], f"tensor<64x64x{element}>")
    assert tile.defining_op is not None
    return found.finish(), tile.defining_op


def load(*args: Any, **more: Any) -> RowLoad:
    module, op = program(*args, **more)
    found = OrderedRows(module, LaunchSpec()).find(op)
    assert isinstance(found, RowLoad), found
    return found


def test_the_runs_of_the_order_take_the_place_of_the_rows() -> None:
    spec = load().ordered(ORDER)
    assert spec.block == (1, 1, 2, 32, 64)
    address, shape, strides = spec.evaluate((4096, *SHAPE, *STRIDES))
    assert (address, shape, strides) == (4096, (2, 3, 2, 50, 64), (19200, 6400, 64, 128, 1))


def test_a_launch_needs_rows_that_the_order_divides_and_zeros_outside() -> None:
    conditions = load().conditions(ORDER)

    def holds(rows: int = 100, address: int = 4096) -> bool:
        values = (address, 2, 3, rows, 64, 19200, 6400, 64, 1)
        return all(condition.holds(values) for condition in conditions)

    assert holds() and holds(rows=2)
    assert not holds(rows=99) and not holds(rows=0)
    assert not holds(address=0)  # a descriptor that fills with NaN


def test_a_tensor_of_fewer_dimensions_leaves_more_room() -> None:
    assert load().room == 2 and load("64x64").room == 4


def test_the_first_row_of_a_tile_must_be_a_multiple_of_the_unit() -> None:
    for step, reason in ((64, ""), (2, ""), (3, "the first row of the tile is not known to be a multiple of 2")):
        module, op = program(step=step)
        rows = OrderedRows(module, LaunchSpec())
        found = rows.find(op)
        assert isinstance(found, RowLoad) and rows.why_not(found, ORDER) == reason


def test_a_descriptor_without_room_is_refused() -> None:
    module, op = program("1x1x1x64x64")
    rows = OrderedRows(module, LaunchSpec())
    found = rows.find(op)
    assert isinstance(found, RowLoad) and found.room == 1
    assert rows.why_not(found, ORDER) == "a descriptor has 5 dimensions, and this one has 5 already"


def test_a_descriptor_that_tawa_added_is_known_by_its_spec() -> None:
    found = load()
    module, op = program()
    descriptor = DescriptorLoadOp(op).descriptor
    added = LaunchSpec((found.spec,))
    assert descriptor.index == found.spec.argument
    again = OrderedRows(module, added).find(op)
    assert isinstance(again, RowLoad) and (again.spec, again.user) == (found.spec, "")
    assert len(again.conditions(ORDER)) == len(found.conditions(ORDER)) - 1  # its zeros are Tawa's own


def test_a_descriptor_that_the_kernel_makes_is_refused() -> None:
    program = TileProgram(p="!tt.ptr<f8E4M3FN>")
    zero, size, stride = program.number(0), program.number(64), program.number(64, "i64")
    one = program.number(1, "i64")
    type = "!tt.tensordesc<tensor<64x64xf8E4M3FN>>"
    made = program.op("tt.make_tensor_descriptor", [program.args["p"], size, size, stride, one], type)
    tile = program.op("tt.descriptor_load", [made, zero, zero], "tensor<64x64xf8E4M3FN>")
    assert tile.defining_op is not None
    rows = OrderedRows(program.finish(), LaunchSpec())
    assert rows.find(tile.defining_op) == "its descriptor is not an argument of the kernel"


def test_integers_are_named_as_a_launch_names_them() -> None:
    spec = load(element="si8").ordered(ORDER)
    assert (spec.element, spec.element_bytes) == ("i8", 1)
