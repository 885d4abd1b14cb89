"""Host sizes: what the launcher can compute of a kernel, and the conditions on the descriptor of a box."""

from __future__ import annotations

import pytest

from tawa.analysis.tma.accesses import NotABox
from tawa.analysis.tma.boxes import OPEN, Box, BoxFinder
from tawa.analysis.tma.host_sizes import HostSizes
from tawa.ir import Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.host.expr import Apply, Argument, Number
from tawa.symbolic.polynomial import constant
from tawa.symbolic.value_ranges import ValueRanges
from tests.analysis.tile_programs import LESS, TileProgram

ARGUMENTS = {"a": "!tt.ptr<f16>", "m": "i32", "k": "i32", "s": "i32", "list": "!tt.ptr<i32>"}
M, K = Argument(1, "m"), Argument(2, "k")


def sizes(p: TileProgram) -> HostSizes:
    return HostSizes(p.module, p.function, Affine())


def knows(host: HostSizes, value: Value) -> bool:
    return all(host.in_size(atom) for atom in host.affine.atoms.of(host.affine.poly(value)))


def box_of(
    p: TileProgram, host: HostSizes, stride: Value, mask: bool = True, columns: Value | None = None
) -> tuple[Box, ValueRanges]:
    """A load of 64 x 32 elements at [64·pid, 0], with m rows, and as many columns as are given."""
    rows = p.expand(p.add(p.splat(p.mul(p.pid(), p.number(64)), 64), p.range(64)), 1)
    offsets = p.broadcast(p.mul(rows, p.splat(stride, 64, 1)), 64, 32)
    address = p.add(p.splat(p.args["a"], 64, 32), p.add(offsets, p.spread(p.range(32), 0, 64, 32)))
    below = p.broadcast(p.compare(rows, p.splat(p.args["m"], 64, 1), LESS), 64, 32)
    if columns is not None:
        left = p.compare(p.expand(p.range(32), 0), p.splat(columns, 1, 32), LESS)
        below = p.both(below, p.broadcast(left, 64, 32))
    load = p.load(address, below, p.zeros(address)) if mask else p.load(address)
    facts = ValueRanges(p.function, host.affine)
    op = load.defining_op
    assert op is not None
    return BoxFinder(host.affine, facts, host.in_size, host.in_offset).find(op), facts


def test_the_launcher_knows_arithmetic_on_arguments_but_no_memory() -> None:
    p = TileProgram((), **ARGUMENTS)
    host = sizes(p)
    tiles = p.binary("divsi", p.add(p.args["m"], p.number(63)), p.number(64))
    assert knows(host, tiles) and knows(host, p.binary("minsi", tiles, p.args["k"]))
    assert not knows(host, p.pid()) and not knows(host, p.scalar_load(p.args["list"]))
    assert not knows(host, p.binary("divsi", p.pid(), p.args["m"]))


def test_the_sizes_of_a_users_descriptor_are_none_of_the_launch() -> None:
    p = TileProgram((), d="!tt.tensordesc<tensor<64x32xf16>>", d0="i32", d1="i32", d2="i64", d3="i64", m="i32")
    host = sizes(p)
    assert [knows(host, p.args[name]) for name in ("d0", "d1", "d2", "d3", "m")] == [False, False, False, False, True]


def test_a_polynomial_becomes_a_host_expression() -> None:
    p = TileProgram((), **ARGUMENTS)
    host = sizes(p)
    value = p.add(p.mul(p.args["m"], p.args["k"]), p.binary("remsi", p.args["m"], p.args["k"]))
    found = host.value(host.affine.poly(value) * constant(3))
    assert found.evaluate((0, 17, 5)) == 3 * (17 * 5 + 17 % 5)
    assert Apply("remainder", (M, K)).arguments <= found.arguments


def test_a_box_is_described_by_its_sizes_and_strides() -> None:
    p = TileProgram(("a",), **ARGUMENTS)
    host = sizes(p)
    box, facts = box_of(p, host, p.args["s"])
    spec = host.spec(box)
    assert (spec.base, spec.block, spec.shape) == (0, (64, 32), (M, Number(32)))
    texts = [str(condition) for condition in host.conditions(box, facts)]
    assert texts == ["(s * 2) >= 16 and (s * 2) <= 1099511627775 and (s * 2) % 16 == 0", f"m >= 1 and m <= {OPEN}"]
    assert not host.aligned(box, facts)
    assert [str(condition) for condition in host.beside(box, [p.args["k"]])] == ["k >= 0", texts[0]]


def test_an_open_dimension_ends_where_the_last_box_does() -> None:
    p = TileProgram(("a", "s"), **ARGUMENTS)
    host = sizes(p)
    box, facts = box_of(p, host, p.args["s"], mask=False)
    assert host.size(box.dims[0]) == Number(OPEN) and host.size(box.dims[1]) == Number(32)
    assert host.aligned(box, facts)


def rows_of(divisible: tuple[str, ...] = (), columns: int | str = "k") -> list[str]:
    """The conditions on the rows of a store of fp16."""
    p = TileProgram(("a", "s", *divisible), **ARGUMENTS)
    host = sizes(p)
    bound = p.args[columns] if isinstance(columns, str) else p.number(columns)
    found = host.whole_rows(*box_of(p, host, p.args["s"], columns=bound))
    assert all(condition.only_for == "stores" for condition in found)
    return [str(condition) for condition in found]


def test_rows_of_a_store_end_at_a_multiple_of_16_bytes() -> None:
    """TMA stores whole chunks of 16 bytes."""
    assert rows_of() == ["(k * 2) % 16 == 0"]
    assert rows_of(("k",)) == rows_of(columns=24) == []
    with pytest.raises(NotABox, match="its rows end after 40 bytes, and TMA writes whole chunks of 16 bytes"):
        rows_of(columns=20)


def test_a_store_without_a_mask_writes_whole_boxes() -> None:
    p = TileProgram(("a", "s"), **ARGUMENTS)
    host = sizes(p)
    assert host.whole_rows(*box_of(p, host, p.args["s"], mask=False)) == ()


def test_a_constant_that_tma_does_not_take_declines_the_box() -> None:
    p = TileProgram(("a",), **ARGUMENTS)
    host = sizes(p)
    box, facts = box_of(p, host, p.number(20))
    with pytest.raises(NotABox, match="TMA limits strides"):
        host.conditions(box, facts)
