"""The affine interpretation: scalars, tiles, pointers that loops move, and masks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.ir import Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.polynomial import Poly
from tests.analysis.tile_programs import EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, NOT_EQUAL, TileProgram
from tests.support.sample import examples

ARGUMENTS = {"a": "!tt.ptr<f16>", "m": "i32", "k": "i32", "s": "i32", "wide": "i64"}


def program(*divisible: str) -> TileProgram:
    return TileProgram(divisible, **ARGUMENTS)


def text(affine: Affine, value: Value) -> str:
    """An affine tile as text: ``a + 64*pid + s*r0 + r1 where m - 64*pid > r0``."""
    form = affine.tile(value)
    if form is None:
        return "none"
    parts = [form.base.hint] if form.base is not None else []
    parts += [affine.atoms.text(form.offset)] if form.offset.terms else []
    for dim, lane in sorted(form.lanes.items()):
        parts.append(f"({affine.atoms.text(lane)})*r{dim}" + (f"//{form.run(dim)}" if form.run(dim) > 1 else ""))
    parts += [f"({affine.atoms.text(step)})*r{dim}%{form.run(dim)}" for dim, step in sorted(form.within.items())]
    guards = [f"{affine.atoms.text(guard.room)} > r{guard.dim}" for guard in form.guards]
    return " + ".join(parts or ["0"]) + (" where " + " and ".join(guards) if guards else "")


def test_an_address_is_a_sum_of_strides_times_places() -> None:
    p = program()
    rows = p.add(p.splat(p.mul(p.args["m"], p.number(64)), 64), p.range(64))
    scaled = p.mul(p.expand(rows, 1), p.splat(p.args["s"], 64, 1))
    offsets = p.add(p.broadcast(scaled, 64, 32), p.spread(p.range(32), 0, 64, 32))
    address = p.add(p.splat(p.args["a"], 64, 32), offsets)
    assert text(Affine(), address) == "a + 64*m*s + (s)*r0 + (1)*r1"


def test_equal_numbers_are_one_atom_unless_a_hint_tells_them_apart() -> None:
    p = program()
    third = [p.binary("divsi", p.args["m"], p.number(3)) for _ in range(3)]
    op = third[2].defining_op
    assert op is not None
    op.attributes["tt.divisibility"] = "16 : i32"
    affine = Affine()
    polys = [affine.poly(value) for value in third]
    assert polys[0] == polys[1] != polys[2]


def test_a_range_may_begin_anywhere_and_be_scaled() -> None:
    p = program()
    value = p.mul(p.range(16, 3), p.splat(p.number(4), 16))
    assert text(Affine(), value) == "12 + (4)*r0"
    shifted = p.op("arith.shli", [p.range(16), p.splat(p.number(3), 16)], "tensor<16xi32>")
    assert text(Affine(), shifted) == "(8)*r0"


def test_dimensions_follow_a_transposition() -> None:
    p = program()
    tile = p.spread(p.range(32), 0, 64, 32)
    transposed = p.op("tt.trans", [tile], "tensor<32x64xi32>", order="array<i32: 1, 0>")
    assert text(Affine(), transposed) == "(1)*r0"


def test_a_product_of_two_places_is_not_affine() -> None:
    p = program()
    assert text(Affine(), p.mul(p.range(16), p.range(16))) == "none"


def test_places_that_share_a_number_are_runs() -> None:
    p, affine = program(), Affine()
    rows = p.add(p.splat(p.mul(p.args["k"], p.number(16)), 64), p.range(64))
    for name, amount, divided in (("divsi", 8, "16*k"), ("shrsi", 3, "0")):
        shared = p.binary(name, rows, p.splat(p.number(amount), 64))
        form = affine.tile(p.mul(shared, p.splat(p.args["m"], 64)))
        assert form is not None
        assert [(run.dim, run.length) for run in form.runs] == [(0, 8)]
        assert affine.atoms.text(form.offset) == "2*k*m" and affine.atoms.text(form.runs[0].divided) == divided
        assert text(affine, p.add(shared, shared)) == "4*k + (2)*r0//8"


def test_a_division_that_leaves_something_is_not_affine() -> None:
    p, affine = program(), Affine()
    rows = p.add(p.splat(p.args["k"], 16), p.range(16))
    assert text(affine, p.binary("divsi", rows, p.splat(p.number(2), 16))) == "none"
    assert text(affine, p.binary("divsi", p.range(16), p.splat(p.number(3), 16))) == "none"
    assert text(affine, p.binary("divsi", p.range(16), p.splat(p.number(0), 16))) == "none"
    even = p.mul(p.range(16), p.splat(p.number(2), 16))
    assert text(affine, p.binary("divsi", even, p.splat(p.number(2), 16))) == "none"
    halves = p.binary("divsi", p.range(16), p.splat(p.number(2), 16))
    thirds = p.binary("divsi", p.range(16), p.splat(p.number(4), 16))
    assert text(affine, p.add(halves, thirds)) == "none"
    assert text(affine, p.binary("remsi", halves, p.splat(p.args["m"], 16))) == "none"


def test_rows_that_count_two_things_have_two_strides() -> None:
    """``(r // 4)·s + (r % 4)·m``: tokens, and the heads of each."""
    p, affine = program(), Affine()
    rows = p.add(p.splat(p.mul(p.args["k"], p.number(16)), 64), p.range(64))
    four, three = (p.splat(p.number(number), 64) for number in (4, 3))
    tokens, heads = p.binary("divsi", rows, four), p.binary("remsi", rows, four)
    at = p.add(p.mul(tokens, p.splat(p.args["s"], 64)), p.mul(heads, p.splat(p.args["m"], 64)))
    assert text(affine, at) == "4*k*s + (s)*r0//4 + (m)*r0%4"
    assert text(affine, p.binary("andi", rows, three)) == "(1)*r0%4"
    assert text(affine, p.add(p.mul(tokens, four), heads)) == "16*k + (1)*r0"
    assert text(affine, p.add(tokens, rows)) == "20*k + (5)*r0//4 + (1)*r0%4"


def test_a_remainder_that_begins_amid_a_run_is_no_place_in_it() -> None:
    p, affine = program(), Affine()
    rows, four = p.add(p.splat(p.args["k"], 64), p.range(64)), p.splat(p.number(4), 64)
    assert text(affine, p.binary("remsi", rows, four)) == "k + (1)*r0 where 4 - k > r0"
    assert text(affine, p.binary("andi", rows, p.splat(p.number(3), 64))) == "none"
    assert text(affine, p.binary("andi", p.range(64), p.splat(p.number(5), 64))) == "none"


def test_a_reshape_takes_dimensions_apart_and_puts_them_together() -> None:
    p, affine = program(), Affine()
    flat = p.op("tt.reshape", [p.range(64)], "tensor<4x16xi32>")
    assert text(affine, flat) == "(16)*r0 + (1)*r1"
    assert text(affine, p.op("tt.reshape", [flat], "tensor<64xi32>")) == "(1)*r0"
    apart = p.add(p.spread(p.mul(p.range(4), p.splat(p.args["s"], 4)), 1, 4, 16), p.spread(p.range(16), 0, 4, 16))
    assert text(affine, p.op("tt.reshape", [apart], "tensor<64xi32>")) == "(s)*r0//16 + (1)*r0%16"
    assert text(affine, p.op("tt.reshape", [apart], "tensor<2x32xi32>")) == "none"
    any_order = p.op("tt.reshape", [flat], "tensor<64xi32>", allow_reorder="unit")
    assert text(affine, any_order) == "none"


@pytest.mark.parametrize(("name", "width"), [("select", 0), ("extui", 1), ("extsi", -1)])
def test_a_mask_may_be_written_as_numbers(name: str, width: int) -> None:
    p, affine = program(), Affine()
    below = p.compare(p.range(64), p.splat(p.args["m"], 64))
    one, zero = (p.splat(p.number(number), 64) for number in (1, 0))
    value = p.op("arith.select", [below, one, zero], "tensor<64xi32>")
    if width:
        value = p.op(f"arith.{name}", [below], "tensor<64xi32>")
    wanted = affine.bounds(below)
    assert affine.bounds(p.compare(value, zero, NOT_EQUAL)) == wanted
    if width >= 0:
        assert affine.bounds(p.compare(value, one, EQUAL)) == affine.bounds(p.compare(value, zero, GREATER)) == wanted
        assert affine.bounds(p.compare(value, one, LESS)) is None
    else:
        assert affine.bounds(p.compare(value, zero, LESS)) == wanted
    assert affine.bounds(p.compare(value, zero, EQUAL)) is None
    two = p.splat(p.number(2), 64)
    assert affine.bounds(p.compare(value, two, LESS)) == ()
    spread = p.compare(p.spread(value, 1, 64, 16), p.splat(p.number(0), 64, 16), NOT_EQUAL)
    assert affine.bounds(spread) == wanted


def test_a_choice_between_masks_is_their_conjunction_if_the_other_is_false() -> None:
    p, affine = program(), Affine()
    left, right = (p.compare(p.range(64), p.splat(p.args[name], 64)) for name in ("m", "k"))
    false = p.op("arith.constant", [], "tensor<64xi1>", value="dense<false> : tensor<64xi1>")
    both = p.op("arith.select", [left, right, false], "tensor<64xi1>")
    assert affine.bounds(both) == affine.bounds(p.both(left, right))
    assert affine.bounds(p.op("arith.select", [left, right, left], "tensor<64xi1>")) is None


def test_a_remainder_says_where_it_holds() -> None:
    p = program()
    rows = p.add(p.splat(p.args["k"], 64), p.range(64))
    assert text(Affine(), p.binary("remsi", rows, p.splat(p.args["m"], 64))) == "k + (1)*r0 where -k + m > r0"


def test_a_clamped_index_says_where_it_holds() -> None:
    p = program()
    rows, bound = p.range(64), p.splat(p.args["m"], 64)
    chosen = p.op("arith.select", [p.compare(rows, bound), rows, p.splat(p.number(0), 64)], "tensor<64xi32>")
    assert text(Affine(), chosen) == "(1)*r0 where m > r0"
    last = p.binary("subi", p.splat(p.args["m"], 64), p.splat(p.number(1), 64))
    assert text(Affine(), p.binary("minsi", rows, last)) == "(1)*r0 where m > r0"


def carried_tile(first: int, stride: int, step: str | int) -> tuple[str, Affine]:
    """The tile, inside a loop from `first` by `stride`, of a pointer that moves by `step`."""
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
    assert carried_tile(first, stride, step)[0] == expected


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


def test_a_hypothesis_of_an_induction_does_not_outlive_it() -> None:
    p = program()
    found: list[Value] = []

    def body(args: list[Value]) -> list[Value]:
        args[0].hint = "i"
        following = p.add(args[1], p.splat(p.args["s"], 16))
        found.extend((args[1], following))
        return [following]

    p.loop((p.number(0), p.args["m"], p.number(1)), [p.range(16)], body)
    affine = Affine()
    assert text(affine, found[0]) == "s*i + (1)*r0"
    assert text(affine, found[1]) == "s + s*i + (1)*r0"


def test_narrow_numbers_wrap_around_and_are_not_affine() -> None:
    p = TileProgram((), x="i8")
    twice = p.add(p.args["x"], p.args["x"])
    affine = Affine()
    assert affine.poly(twice) == affine.atoms.poly(twice)


def test_a_wrapped_number_in_a_mask_says_where_the_bound_holds() -> None:
    p = program()
    rows = p.binary("remsi", p.range(64), p.splat(p.args["m"], 64))
    affine = Affine()
    bounds = affine.bounds(p.compare(rows, p.splat(p.args["k"], 64), LESS))
    assert bounds is not None
    ((guard,),) = (bound.guards for bound in bounds)
    assert affine.atoms.text(guard.room) == "m" and guard.modulus == affine.poly(p.args["m"])


def test_a_number_is_no_mask_and_a_mask_no_number() -> None:
    p = program()
    mask = p.compare(p.range(64), p.splat(p.args["m"], 64))
    affine = Affine()
    assert affine.tile(mask) is None and affine.bounds(p.range(64)) is None


# -- masks ----------------------------------------------------------------------------------------------------------


def test_a_mask_is_its_bounds() -> None:
    p = program()
    rows = p.add(p.splat(p.args["k"], 64), p.range(64))
    upper = p.compare(p.expand(rows, 1), p.splat(p.args["m"], 64, 1), LESS)
    lower = p.compare(p.expand(p.range(32), 0), p.splat(p.number(0), 1, 32), GREATER_EQUAL)
    alone = p.splat(p.compare(p.args["k"], p.args["m"], LESS_EQUAL), 64, 32)
    mask = p.both(p.both(p.broadcast(upper, 64, 32), p.broadcast(lower, 64, 32)), alone)
    affine = Affine()
    bounds = affine.bounds(mask)
    assert bounds is not None
    assert [(bound.kind, bound.dim, affine.atoms.text(bound.room)) for bound in bounds] == [
        ("upper", 0, "-k + m"),
        ("lower", 1, "1"),
        ("uniform", 0, "1 - k + m"),
    ]


def test_a_mask_of_alternatives_is_no_conjunction() -> None:
    p = program()
    either = p.binary("ori", p.compare(p.range(64), p.splat(p.args["m"], 64)), p.compare(p.range(64), p.range(64)))
    assert Affine().bounds(either) is None


def test_a_mask_over_two_dimensions_at_once_is_no_bound() -> None:
    p = program()
    mask = p.compare(p.spread(p.range(64), 1, 64, 64), p.spread(p.range(64), 0, 64, 64))
    assert Affine().bounds(mask) is None


@settings(max_examples=examples(200))
@given(st.data())
def test_an_affine_tile_is_what_the_operations_compute(data: st.DataObject) -> None:
    """Random sums and products, executed element by element, against their affine tiles."""
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
        form = affine.tile(value)
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
