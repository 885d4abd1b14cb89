"""From locations to lines of the user's kernel."""

from __future__ import annotations

import pytest

from tawa.ir import Module, Operation, parse_module, source_of
from tawa.ir.locations import resolve, user_frames, written_at
from tawa.remarks import SourceLocation

LOCS = {
    "#loc1": 'loc("kernel.py":12:4)',
    "#loc2": 'loc("acc"(#loc1))',
    "#helper": 'loc("standard.py":43:17)',
    "#call": "loc(callsite(#helper at #loc2))",
    "#twice": "loc(callsite(#helper at #call))",
    "#none": "loc(unknown)",
    "#loop": "loc(#loop)",
}


def place(loc: str) -> SourceLocation | None:
    return resolve(Module(Operation("builtin.module"), {}, LOCS), loc)


KERNEL = SourceLocation("kernel.py", 12, 4)


@pytest.mark.parametrize(
    "loc",
    [
        '"kernel.py":12:4',
        "#loc1",
        "#loc2",
        '"x y"("acc"(#loc1))',
        'loc("kernel.py":12:4)',
        '"kernel.py":12:4 to 14:9',
        '"kernel.py":12:4 to :9',
        '"kernel.py":12:4 to "kernel.py":14:9',
    ],
)
def test_a_place_is_found_through_aliases_and_names(loc: str) -> None:
    assert place(loc) == KERNEL


@pytest.mark.parametrize("loc", ["#call", "#twice", "callsite(#helper at #loc1)", '"acc"(callsite(#helper at #loc1))'])
def test_the_caller_is_what_the_user_wrote(loc: str) -> None:
    assert place(loc) == KERNEL


@pytest.mark.parametrize("loc", ["fused[#none, #loc1]", 'fused<"pass">[#loc1, #helper]', "fused[unknown, #call]"])
def test_the_first_known_place_of_a_fusion_wins(loc: str) -> None:
    assert place(loc) == KERNEL


@pytest.mark.parametrize("loc", ["unknown", "#none", "#missing", '"acc"', "fused[unknown, #none]", "#loop", ""])
def test_an_unknown_place_is_none(loc: str) -> None:
    assert place(loc) is None


def test_an_escaped_quote_in_a_file_name_does_not_end_it() -> None:
    assert place('"a\\"b.py":1:2') == SourceLocation('a\\"b.py', 1, 2)


def test_an_operation_without_a_place_takes_that_of_what_encloses_it() -> None:
    text = (
        '"builtin.module"() ({\n"scf.if"() ({\n"arith.constant"() : () -> () loc(unknown)\n}) : () -> () '
        'loc("kernel.py":12:4)\n}) : () -> ()\n'
    )
    module = parse_module(text)
    constant = list(module.walk())[-1]
    assert source_of(module, constant) == KERNEL
    assert source_of(module, module.op) is None


def test_a_place_prints_as_file_and_line() -> None:
    assert str(KERNEL) == "kernel.py:12"


def test_a_line_that_the_user_wrote_is_that_of_the_innermost_function_that_is_no_librarys() -> None:
    """`source_of` is the line of the kernel that calls it."""
    locs = {
        "#library": 'loc("/site/triton/language/standard.py":43:17)',
        "#own": 'loc("helpers.py":7:4)',
        "#kernel": 'loc("kernel.py":12:4)',
        "#inner": "loc(callsite(#library at #own))",
        "#outer": "loc(callsite(#inner at #kernel))",
    }
    op = Operation("tt.store", loc="#outer")
    module = Module(Operation("builtin.module"), {}, locs)
    assert written_at(module, op) == SourceLocation("helpers.py", 7, 4)
    assert source_of(module, op) == SourceLocation("kernel.py", 12, 4)


def test_frames_of_the_user_leave_out_the_functions_of_libraries() -> None:
    locs = {
        "#sum": 'loc("/lib/triton/language/standard.py":43:17)',
        "#put": 'loc("/lib/tawa/rings/ring.py":9:1)',
        "#helper": 'loc("parts.py":7:8)',
        "#inner": "loc(callsite(#sum at #helper))",
        "#call": 'loc(callsite(#inner at "kernel.py":12:4))',
        "#ring": 'loc(callsite(#put at "kernel.py":13:4))',
    }

    def frames(loc: str) -> list[tuple[str, int]]:
        op = Operation("tt.reduce", loc=loc)
        return [(it.file, it.line) for it in user_frames(Module(Operation("builtin.module"), {}, locs), op)]

    assert frames("#call") == [("parts.py", 7), ("kernel.py", 12)]
    assert frames("#ring") == [("kernel.py", 13)]
    assert frames("#sum") == []
