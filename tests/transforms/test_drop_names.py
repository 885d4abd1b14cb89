"""`drop_names`: no name is left behind it, and nothing else changes."""

from __future__ import annotations

from tawa.analysis.names import name_module
from tawa.ir import print_module
from tawa.transforms.drop_names import DropNames
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import parse


def test_names_of_loads_stores_and_loops_go_and_the_program_is_as_it_was() -> None:
    module = parse(programs.persistent_gemm())
    before = print_module(module)
    name_module(module)
    named = print_module(module)
    assert "tawa.name" in named and "tawa.loop" in named
    DropNames().run(module)
    assert print_module(module) == before
