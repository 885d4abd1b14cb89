"""Which wgmmas of a loop may stay in flight while its next iteration begins, and what that takes."""

from __future__ import annotations

import pytest

from tawa.analysis.loops.async_wgmma import dots_in, is_aside, obstacle, own_buffer_bytes, own_buffers
from tawa.dialects.parameters import STAYS
from tawa.dialects.scf import ForOp
from tests.cases.programs import staged
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import ACC, TILE_BYTES, dot, for_loop, iteration, kernel, op, parse, store, the


def loop_of(text: str) -> ForOp:
    return ForOp(the(parse(text), "scf.for"))


def summing(body: str, result: str = "next") -> ForOp:
    """The loop of such a body that carries one sum."""
    loop = for_loop(body, carried={"sum": ("zeros", result, ACC)}, results="%acc")
    return loop_of(kernel(f"{loop}\n{store()}"))


def test_a_sum_over_the_iterations_may_stay_in_flight() -> None:
    assert obstacle(loop_of(programs.tile_gemm())) == ""
    assert obstacle(loop_of(programs.gate_up())) == ""
    assert obstacle(summing(f"{iteration(result='half')}\n{dot('next', 'x', 'y', 'half')}")) == ""


def test_each_iteration_in_flight_takes_the_buffers_that_it_fills_itself() -> None:
    loop = loop_of(programs.tile_gemm())
    buffers = [view.op for view in own_buffers(loop)]
    assert len(buffers) == 2 and own_buffer_bytes(loop) == 2 * TILE_BYTES
    assert own_buffer_bytes(loop, buffers[:1]) == TILE_BYTES
    assert own_buffer_bytes(loop, buffers) == 0


@pytest.mark.parametrize(
    ("body", "result", "reason"),
    [
        (iteration("zeros"), "next", "the accumulator does not come from the previous iteration"),
        (
            "\n".join((iteration(), op("arith.addf", "%sum, %sum", f"{ACC}, {ACC}", "%twice", ACC))),
            "next",
            "the accumulator has another use in the loop",
        ),
        (
            "\n".join((iteration(), op("arith.addf", "%next, %zeros", f"{ACC}, {ACC}", "%more", ACC))),
            "more",
            "the result of the dot is used inside the loop",
        ),
    ],
)
def test_a_dot_whose_sum_is_needed_at_once_may_not(body: str, result: str, reason: str) -> None:
    loop = summing(body, result)
    assert obstacle(loop) == reason
    assert own_buffer_bytes(loop) == 0


def test_sums_that_change_places_may_not() -> None:
    body = f"{iteration('one_sum', 'one_next')}\n{iteration('other', 'other_next', '_2')}"
    carried = {"one_sum": ("zeros", "other_next", ACC), "other": ("zeros", "one_next", ACC)}
    loop = loop_of(kernel(for_loop(body, carried=carried, results="%acc:2")))
    assert obstacle(loop) == "the accumulator moves to another variable"


def test_an_operand_in_registers_may_not() -> None:
    tile = "\n".join((programs.load("b", "b_desc"), programs.alloc("y", "b")))
    loop = summing(f"{tile}\n{staged.register_dot('next', 'zeros', 'y', 'sum')}")
    assert len(dots_in(loop)) == 1
    assert obstacle(loop) == "operand A is in registers"


def test_a_loop_with_a_load_that_stays_is_one_aside_and_gets_no_buffers() -> None:
    load = op("tt.load", "%out", "!tt.ptr<f16>", "%number", "f16", properties=_PLAIN)
    loop = summing(f"{load}\n{iteration()}")
    assert not is_aside(loop) and own_buffer_bytes(loop) == 2 * TILE_BYTES
    the_load = next(it for it in loop.body.ops if it.name == "tt.load")
    the_load.attributes[STAYS] = "unit"
    assert is_aside(loop) and own_buffer_bytes(loop) == 0


_PLAIN = (
    "boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, "
    "operandSegmentSizes = array<i32: 1, 0, 0>"
)
