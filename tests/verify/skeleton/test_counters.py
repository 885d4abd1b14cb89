"""What matters of a number that slots, parities and predicates are computed from."""

from __future__ import annotations

import pytest

from tawa.verify.skeleton.program import Program
from tests.cases.programs.ttgir import binary, branch, compare, op
from tests.verify.skeleton.counting import constants, wait, waits

SLOT = (binary("s", "remsi", "it", "c3"), binary("round", "divsi", "it", "c3"), binary("p", "andi", "round", "c1"))
NEXT = binary("more", "addi", "it", "c1")
COUNT = {"it": ("zero", "more", "i32")}


def matters(program: Program) -> list[tuple[int, int]]:
    """What matters of the counters that are part of a state."""
    live = {kind for part in program.parts for at in range(len(part.code)) for _, kind in part.live[at]}
    return [program.counters[-2 - kind] for kind in sorted(live) if kind < -1]


def test_of_a_running_count_the_remainder_by_twice_the_slots_matters() -> None:
    assert matters(waits(*SLOT, wait("s", "p"), NEXT, carried=COUNT)) == [(0, 6)]


def test_the_iteration_number_itself_may_be_the_count() -> None:
    slot = [it.replace("%it", "%k") for it in SLOT]
    program = waits(*slot, wait("s", "p"), carried={})
    assert (0, 6) in program.counters


@pytest.mark.parametrize("number", [2, 5])
def test_up_to_a_constant_that_it_is_compared_with_the_count_matters_itself(number: int) -> None:
    late = branch(wait("s", "p"), condition="late")
    found = matters(waits(*SLOT, compare("late", "it", f"c{number}", 5), late, NEXT, carried=COUNT))
    assert found == [(number + 1, 6)]


def test_two_rings_of_one_count_need_the_common_multiple() -> None:
    other = [binary("s2", "remsi", "it", "c2"), wait("s2", "p", "2")]
    assert matters(waits(*SLOT, wait("s", "p"), *other, NEXT, carried=COUNT)) == [(0, 6)]
    other = [binary("s2", "remsi", "it", "c5"), wait("s2", "p", "2")]
    assert matters(waits(*SLOT, wait("s", "p"), *other, NEXT, carried=COUNT)) == [(0, 30)]


def test_a_slot_that_is_carried_itself_matters_exactly() -> None:
    body = (wait("s", "zero"), binary("up", "addi", "s", "c1"), binary("more", "remsi", "up", "c3"))
    assert matters(waits(*body, carried={"s": ("zero", "more", "i32")})) == []


@pytest.mark.parametrize(("type", "counters"), [("i8", []), ("i16", []), ("i64", [(0, 6)])])
def test_a_narrow_counter_matters_exactly_because_it_wraps(type: str, counters: list[tuple[int, int]]) -> None:
    cast = "arith.extsi" if type != "i64" else "arith.trunci"
    body = (
        binary("wide", "remsi", "it", f"c3_{type}", type),
        op(cast, "%wide", type, "%s", "i32"),
        binary("round", "divsi", "it", f"c3_{type}", type),
        op(cast, "%round", type, "%rounds", "i32"),
        binary("p", "andi", "rounds", "c1"),
        wait("s", "p"),
        binary("more", "addi", "it", f"c1_{type}", type),
    )
    program = waits(*body, carried={"it": (f"c0_{type}", "more", type)}, before=[constants(0, 1, 3, type=type)])
    assert matters(program) == counters


def test_a_count_that_starts_at_an_argument_is_not_computed() -> None:
    program = waits(*SLOT, wait("s", "p"), NEXT, carried={"it": ("m", "more", "i32")})
    assert matters(program) == []
    assert program.unknown


def test_products_and_shifts_scale_what_matters() -> None:
    body = (
        binary("twice", "muli", "it", "c2"),
        binary("s", "remsi", "twice", "c3"),
        binary("round", "shrsi", "it", "c2"),
        binary("p", "andi", "round", "c1"),
    )
    assert matters(waits(*body, wait("s", "p"), NEXT, carried=COUNT)) == [(0, 24)]


@pytest.mark.parametrize(
    ("step", "factor", "bits", "counters"),
    [("c1", "c1", 31, [(0, 6)]), ("c1", "c64", 25, [(0, 6)]), ("c64", "c2", 24, [(0, 6)]), ("c64", "c4096", 31, [])],
)
def test_a_multiple_of_a_counter_wraps_earlier(
    step: str, factor: str, bits: int, counters: list[tuple[int, int]]
) -> None:
    """One that wraps after fewer than 2^20 accesses matters exactly, so that no state recurs."""
    body = [binary("scaled", "muli", "it", factor), *(it.replace("%it,", "%scaled,") for it in SLOT)]
    program = waits(
        *body, wait("s", "p"), binary("more", "addi", "it", step), carried=COUNT, before=[constants(64, 4096)]
    )
    assert (matters(program), program.access_bits) == (counters, bits)


@pytest.mark.parametrize("square", ["muli", "addi"])
def test_a_number_that_does_not_grow_by_constants_matters_exactly(square: str) -> None:
    """Products of counts, and sums of all numbers so far, wrap after few accesses."""
    body = (binary("next", square, "it", "k"), *(it.replace("%it,", "%next,") for it in SLOT), wait("s", "p"))
    count = ("zero", "next" if square == "addi" else "more", "i32")
    assert matters(waits(*body, NEXT, carried={"it": count})) == []


@pytest.mark.parametrize(("width", "counters"), [("i8", [(0, 768)]), ("i16", [(0, 3 << 16)]), ("i64", [(0, 6)])])
def test_of_the_lowest_bits_of_a_count_their_number_matters(width: str, counters: list[tuple[int, int]]) -> None:
    """A slot of a count in 8 bits is another one from 128 on."""
    cast, back = ("extsi", "trunci") if width == "i64" else ("trunci", "extsi")
    low = (op(f"arith.{cast}", "%it", "i32", "%low", width), op(f"arith.{back}", "%low", width, "%whole", "i32"))
    slot = binary("s", "remsi", "whole", "c3")
    assert matters(waits(*low, slot, *SLOT[1:], wait("s", "p"), NEXT, carried=COUNT)) == counters


@pytest.mark.parametrize("number", ["minus", "high"])
def test_a_count_with_a_large_offset_matters_exactly_as_it_may_wrap_early(number: str) -> None:
    large = {"high": (1 << 31) - 50, "minus": -(1 << 31)}[number]
    before = [op("arith.constant", "", "", f"%{number}", "i32", properties=f"value = {large} : i32")]
    offset = (binary("far", "addi", "it", number), *(it.replace("%it,", "%far,") for it in SLOT))
    assert matters(waits(*offset, wait("s", "p"), NEXT, carried=COUNT, before=before)) == []
    assert matters(waits(*SLOT, wait("s", "p"), NEXT, carried={"it": (number, "more", "i32")}, before=before)) == []


@pytest.mark.parametrize(("combine", "second", "counters"), [("addi", "c2", {(0, 6)}), ("subi", "c2", set())])
def test_two_counts_matter_exactly_where_their_difference_may_be_negative(
    combine: str, second: str, counters: set[tuple[int, int]]
) -> None:
    both = (binary("both", combine, "it", "also"), *(it.replace("%it,", "%both,") for it in SLOT))
    program = waits(
        *both,
        wait("s", "p"),
        NEXT,
        binary("next", "addi", "also", second),
        carried={**COUNT, "also": ("zero", "next", "i32")},
    )
    assert set(matters(program)) == counters


def test_the_smaller_of_a_count_and_a_large_unsigned_number_is_the_count() -> None:
    before = [op("arith.constant", "", "", "%most", "i32", properties="value = -1 : i32")]
    least = (binary("least", "minui", "it", "most"), *(it.replace("%it,", "%least,") for it in SLOT))
    assert matters(waits(*least, wait("s", "p"), NEXT, carried=COUNT, before=before)) == []
