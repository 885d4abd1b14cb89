"""Affine forms, masks, and what is known of scalars."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.analysis.affine import Affine
from tawa.analysis.facts import DIVISORS, LOADED, Facts, Proof
from tawa.analysis.masks import conjuncts
from tawa.analysis.polynomials import Poly, Trip, constant
from tawa.ir import Value
from tests.analysis.tile_programs import GREATER_EQUAL, LESS, LESS_EQUAL, TileProgram

ARGUMENTS = {"a": "!tt.ptr<f16>", "m": "i32", "k": "i32", "s": "i32", "wide": "i64"}


def program(*divisible: str) -> TileProgram:
    return TileProgram(divisible, **ARGUMENTS)


def text(affine: Affine, value: Value) -> str:
    """A form as text: ``a + 64*pid + s*r0 + r1 where m + -64*pid > r0``."""
    form = affine.form(value)
    if form is None:
        return "none"
    parts = [form.base.hint] if form.base is not None else []
    parts += [affine.atoms.text(form.offset)] if form.offset.terms else []
    for dim, lane in sorted(form.lanes.items()):
        parts.append(f"({affine.atoms.text(lane)})*r{dim}")
    guards = [f"{affine.atoms.text(guard.room)} > r{guard.dim}" for guard in form.guards]
    return " + ".join(parts or ["0"]) + (" where " + " and ".join(guards) if guards else "")


def test_an_address_is_a_sum_of_strides_times_places() -> None:
    p = program()
    rows = p.add(p.splat(p.mul(p.args["m"], p.number(64)), 64), p.range(64))
    scaled = p.mul(p.expand(rows, 1), p.splat(p.args["s"], 64, 1))
    offsets = p.add(p.broadcast(scaled, 64, 32), p.spread(p.range(32), 0, 64, 32))
    address = p.add(p.splat(p.args["a"], 64, 32), offsets)
    assert text(Affine(), address) == "a + 64*m*s + (s)*r0 + (1)*r1"


def test_equal_numbers_are_one_but_for_what_hints_say_of_them() -> None:
    p = program()
    third = [p.binary("divsi", p.args["m"], p.number(3)) for _ in range(3)]
    op = third[2].defining_op
    assert op is not None
    op.attributes["tt.divisibility"] = "16 : i32"
    affine = Affine()
    polys = [affine.poly(value) for value in third]
    assert polys[0] == polys[1] != polys[2]
    facts = Facts(p.function, affine)
    assert [facts.multiple(poly) for poly in polys] == [1, 1, 16]


def test_a_range_may_begin_anywhere_and_be_scaled() -> None:
    p = program()
    value = p.mul(p.range(16, 3), p.splat(p.number(4), 16))
    assert text(Affine(), value) == "12 + (4)*r0"
    shifted = p.op("arith.shli", [p.range(16), p.splat(p.number(3), 16)], "tensor<16xi32>")
    assert text(Affine(), shifted) == "(8)*r0"


def test_dimensions_follow_a_transposition() -> None:
    p = program()
    tile = p.spread(p.range(32), 0, 64, 32)
    turned = p.op("tt.trans", [tile], "tensor<32x64xi32>", order="array<i32: 1, 0>")
    assert text(Affine(), turned) == "(1)*r0"


def test_a_product_of_two_places_is_not_affine() -> None:
    p = program()
    assert text(Affine(), p.mul(p.range(16), p.range(16))) == "none"


def test_places_that_share_a_number_are_runs() -> None:
    p, affine = program(), Affine()
    rows = p.add(p.splat(p.mul(p.args["k"], p.number(16)), 64), p.range(64))
    for name, amount, divided in (("divsi", 8, "16*k"), ("shrsi", 3, "0")):
        shared = p.binary(name, rows, p.splat(p.number(amount), 64))
        form = affine.form(p.mul(shared, p.splat(p.args["m"], 64)))
        assert form is not None
        assert [(run.dim, run.length) for run in form.runs] == [(0, 8)]
        assert affine.atoms.text(form.offset) == "2*k*m" and affine.atoms.text(form.runs[0].divided) == divided
        assert text(affine, p.add(shared, shared)) == "4*k + (2)*r0"


def test_a_division_that_leaves_something_is_not_affine() -> None:
    p, affine = program(), Affine()
    rows = p.add(p.splat(p.args["k"], 16), p.range(16))
    assert text(affine, p.binary("divsi", rows, p.splat(p.number(2), 16))) == "none"
    assert text(affine, p.binary("divsi", p.range(16), p.splat(p.number(3), 16))) == "none"
    assert text(affine, p.binary("divsi", p.range(16), p.splat(p.number(0), 16))) == "none"
    even = p.mul(p.range(16), p.splat(p.number(2), 16))
    assert text(affine, p.binary("divsi", even, p.splat(p.number(2), 16))) == "none"
    halves = p.binary("divsi", p.range(16), p.splat(p.number(2), 16))
    assert text(affine, p.add(halves, p.range(16))) == "none"
    assert text(affine, p.binary("remsi", halves, p.splat(p.args["m"], 16))) == "none"


def test_a_remainder_says_where_it_holds() -> None:
    p = program()
    rows = p.add(p.splat(p.args["k"], 64), p.range(64))
    assert text(Affine(), p.binary("remsi", rows, p.splat(p.args["m"], 64))) == "k + (1)*r0 where -1*k + m > r0"


def test_a_clamped_index_says_where_it_holds() -> None:
    p = program()
    rows, bound = p.range(64), p.splat(p.args["m"], 64)
    chosen = p.op("arith.select", [p.compare(rows, bound), rows, p.splat(p.number(0), 64)], "tensor<64xi32>")
    assert text(Affine(), chosen) == "(1)*r0 where m > r0"
    last = p.binary("subi", p.splat(p.args["m"], 64), p.splat(p.number(1), 64))
    assert text(Affine(), p.binary("minsi", rows, last)) == "(1)*r0 where m > r0"


def carried_form(first: int, stride: int, step: str | int) -> tuple[str, Affine]:
    """The form, inside a loop from `first` by `stride`, of a pointer that moves by `step`."""
    p = program()
    bounds = (p.number(first), p.args["m"], p.number(stride))
    start = p.add(p.splat(p.args["a"], 16), p.range(16))
    found: list[Value] = []

    def body(args: list[Value]) -> list[Value]:
        args[0].hint = "i"
        found.append(args[1])
        by = p.args[step] if isinstance(step, str) else p.number(step)
        return [p.add(args[1], p.splat(by, 16))]

    p.loop(bounds, [start], body)
    affine = Affine()
    return text(affine, found[0]), affine


@pytest.mark.parametrize(
    ("first", "stride", "step", "expected"),
    [
        (0, 1, 64, "a + 64*i + (1)*r0"),
        (0, 64, 64, "a + i + (1)*r0"),
        (2, 1, 64, "a + -128 + 64*i + (1)*r0"),
        (0, 1, "s", "a + s*i + (1)*r0"),
        (0, 64, 16, "a + 16*(iterations) + (1)*r0"),
        (0, 64, "s", "a + s*(iterations) + (1)*r0"),
    ],
)
def test_a_pointer_that_moves_is_known_in_every_iteration(
    first: int, stride: int, step: str | int, expected: str
) -> None:
    assert carried_form(first, stride, step)[0] == expected


def test_what_moves_by_a_number_from_memory_is_a_running_sum() -> None:
    p = TileProgram((), **ARGUMENTS, list="!tt.ptr<i32>")
    found: list[Value] = []

    def body(args: list[Value]) -> list[Value]:
        found.append(args[1])
        return [p.add(args[1], p.splat(p.mul(p.scalar_load(p.args["list"]), p.number(64)), 16))]

    p.loop((p.number(0), p.args["m"], p.number(1)), [p.range(16)], body)
    assert text(Affine(), found[0]) == "64*(a running sum) + (1)*r0"


def test_what_a_loop_computes_anew_is_not_carried() -> None:
    p = program()
    found: list[Value] = []

    def body(args: list[Value]) -> list[Value]:
        found.append(args[1])
        return [p.mul(args[1], p.splat(p.number(2), 16))]

    p.loop((p.number(0), p.args["m"], p.number(1)), [p.range(16)], body)
    assert text(Affine(), found[0]) == "none"


def test_two_values_that_depend_on_each_other_are_not_followed() -> None:
    p = program()
    found: list[Value] = []

    def body(args: list[Value]) -> list[Value]:
        found.extend(args[1:])
        return [args[2], args[1]]

    p.loop((p.number(0), p.args["m"], p.number(1)), [p.range(16), p.range(16, 16)], body)
    assert [text(Affine(), value) for value in found] == ["none", "none"]


# -- masks ----------------------------------------------------------------------------------------------------------


def test_a_mask_is_its_bounds() -> None:
    p = program()
    rows = p.add(p.splat(p.args["k"], 64), p.range(64))
    upper = p.compare(p.expand(rows, 1), p.splat(p.args["m"], 64, 1), LESS)
    lower = p.compare(p.expand(p.range(32), 0), p.splat(p.number(0), 1, 32), GREATER_EQUAL)
    alone = p.splat(p.compare(p.args["k"], p.args["m"], LESS_EQUAL), 64, 32)
    mask = p.both(p.both(p.broadcast(upper, 64, 32), p.broadcast(lower, 64, 32)), alone)
    affine = Affine()
    bounds = conjuncts(affine.form, mask)
    assert bounds is not None
    assert [(bound.kind, bound.dim, affine.atoms.text(bound.room)) for bound in bounds] == [
        ("upper", 0, "-1*k + m"),
        ("lower", 1, "1"),
        ("uniform", 0, "1 + -1*k + m"),
    ]


def test_a_mask_of_alternatives_is_no_conjunction() -> None:
    p = program()
    either = p.binary("ori", p.compare(p.range(64), p.splat(p.args["m"], 64)), p.compare(p.range(64), p.range(64)))
    assert conjuncts(Affine().form, either) is None


def test_a_mask_over_two_dimensions_at_once_is_no_bound() -> None:
    p = program()
    mask = p.compare(p.spread(p.range(64), 1, 64, 64), p.spread(p.range(64), 0, 64, 64))
    assert conjuncts(Affine().form, mask) is None


# -- facts ----------------------------------------------------------------------------------------------------------


def facts(p: TileProgram) -> Facts:
    return Facts(p.function, Affine())


def test_program_ids_and_their_remainders_are_not_negative() -> None:
    p = program()
    pid = p.pid()
    tile = p.add(p.mul(p.binary("remsi", pid, p.args["m"]), p.number(64)), p.number(3))
    end = p.effect("tt.return", [])
    known = facts(p)
    assert known.not_negative(known.affine.poly(tile), end) == Proof()


def test_a_quotient_needs_a_positive_divisor() -> None:
    p = program()
    tile = p.binary("divsi", p.pid(), p.args["m"])
    tiles = p.binary("divsi", p.pid(), p.binary("divsi", p.add(p.args["m"], p.number(63)), p.number(64)))
    end = p.effect("tt.return", [])
    known = facts(p)
    for value in (tile, tiles):
        proof = known.not_negative(known.affine.poly(value), end)
        assert proof is not None and proof.taken == (DIVISORS,)


def test_an_argument_is_not_negative_if_the_launch_says_so() -> None:
    p = program()
    end = p.effect("tt.return", [])
    known = facts(p)
    assert known.not_negative(known.affine.poly(p.args["m"]), end) == Proof((p.args["m"],))
    assert known.not_negative(-known.affine.poly(p.args["m"]), end) is None


def test_an_assumption_is_believed() -> None:
    p = program()
    tile = p.binary("subi", p.binary("divsi", p.pid(), p.args["m"]), p.args["k"])
    p.effect("llvm.intr.assume", [p.compare(tile, p.number(0), GREATER_EQUAL)])
    end = p.effect("tt.return", [])
    known = facts(p)
    assert known.not_negative(known.affine.poly(p.mul(tile, p.number(64))), end) == Proof()


def test_an_index_from_memory_is_taken_to_be_none_under_zero() -> None:
    p = TileProgram((), list="!tt.ptr<i32>")
    block = p.scalar_load(p.args["list"])
    end = p.effect("tt.return", [])
    known = facts(p)
    assert known.not_negative(known.affine.poly(p.mul(block, p.number(64))), end) == Proof((), (LOADED,))
    assert known.not_negative(known.affine.poly(p.binary("subi", p.number(0), block)), end) is None


def test_a_loop_variable_lies_in_its_range() -> None:
    p = program()
    inside: list[Any] = []

    def body(args: list[Value]) -> list[Value]:
        inside.extend((args[0], p.effect("tt.return", [])))
        return []

    p.loop((p.number(64), p.args["m"], p.number(32)), [], body)
    known = facts(p)
    variable = known.affine.poly(inside[0])
    room = known.affine.poly(p.args["m"]) - variable
    assert known.not_negative(variable - constant(64), inside[1]) == Proof()
    assert known.positive(room, inside[1]) == Proof()
    assert known.multiple(variable) == 32
    assert known.multiple(known.affine.atoms.poly(Trip(p.block.ops[-1]))) == 1


@pytest.mark.parametrize("step", ["argument", "difference"])
def test_a_loop_variable_is_no_less_than_where_it_begins_whatever_the_step_is(step: str) -> None:
    p = program()
    inside: list[Any] = []

    def body(args: list[Value]) -> list[Value]:
        inside.extend((args[0], p.effect("tt.return", [])))
        return []

    by = p.args["k"] if step == "argument" else p.binary("subi", p.args["k"], p.args["m"])
    p.loop((p.pid(), p.args["m"], by), [], body)
    end = p.effect("tt.return", [])
    known = facts(p)
    row = known.affine.poly(inside[0]) * constant(128)
    assert known.not_negative(row, inside[1]) == Proof()
    assert known.not_negative(row - constant(1), inside[1]) is None
    assert known.not_negative(known.affine.poly(by), end) != Proof()


def test_a_carried_counter_is_bounded_by_induction() -> None:
    p = program()
    found: list[Any] = []

    def body(args: list[Value]) -> list[Value]:
        last = p.compare(args[1], p.args["m"])
        following = p.op("arith.select", [last, p.add(args[1], p.number(8)), p.number(0)], "i32")
        found.extend((following, p.effect("tt.return", [])))
        return [following]

    p.loop((p.number(0), p.args["m"], p.number(1)), [p.number(-8)], body)
    known = facts(p)
    assert known.not_negative(known.affine.poly(found[0]), found[1]) == Proof()
    assert known.multiple(known.affine.poly(found[0])) == 8


def test_divisibility_comes_from_the_arguments() -> None:
    p = program("m", "wide")
    known = facts(p)
    poly = known.affine.poly
    assert known.multiple(poly(p.args["m"]) * constant(4)) == 64
    assert known.multiple(poly(p.args["m"]) + constant(8)) == 8
    assert known.multiple(poly(p.args["k"]) * constant(4)) == 4
    wide = p.binary("muli", p.op("arith.extsi", [p.args["m"]], "i64"), p.args["wide"])
    assert known.multiple(poly(wide)) == 256
    assert known.multiple(Poly()) == 0


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_form_is_what_the_operations_compute(data: st.DataObject) -> None:
    """Random sums and products, executed element by element, against their forms."""
    p = program()
    numbers = {name: data.draw(st.integers(-9, 9), name) for name in ("m", "k", "s")}
    values: list[tuple[Value, list[int]]] = [(p.range(8, 2), list(range(2, 10)))]
    values += [(p.splat(p.args[name], 8), [number] * 8) for name, number in numbers.items()]
    values.append((p.splat(p.number(5), 8), [5] * 8))
    for _ in range(data.draw(st.integers(1, 8), "operations")):
        name = data.draw(st.sampled_from(["addi", "subi", "muli"]))
        (left, x), (right, y) = (data.draw(st.sampled_from(values)) for _ in range(2))
        compute = {"addi": int.__add__, "subi": int.__sub__, "muli": int.__mul__}[name]
        values.append((p.binary(name, left, right), [compute(a, b) for a, b in zip(x, y, strict=True)]))
    affine = Affine()
    for value, expected in values:
        form = affine.form(value)
        if form is not None:
            lane = evaluate(affine, form.lanes[0], numbers) if 0 in form.lanes else 0
            start = evaluate(affine, form.offset, numbers)
            assert [start + lane * place for place in range(8)] == expected


def evaluate(affine: Affine, poly: Poly, numbers: dict[str, int]) -> int:
    total = 0
    for monomial, factor in poly.terms:
        for index in monomial:
            atom = affine.atoms[index]
            assert isinstance(atom, Value)
            factor *= numbers[atom.hint]
        total += factor
    return total
