"""Twins: which loops and branches go the same way in two groups of one program, and which may not."""

from __future__ import annotations

import pytest

from tawa.analysis.dims.lockstep import TwinInfo
from tawa.dialects.warp import GroupOp
from tawa.ir import Operation
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import binary, branch, compare, for_loop, op, parse, scalar_load, while_loop

_ATOMIC = "atomic_rmw_op = 4 : i32, scope = 1 : i32, sem = 4 : i32"
_STORE = op("tt.store", "%lock, %one", "!tt.ptr<i32>, i32", properties="boundaryCheck = array<i32>, cache = 1 : i32, "
            "evict = 1 : i32")  # fmt: skip

_SLOT = "!ttg.memdesc<1xi32, #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>, #smem, mutable>"
_RING = f"!aref.ring<2 x ({_SLOT})>"
_RINGS = "\n".join(
    f'%ring{number} = "aref.create"() <{{name = "number{number}", fill = "number"}}> : () -> {_RING}'
    for number in (0, 1)
)
"""Rings of numbers, in front of the groups."""


def groups(text: str, other: str | None = None) -> list[GroupOp]:
    """Two groups of one program, in which %group is their number; `other` is the text of the second if it differs."""
    bodies: list[str] = []
    for number, body in enumerate((text, text if other is None else other)):
        constant = op("arith.constant", "", "", "%group", "i32", properties=f"value = {number} : i32")
        bodies.append(
            f'"warp.group"() <{{partition = "consumer{number}", role = "consumer", num_warps = 4 : i32}}> ({{\n'
            f'{constant}\n{body}\n"warp.end"() : () -> ()\n}}) : () -> ()'
        )
    module = parse(programs.kernel("\n".join((_RINGS, *bodies)), arguments=programs.LOCK))
    return [group for it in module.walk() if (group := GroupOp.of(it))]


def decided(text: str) -> list[bool]:
    """For each loop and branch in textual order, whether it goes the same way in both groups."""
    one, other = groups(text)
    twins = TwinInfo()
    assert twins.pair(one.body, other.body)
    return [twins.decides_alike(it) for it in one.op.walk() if _decides(it)]


def _decides(it: Operation) -> bool:
    return it.name in ("scf.for", "scf.if", "scf.while")


def lines(*text: str) -> str:
    return "\n".join(text)


def branch_on(value: str) -> str:
    """A branch that is taken where `value` is 0."""
    return lines(compare(f"{value}_is_zero", value, "zero", 0), branch(_STORE, condition=f"{value}_is_zero"))


SAME = {
    "an argument": binary("it", "addi", "n", "one"),
    "a number in memory": scalar_load("it", "lock"),
}
OTHER = {
    "the group": binary("it", "addi", "group", "one"),
    "what is at an address of the group": lines(
        op("tt.addptr", "%lock, %group", "!tt.ptr<i32>, i32", "%mine", "!tt.ptr<i32>"), scalar_load("it", "mine")
    ),
    "a number that may change meanwhile": scalar_load("it", "lock", volatile=True),
    "who came first": op(
        "tt.atomic_rmw", "%lock, %one, %flag", "!tt.ptr<i32>, i32, i1", "%it", "i32", properties=_ATOMIC
    ),
    "an operation that nobody knows": op("mystery.number", "%one", "i32", "%it", "i32"),
}


@pytest.mark.parametrize("name", SAME)
def test_what_is_computed_alike_from_the_same_values_is_the_same(name: str) -> None:
    assert decided(lines(SAME[name], branch_on("it"))) == [True]


@pytest.mark.parametrize("name", OTHER)
def test_what_comes_from_the_group_or_from_an_effect_is_not(name: str) -> None:
    assert decided(lines(OTHER[name], branch_on("it"))) == [False]


def test_a_loop_makes_as_many_trips_where_its_bounds_are_the_same() -> None:
    assert decided(for_loop(_STORE, lower="n", upper="m")) == [True]
    assert decided(for_loop(_STORE, lower="group")) == [False]
    assert decided(for_loop(_STORE, upper="group")) == [False]


def test_what_a_loop_carries_is_the_same_if_it_begins_and_goes_on_the_same() -> None:
    def carrying(start: str, step: str) -> list[bool]:
        body = lines(branch_on("walk"), binary("walk_next", "addi", "walk", step))
        loop = for_loop(body, carried={"walk": (start, "walk_next", "i32")}, results="%last")
        return decided(lines(loop, branch_on("last")))

    assert carrying("m", "one") == [True, True, True]
    assert carrying("group", "one") == [True, False, False]
    assert carrying("m", "group") == [True, False, False]


def test_values_that_carry_each_other_are_the_same_only_together() -> None:
    def swapping(second: str) -> list[bool]:
        carried = {"left": ("m", "right", "i32"), "right": (second, "left", "i32")}
        return decided(for_loop(branch_on("left"), carried=carried, results="%last:2"))

    assert swapping("n") == [True, True]
    assert swapping("group") == [True, False]


def test_what_was_taken_to_be_the_same_on_the_way_to_a_difference_is_forgotten() -> None:
    carried = {"left": ("m", "left_next", "i32"), "right": ("m", "left", "i32")}
    body = lines(branch_on("left"), branch_on("right"), binary("left_next", "addi", "right", "group"))
    assert decided(for_loop(body, carried=carried, results="%last:2")) == [True, False, False]


def test_where_a_loop_begins_decides_on_its_variable() -> None:
    assert decided(for_loop(branch_on("k"), lower="m")) == [True, True]
    assert decided(for_loop(branch_on("k"), lower="group")) == [False, False]


def test_a_result_depends_on_how_often_its_loop_runs() -> None:
    walk = binary("walk_next", "addi", "walk", "one")
    loop = for_loop(walk, upper="group", carried={"walk": ("m", "walk_next", "i32")}, results="%last")
    assert decided(lines(loop, branch_on("last"))) == [False, False]


def test_a_result_depends_on_which_way_its_branch_goes() -> None:
    def choosing(condition: str) -> list[bool]:
        then, other = binary("pick_then", "addi", "n", "one"), binary("pick_else", "addi", "m", "one")
        picked = branch(then, other, condition="side", result="pick", type="i32")
        return decided(lines(compare("side", condition, "zero", 0), picked, branch_on("pick")))

    assert choosing("m") == [True, True]
    assert choosing("group") == [False, False]


@pytest.mark.parametrize(("upper", "alike"), [("m", True), ("group", False)])
def test_a_while_goes_on_for_as_long_where_its_condition_is_the_same(upper: str, alike: bool) -> None:
    text = lines(while_loop(branch_on("t"), upper=upper), branch_on("t_last"))
    assert decided(text) == [alike, True, alike]


def test_what_a_while_carries_is_the_same_if_it_begins_and_goes_on_the_same() -> None:
    def carrying(start: str, following: str) -> list[bool]:
        text = lines(
            f'%last:2 = "scf.while"(%zero, %{start}) ({{\n^bb0(%t_before: i32, %walk_before: i32):',
            compare("more", "t_before", "m", 2),
            '"scf.condition"(%more, %t_before, %walk_before) : (i1, i32, i32) -> ()\n}, {\n^bb0(%t: i32, %walk: i32):',
            branch_on("t"),
            branch_on("walk"),
            binary("t_next", "addi", "t", "one"),
            f'"scf.yield"(%t_next, %{following}) : (i32, i32) -> ()\n}}) : (i32, i32) -> (i32, i32)',
            binary("end", "addi", "last#1", "zero"),
        )
        return decided(lines(text, branch_on("end")))

    assert carrying("n", "walk") == [True, True, True, True]
    assert carrying("group", "walk") == [True, True, False, False]
    assert carrying("n", "group") == [True, True, False, False]


def test_a_reduction_is_the_same_if_its_tile_is() -> None:
    def reducing(tile: str) -> list[bool]:
        add = op("arith.addf", "%x, %y", "f32, f32", "%sum", "f32")
        rows = "tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>"
        reduction = (
            f'%row = "tt.reduce"({tile}) <{{axis = 1 : i32}}> ({{\n^bb0(%x: f32, %y: f32):\n{add}\n'
            f'"tt.reduce.return"(%sum) : (f32) -> ()\n}}) : ({programs.ACC}) -> {rows}'
        )
        made = op("tt.splat", "%part", "f32", "%tile", programs.ACC)
        part = op("arith.sitofp", "%group", "i32", "%part", "f32")
        picked = op("tt.unsplat", "%row", rows, "%number", "f32")
        it = op("arith.fptosi", "%number", "f32", "%it", "i32")
        return decided(lines(part, made, reduction, picked, it, branch_on("it")))

    assert reducing("%zeros") == [True]
    assert reducing("%tile") == [False]


def received(ring: str, trips: str) -> str:
    """A branch on the number in the slot of a ring that comes after `trips` others."""
    index, row = "!aref.index<2>", "tensor<1xi32, #ttg.slice<{dim = 1, parent = #blocked}>>"
    walk = op("aref.advance", "%walk", index, "%walk_next", index)
    return lines(
        op("aref.first", f"%{ring}", _RING, "%first", index),
        for_loop(walk, upper=trips, carried={"walk": ("first", "walk_next", index)}, results="%last"),
        op("aref.get", f"%{ring}, %last", f"{_RING}, {index}", "%slot", _SLOT),
        op("ttg.local_load", "%slot", _SLOT, "%loaded", row),
        op("tt.unsplat", "%loaded", row, "%it", "i32"),
        branch_on("it"),
    )


def test_what_comes_out_of_one_slot_of_a_ring_is_the_same() -> None:
    assert decided(received("ring0", "n")) == [True, True]
    assert decided(received("ring0", "group")) == [False, False]
    one, other = groups(received("ring0", "n"), received("ring1", "n"))
    twins = TwinInfo()
    assert twins.pair(one.body, other.body)
    assert [twins.decides_alike(it) for it in one.op.walk() if _decides(it)] == [True, False]


def test_texts_of_two_shapes_are_no_twins() -> None:
    for other in (binary("it", "subi", "n", "one"), "", lines(binary("it", "addi", "n", "one"), _STORE)):
        one, two = groups(binary("it", "addi", "n", "one"), other)
        assert not TwinInfo().pair(one.body, two.body)
    one, two = groups(branch(_STORE), branch(""))
    assert not TwinInfo().pair(one.body, two.body)
