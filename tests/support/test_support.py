"""The helpers detect violations: a check must be able to fail."""

from __future__ import annotations

import ast
import gc
import sys
import threading
from typing import Any

import pytest

from tawa.dialects import structure_rules
from tawa.ir import verify_structure
from tests.cases.programs import ttgir as programs
from tests.support.filecheck import brief, check


@pytest.mark.parametrize(
    "directives",
    [
        "CHECK: nowhere",
        "CHECK: one\nCHECK-NEXT: three",
        "CHECK: two\nCHECK: one",
        "CHECK-NOT: two",
        "CHECK: one\nCHECK-NOT: three",
    ],
)
def test_a_text_that_does_not_meet_its_directives_fails(directives: str) -> None:
    with pytest.raises(AssertionError):
        check("one\ntwo\nthree\n", directives)


def test_a_text_that_meets_its_directives_passes() -> None:
    check("one\ntwo\nthree\n", "CHECK: one\nCHECK-NEXT: two\nCHECK-NOT: one\nCHECK: [[N:t.r]]ee\nCHECK-NOT: four")


@pytest.mark.parametrize(
    "text",
    [
        programs.tile_gemm(),
        programs.persistent_gemm(),
        programs.two_loops(),
        programs.gate_up(),
        programs.branching_gemm(),
        programs.while_gemm(),
    ],
)
def test_every_program_is_well_formed(text: str) -> None:
    assert verify_structure(programs.parse(text), structure_rules()) == []


def test_brief_text_has_no_types_and_no_indents() -> None:
    lines = brief(programs.parse(programs.tile_gemm())).splitlines()
    assert '%zero_0 = "arith.constant"() <{value = 0 : i32}>' in lines


def test_threads_parse_at_once_though_collections_let_each_other_in() -> None:
    text = "x = [1, 2, (3, 4)]\n" * 400
    failures: list[SystemError] = []

    def parse() -> None:
        for _ in range(20):
            try:
                ast.parse(text)
            except SystemError as failure:
                failures.append(failure)

    def let_others_in(_phase: str, _info: dict[str, Any]) -> None:
        sum(range(200))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    gc.callbacks.append(let_others_in)
    try:
        threads = [threading.Thread(target=parse) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.callbacks.remove(let_others_in)
        sys.setswitchinterval(interval)
    assert failures == []
    assert gc.isenabled()
