"""Where in the kernel a tensor may be described, and why it can be described there."""

from __future__ import annotations

import pytest

from tawa.analysis.tma.accesses import NotABox
from tawa.analysis.tma.boxes import STRIDE_LIMIT, Box, BoxDim
from tawa.analysis.tma.descriptor_places import Limit, check_descriptor, places_of
from tawa.ir import Operation, Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.known import Proof
from tawa.symbolic.polynomial import constant
from tawa.symbolic.value_ranges import ValueRanges
from tests.analysis.tile_programs import TileProgram

_ARGUMENTS = {"a": "!tt.ptr<f16>", "table": "!tt.ptr<i32>", "n": "i32", "s": "i32"}


class Nest:
    """A load in an inner loop, from %a, or from an address that the outer loop makes of a number of its own."""

    def __init__(self, of_argument: bool) -> None:
        p = self.program = TileProgram((), **_ARGUMENTS)
        bounds = (p.number(0), p.args["n"], p.number(1))
        found: list[Value] = []

        def inner(_: list[Value]) -> list[Value]:
            found.append(p.load(p.splat(self.base, 64)))
            return []

        def outer(_: list[Value]) -> list[Value]:
            number = p.scalar_load(p.args["table"])
            self.base = p.args["a"] if of_argument else p.op("tt.int_to_ptr", [number], "!tt.ptr<f16>")
            self.inner = p.loop(bounds, [], inner)
            return []

        self.outer = p.loop(bounds, [], outer)
        p.finish()
        assert found[0].defining_op is not None
        self.load: Operation = found[0].defining_op


def test_memory_of_an_argument_is_described_before_the_load_s_loop_is_begun() -> None:
    nest = Nest(of_argument=True)
    (place,) = places_of(nest.load, nest.base, nest.program.function, Affine())
    assert place.before is nest.outer and not place.of_tile
    assert place.knows(nest.program.args["n"])


def test_memory_behind_a_pointer_of_a_loop_is_described_in_that_loop_and_last_as_a_tile_alone() -> None:
    nest = Nest(of_argument=False)
    places = places_of(nest.load, nest.base, nest.program.function, Affine())
    assert [(it.before, it.of_tile) for it in places] == [(nest.inner, False), (nest.inner, True)]
    assert not places[0].knows(nest.load.result)


def test_which_iteration_it_is_is_a_place_and_no_size() -> None:
    nest = Nest(of_argument=False)
    usual, of_tile = places_of(nest.load, nest.base, nest.program.function, Affine())
    tile, size = nest.outer.regions[0].block.args[0], nest.program.args["n"]
    assert usual.in_offset(tile) and usual.in_size(size)
    assert not usual.in_size(tile) and of_tile.in_size(tile)
    assert not usual.in_offset(nest.inner.regions[0].block.args[0])


# -- checks ------------------------------------------------------------------------------------------------------------


def checked(stride: str, divisible: tuple[str, ...]) -> tuple[Limit, ...]:
    """What is asked of a tensor of rows that are this far apart: an argument, or a number from %table times 16."""
    p = TileProgram(divisible, **_ARGUMENTS)
    rows = p.mul(p.scalar_load(p.args["table"]), p.number(16)) if stride == "table" else p.args[stride]
    load = p.load(p.splat(p.args["a"], 64, 32)).defining_op
    p.finish()
    assert load is not None
    affine = Affine()
    one, open_end = constant(1), constant(1 << 30)
    dims = (
        BoxDim(affine.poly(rows), (open_end,), constant(0), 64, 0),
        BoxDim(one, (open_end,), constant(0), 32, 1),
    )
    box = Box(load, p.args["a"], constant(0), dims, (), "f16", Proof())
    return check_descriptor(box, ValueRanges(p.function, affine), affine).limits


@pytest.mark.parametrize(
    ("divisible", "reason"),
    [(("s",), "its pointer is not known to be a multiple"), (("a",), "its stride s is not known to be a multiple")],
)
def test_what_is_not_known_to_be_aligned_is_no_tensor(divisible: tuple[str, ...], reason: str) -> None:
    with pytest.raises(NotABox, match=reason):
        checked("s", divisible)


def test_a_stride_of_an_argument_is_taken_and_one_from_memory_is_asked() -> None:
    assert checked("s", ("a", "s")) == ()
    (limit,) = checked("table", ("a",))
    assert limit.below == STRIDE_LIMIT // 2
