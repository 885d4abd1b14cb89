"""`is_known`: which values are there where an operation is to be made."""

from __future__ import annotations

from tawa.analysis.tma.available_values import is_known
from tawa.ir import Builder, Value
from tests.analysis.tile_programs import TileProgram


def test_a_value_is_known_behind_the_operation_that_makes_it() -> None:
    p = TileProgram(n="i32")
    first = p.number(1)
    second = p.number(2)
    assert first.defining_op is not None and second.defining_op is not None
    between = Builder.before(second.defining_op)
    assert is_known(p.args["n"], between) and is_known(first, between)
    assert not is_known(second, between)
    assert is_known(second, Builder.at_end(p.block))


def test_inside_a_loop_is_known_what_stands_in_front_of_it_and_not_the_other_way_round() -> None:
    p = TileProgram(n="i32")
    inside: list[Value] = []

    def body(args: list[Value]) -> list[Value]:
        inside.extend((args[0], p.number(7)))
        return []

    before = p.number(1)
    loop = p.loop((p.number(0), p.args["n"], before), [], body)
    behind = p.number(2)
    end = Builder.at_end(loop.regions[0].block)
    assert all(is_known(value, end) for value in (p.args["n"], before, *inside))
    assert not is_known(behind, end)
    assert not any(is_known(value, Builder.at_end(p.block)) for value in inside)
