"""Along which axis of the grid programs get longer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tawa.analysis.work.longer_programs import LongerInfo, find_longer_programs
from tawa.ir import Value
from tests.analysis.tile_programs import TileProgram

Bounds = Callable[[TileProgram], list[tuple[Value, Value]]]


def longer(bounds: Bounds, dots: bool = True) -> LongerInfo | None:
    """Of a program with loops in a row. bounds: lower and upper bound of each."""
    p = TileProgram(n="i32", m="i32")

    def body(args: list[Value]) -> list[Value]:
        if dots:
            ones = p.op("arith.constant", [], "tensor<16x16xf16>", value="dense<1.000000e+00> : tensor<16x16xf16>")
            p.dot(ones, ones)
        return []

    for lower, upper in bounds(p):
        p.loop((lower, upper, p.number(64)), [], body)
    return find_longer_programs(p.finish() and p.function)


def row(p: TileProgram, axis: int = 0, more: int = 1) -> Value:
    return p.mul(p.add(p.pid(axis), p.number(more)), p.number(128))


def two_loops(p: TileProgram) -> list[tuple[Value, Value]]:
    """As causal attention has them: blocks without a mask, then those on the diagonal."""
    full, end = p.binary("minsi", row(p, more=0), p.args["n"]), p.binary("minsi", row(p), p.args["n"])
    return [(p.number(0), full), (full, end)]


FOUND: dict[str, tuple[Bounds, LongerInfo | None]] = {
    "causal": (lambda p: [(p.number(0), row(p))], LongerInfo(0, True)),
    "causal, of another axis": (
        lambda p: [(p.number(0), p.binary("minsi", row(p, 2), p.args["n"]))], LongerInfo(2, True)
    ),
    "causal in two loops": (two_loops, LongerInfo(0, True)),
    "keys of a causal mask": (lambda p: [(row(p), p.args["n"])], LongerInfo(0, False)),
    "from the end": (
        lambda p: [(p.number(0), p.mul(p.binary("subi", p.args["n"], p.pid()), p.number(128)))], LongerInfo(0, False)
    ),
    "negative step": (lambda p: [(p.number(0), p.mul(p.pid(), p.number(-64)))], LongerInfo(0, False)),
    "a window": (lambda p: [(row(p, more=0), row(p))], None),
    "equal": (lambda p: [(p.number(0), p.args["n"])], None),
    "two axes": (lambda p: [(p.number(0), p.add(row(p, 0), row(p, 1)))], None),
    "up and down": (lambda p: [(p.number(0), row(p)), (row(p), p.args["n"])], None),
    "blocks of eight": (lambda p: [(p.number(0), p.binary("divsi", row(p), p.number(8)))], LongerInfo(0, True)),
    "a remainder": (lambda p: [(p.number(0), p.binary("remsi", p.pid(), p.number(4)))], None),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_programs_get_longer_where_the_loops_with_dots_do(name: str) -> None:
    bounds, wanted = FOUND[name]
    assert longer(bounds) == wanted


def test_loops_without_dots_do_not_count() -> None:
    assert longer(lambda p: [(p.number(0), row(p))], dots=False) is None
