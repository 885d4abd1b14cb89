"""Random loops and branches, written in Gluon and compiled again, leave the same bits in memory.

``TAWA_EMITTED=500`` tries more programs, ``--hypothesis-profile=fresh`` others.
"""

from __future__ import annotations

import os

import pytest

pytest.importorskip("triton.experimental.gluon")

from hypothesis import HealthCheck, given, note, settings

from tests.emit.random_ir import LOADED, STORED, program, programs
from tests.emit.simulated import same_bits

EXAMPLES = int(os.environ.get("TAWA_EMITTED", "25"))
CONSTANTS = "\n".join(f'%c{it} = "arith.constant"() <{{value = {it} : i32}}> : () -> i32' for it in range(4))


@given(programs())
@settings(max_examples=EXAMPLES, suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large))
def test_any_program_that_is_written_in_gluon_keeps_its_bits(text: str) -> None:
    note(text)
    same_bits(text)


def store(value: str, at: str, kind: str = "i32", base: str = "out") -> str:
    """A store of a number to `base[at]`."""
    pointer = f"!tt.ptr<{kind}>"
    name = f"%at_{value.strip('%')}_{at.strip('%')}"
    return (
        f'{name} = "tt.addptr"(%{base}, {at}) : ({pointer}, i32) -> {pointer}\n'
        f'"tt.store"({name}, {value}) <{{{STORED}}}> : ({pointer}, {kind}) -> ()\n'
    )


def loop(kinds: str, inits: str, arguments: str, body: str, yielded: str, trips: str = "%c3", results: str = "") -> str:
    """A loop that carries variables of one type."""
    count = len(inits.split(","))
    types = ", ".join([kinds] * count)
    heads = "".join(f", {it.strip()}: {kinds}" for it in arguments.split(","))
    made = f"({types})" if count > 1 else types
    return (
        f'{results or arguments.replace("%", "%last_")} = "scf.for"(%c0, {trips}, %c1, {inits}) ({{\n'
        f"^bb0(%i: i32{heads}):\n{body}\n"
        f'"scf.yield"({yielded}) : ({types}) -> ()\n}}) : (i32, i32, i32, {types}) -> {made}\n'
    )


@pytest.mark.parametrize("kind", ["i32", "i64", "f32", "i1"])
def test_variables_that_begin_with_one_value_are_exchanged(kind: str) -> None:
    """Triton's front end takes `a = b` for no change if both were one object before the loop."""
    value = {"i32": "%n", "i64": "%l", "f32": "%g", "i1": "%p"}[kind]
    base = {"i64": "out64", "f32": "outf"}.get(kind, "out")
    body = {
        "i32": '%next = "arith.addi"(%a, %c1) : (i32, i32) -> i32',
        "i64": '%next = "arith.addi"(%a, %l) : (i64, i64) -> i64',
        "f32": '%next = "arith.subf"(%a, %f) : (f32, f32) -> f32',
        "i1": '%next = "arith.xori"(%a, %p) : (i1, i1) -> i1',
    }[kind]
    text = CONSTANTS + '\n%p = "arith.cmpi"(%n, %m) <{predicate = 2 : i64}> : (i32, i32) -> i1\n'
    text += loop(kind, f"{value}, {value}", "%a, %b", body, "%b, %next")
    if kind == "i1":
        text += '%number = "arith.extui"(%last_a) : (i1) -> i32\n'
        same_bits(program(text + store("%number", "%c0")))
    else:
        same_bits(program(text + store("%last_a", "%c0", kind, base)))


def test_variables_that_a_branch_exchanges_begin_with_objects_of_their_own() -> None:
    """The result of the branch is the same object in both of them at the first visit."""
    body = (
        '%odd = "arith.cmpi"(%i, %c1) <{predicate = 0 : i64}> : (i32, i32) -> i1\n'
        '%x, %y = "scf.if"(%odd) ({\n"scf.yield"(%b, %a) : (i32, i32) -> ()\n}, {\n'
        '"scf.yield"(%a, %b) : (i32, i32) -> ()\n}) : (i1) -> (i32, i32)\n'
        '%next = "arith.addi"(%x, %c3) : (i32, i32) -> i32\n'
    )
    text = CONSTANTS + "\n" + loop("i32", "%n, %n", "%a, %b", body, "%y, %next")
    same_bits(program(text + store("%last_a", "%c0") + store("%last_b", "%c1")))


def test_variables_that_an_inner_loop_exchanges_begin_with_objects_of_their_own() -> None:
    inner = loop("i32", "%a, %b", "%x, %y", '%z = "arith.addi"(%x, %i) : (i32, i32) -> i32', "%y, %z").replace(
        "%i", "%j"
    )
    text = CONSTANTS + "\n" + loop("i32", "%n, %n", "%a, %b", inner, "%last_y, %last_x")
    same_bits(program(text + store("%last_a", "%c0") + store("%last_b", "%c1")))


def test_variables_of_a_loop_that_its_body_does_not_read_have_two_names() -> None:
    """One that only the result of the loop needs had the name of the next one: `x = first` was lost before no trip."""
    text = (
        CONSTANTS + '\n%a = "arith.addi"(%n, %c1) : (i32, i32) -> i32\n%b = "arith.addi"(%n, %c2) : (i32, i32) -> i32\n'
    )
    text += loop("i32", "%a, %b", "%b_1, %b_2", "", "%b_2, %b_2", "%c0", "%b_3, %b_4")
    same_bits(program(text + store("%b_3", "%c0") + store("%b_4", "%c1")))


def test_a_constant_that_is_assigned_has_the_type_of_its_variable() -> None:
    """Triton reads `0` as int32, also where the variable is an int64."""
    text = CONSTANTS + '\n%z = "arith.constant"() <{value = 0 : i64}> : () -> i64\n'
    text += loop("i64", "%z", "%sum", '%next = "arith.addi"(%sum, %l) : (i64, i64) -> i64', "%next")
    assert "gl.full([], 0, gl.int64)" in same_bits(program(text + store("%last_sum", "%c0", "i64", "out64")))


def test_an_operation_on_constants_is_an_operation_of_triton() -> None:
    text = (
        CONSTANTS
        + '\n%wide = "arith.extsi"(%c3) : (i32) -> i64\n%sum = "arith.addi"(%wide, %wide) : (i64, i64) -> i64\n'
    )
    same_bits(program(text + store("%sum", "%c0", "i64", "out64")))


def test_a_variable_that_only_bounds_an_inner_loop_is_kept() -> None:
    """Triton 3.6 removes its changes: the inner loop is written with `while`."""
    inner = (
        '"scf.for"(%c0, %stop, %c1) ({\n^bb0(%j: i32):\n'
        '%at = "tt.addptr"(%out, %i) : (!tt.ptr<i32>, i32) -> !tt.ptr<i32>\n'
        f'%old = "tt.load"(%at) <{{{LOADED}}}> : (!tt.ptr<i32>) -> i32\n'
        '%new = "arith.addi"(%old, %c3) : (i32, i32) -> i32\n'
        f'"tt.store"(%at, %new) <{{{STORED}}}> : (!tt.ptr<i32>, i32) -> ()\n'
        '"scf.yield"() : () -> ()\n}) : (i32, i32, i32) -> ()\n'
    )
    text = (
        CONSTANTS
        + '\n%two = "arith.andi"(%k, %c2) : (i32, i32) -> i32\n'
        + loop("i32", "%m, %n", "%next, %stop", inner, "%two, %next")
    )
    assert "while i_2 < " in same_bits(program(text))


def test_a_variable_that_bounds_a_loop_through_another_loop_is_kept() -> None:
    """Triton 3.6 does not follow it into the variable of the loop between."""
    inner = (
        '"scf.for"(%c0, %bound, %c1) ({\n^bb0(%k_1: i32):\n'
        '%at = "tt.addptr"(%out, %i) : (!tt.ptr<i32>, i32) -> !tt.ptr<i32>\n'
        f'%old = "tt.load"(%at) <{{{LOADED}}}> : (!tt.ptr<i32>) -> i32\n'
        '%new = "arith.addi"(%old, %c3) : (i32, i32) -> i32\n'
        f'"tt.store"(%at, %new) <{{{STORED}}}> : (!tt.ptr<i32>, i32) -> ()\n'
        '"scf.yield"() : () -> ()\n}) : (i32, i32, i32) -> ()\n'
    )
    between = loop("i32", "%stop", "%bound", inner, "%j", "%c2").replace("%i: i32, %bound", "%j: i32, %bound")
    text = CONSTANTS + '\n%two = "arith.andi"(%k, %c2) : (i32, i32) -> i32\n'
    same_bits(program(text + loop("i32", "%m, %n", "%next, %stop", between, "%two, %next")))


def test_a_while_with_a_pure_condition_has_it_in_its_head() -> None:
    """What the condition hands on is one variable with what the body gives it."""
    text = CONSTANTS + (
        '\n%last = "scf.while"(%c0) ({\n^bb0(%tile: i32):\n'
        '%go = "arith.cmpi"(%tile, %n) <{predicate = 2 : i64}> : (i32, i32) -> i1\n'
        '"scf.condition"(%go, %tile) : (i1, i32) -> ()\n}, {\n^bb0(%here: i32):\n'
        + store("%here", "%here")
        + '%tile_1 = "arith.addi"(%here, %c1) : (i32, i32) -> i32\n"scf.yield"(%tile_1) : (i32) -> ()\n'
        "}) : (i32) -> i32\n"
    )
    found = same_bits(program(text + store("%last", "%c3")))
    assert "while tile < n:" in found and "tile = tile + 1" in found
