"""`hold_waits`: a wait for dots stands behind the reductions that were scheduled in front of it."""

from __future__ import annotations

import pytest

from tawa.dialects.tt import HoldOp, hands_on
from tawa.dialects.ttng import WarpGroupDotWaitOp
from tawa.ir import Module, Operation
from tawa.transforms.hold_waits import HoldWaits
from tests.support import programs
from tests.support.programs import ACC, alloc, binary, dot, kernel, load, op, ops_named, store

ROWS = "tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>"
NUMBERS = "tensor<64x64xi32, #mma>"


def reduce(result: str, source: str, type: str = ACC, to: str = ROWS, element: str = "f32", add: str = "addf") -> str:
    """The sum of each row."""
    return (
        f'%{result} = "tt.reduce"(%{source}) <{{axis = 1 : i32}}> ({{\n^bb0(%l: {element}, %r: {element}):\n'
        f'%p = "arith.{add}"(%l, %r) : ({element}, {element}) -> {element}\n'
        f'"tt.reduce.return"(%p) : ({element}) -> ()\n}}) : ({type}) -> {to}'
    )


def wait(result: str, value: str) -> str:
    return op("ttng.warp_group_dot_wait", f"%{value}", ACC, f"%{result}", ACC, properties="pendings = 0 : i32")


def held(*between: str) -> tuple[Module, list[Operation]]:
    """A dot, what is `between` it and its wait, and the wait; with what the pass put in front of that."""
    start = (load("a", "a_desc", "%zero, %zero"), alloc("x", "a"), dot("d", "x", "x", "zeros"))
    module = programs.parse(kernel("\n".join((*start, *between, wait("acc", "d"), store()))))
    changed = HoldWaits().run(module).changed
    found = [each for each in ops_named(module, HoldOp.NAME) if hands_on(each)]
    assert changed == bool(found)
    return module, found


def test_a_wait_is_held_by_the_reduction_in_front_of_it() -> None:
    module, (hold,) = held(reduce("sum", "zeros"))
    (end,) = ops_named(module, WarpGroupDotWaitOp.NAME)
    assert hold.parent is end.parent and hold.parent is not None
    assert hold.parent.ops.index(hold) == hold.parent.ops.index(end) - 1
    assert [value.hint for value in hold.operands] == ["sum"]


def test_of_reductions_that_build_on_each_other_the_last_one_holds() -> None:
    wide = op("tt.expand_dims", "%top", ROWS, "%column", "tensor<64x1xf32, #mma>", properties="axis = 1 : i32")
    whole = op("tt.broadcast", "%column", "tensor<64x1xf32, #mma>", "%spread", ACC)
    less = binary("less", "subf", "zeros", "spread", ACC)
    _, holds = held(reduce("top", "zeros"), wide, whole, less, reduce("sum", "less"))
    assert [hold.operands[0].hint for hold in holds] == ["sum"]


def test_each_of_two_reductions_that_have_nothing_to_do_with_each_other_holds() -> None:
    _, holds = held(reduce("one", "zeros"), reduce("other", "zeros"))
    assert [hold.operands[0].hint for hold in holds] == ["one", "other"]


@pytest.mark.parametrize(
    "between",
    [
        (),
        (binary("twice", "addf", "zeros", "zeros", ACC),),
        (reduce("sum", "zeros"), dot("e", "x", "x", "zeros")),
        (
            op("arith.constant", "", "", "%counts", NUMBERS, properties=f"value = dense<0> : {NUMBERS}"),
            reduce("sum", "counts", NUMBERS, ROWS.replace("f32", "i32"), "i32", "addi"),
        ),
    ],
    ids=["nothing", "no reduction", "a dot behind the reduction", "whole numbers"],
)
def test_other_waits_are_left_alone(between: tuple[str, ...]) -> None:
    assert held(*between)[1] == []
