"""What stands in the way of an affine address is named, with what to write instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tawa.analysis.tma.obstacles import find_obstacle
from tawa.ir import Value
from tawa.symbolic.affine import Affine
from tests.analysis.tile_programs import TileProgram

ARGUMENTS = {"a": "!tt.ptr<f16>", "m": "i32", "s": "i32", "list": "!tt.ptr<i32>"}
Rows = Callable[[TileProgram], Value]


def counted(p: TileProgram) -> Value:
    return p.add(p.splat(p.args["m"], 64), p.range(64))


ROWS: dict[str, tuple[Rows, str, str, str]] = {
    "divided": (
        lambda p: p.binary("divsi", counted(p), p.splat(p.number(8), 64)),
        "arith.divsi",
        "divided by 8, and it is not known to begin at a multiple of 8",
        "k // 8 + ks // 8",
    ),
    "shifted": (
        lambda p: p.binary("shrsi", counted(p), p.splat(p.number(3), 64)),
        "arith.shrsi",
        "divided by 8",
        "k // 8 + ks // 8",
    ),
    "divided by an argument": (
        lambda p: p.binary("divsi", counted(p), p.splat(p.args["s"], 64)),
        "arith.divsi",
        "by a number that is no constant",
        "tl.constexpr",
    ),
    "gathered": (
        lambda p: p.load(p.add(p.splat(p.args["list"], 64), p.range(64))),
        "tt.load",
        "loaded from memory",
        "",
    ),
    "squared": (
        lambda p: p.mul(counted(p), p.range(64)),
        "arith.muli",
        "two indices are multiplied",
        "columns[None, :]",
    ),
    "exclusive or": (
        lambda p: p.binary("xori", counted(p), p.splat(p.number(1), 64)),
        "arith.xori",
        "^ is no sum of multiples of the place",
        "rows[:, None] * stride",
    ),
}


@pytest.mark.parametrize("case", ROWS)
def test_the_operation_that_is_not_affine_is_named_with_its_cure(case: str) -> None:
    rows, name, reason, cure = ROWS[case]
    p = TileProgram((), **ARGUMENTS)
    offsets = p.broadcast(p.mul(p.expand(rows(p), 1), p.splat(p.args["s"], 64, 1)), 64, 32)
    address = p.add(p.splat(p.args["a"], 64, 32), offsets)
    p.load(address)
    found = find_obstacle(Affine(), address)
    assert found.op is not None and found.op.name == name
    assert reason in found.reason and found.reason.startswith("its address is not affine: ") and cure in found.cure


def test_an_address_that_a_loop_carries_is_followed_to_its_start() -> None:
    p = TileProgram((), **ARGUMENTS)
    start = p.add(p.splat(p.args["list"], 64), p.load(p.add(p.splat(p.args["list"], 64), p.range(64))))
    at: list[Value] = []

    def body(args: list[Value]) -> list[Value]:
        at.append(args[1])
        p.load(args[1])
        return [p.add(args[1], p.splat(p.number(64), 64))]

    p.loop((p.number(0), p.args["m"], p.number(64)), [start], body)
    found = find_obstacle(Affine(), at[0])
    assert found.op is not None and found.op.name == "tt.load" and found.op.parent_op is not None
