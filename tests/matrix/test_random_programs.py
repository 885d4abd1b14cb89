"""A few random programs in every test run; `tests.cases.random.programs` runs hundreds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings

from tawa.ir import Module, parse_module
from tawa.sim.errors import SimulationError
from tests.cases.random.programs import TILES_ON, examine, options_of
from tests.cases.random.source import Recipe, case_of, load_kernel, recipes
from tests.cases.random.text import render
from tests.cases.simulated import simulated, unspecialised
from tests.matrix.compiling import specialised_levels
from tests.support.sample import examples

PLAIN = Recipe(
    "fp16", (64, 64, 32), 4, "one", "for", "one", "carried", "given", 3, "none", "none", "none", "none", ("bias",),
    False, "descriptors", "masked", 0, False, False, "pointer", False, 0, 2, 1, None,
)  # fmt: skip


@given(recipes())
@settings(max_examples=examples(12), derandomize=True, database=None, phases=(Phase.generate,),
          suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large))  # fmt: skip
def test_a_random_program_compiles_and_keeps_its_bits(tmp_path_factory: pytest.TempPathFactory, recipe: Recipe) -> None:
    note(render(recipe))
    found = examine(recipe, tmp_path_factory.mktemp("program"))
    assert found.status != "failed", found.reason


@given(recipes())
@settings(max_examples=examples(6), derandomize=True, database=None, phases=(Phase.generate,),
          suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large))  # fmt: skip
def test_a_random_program_made_persistent_keeps_its_bits(
    tmp_path_factory: pytest.TempPathFactory, recipe: Recipe
) -> None:
    note(render(recipe))
    found = examine(recipe, tmp_path_factory.mktemp("program"), TILES_ON)
    assert found.status != "failed", found.reason


@given(recipes())
@settings(max_examples=examples(6), derandomize=True, database=None, phases=(Phase.generate,),
          suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large))  # fmt: skip
def test_a_random_program_that_shares_a_cta_keeps_its_bits(
    tmp_path_factory: pytest.TempPathFactory, recipe: Recipe
) -> None:
    note(render(recipe))
    found = examine(recipe, tmp_path_factory.mktemp("program"), programs=3)
    assert found.status != "failed", found.reason


@pytest.mark.parametrize("loads", ["descriptors", "pointers"])
def test_a_plain_program_is_specialised_as_a_persistent_one(tmp_path: Path, loads: str) -> None:
    assert examine(replace(PLAIN, loads=loads), tmp_path, TILES_ON).status == "specialised"


def test_a_plain_program_is_specialised(tmp_path: Path) -> None:
    assert examine(PLAIN, tmp_path).status == "specialised"


@pytest.mark.parametrize(
    "recipe",
    [
        replace(PLAIN, dots="softmax", offset="listed", groups=None),
        replace(PLAIN, dots="three", order="while", nest="two", guard="every other"),
        replace(PLAIN, loads="pointers", advanced=True),
        replace(PLAIN, dots="gate", nest="nested", trips="loaded", beside=True),
        replace(PLAIN, order="tile", exit="loaded"),
    ],
    ids=("softmax", "three dots", "carried pointers", "nested", "exit"),
)
def test_a_recipe_becomes_the_source_of_a_kernel(recipe: Recipe, tmp_path: Path) -> None:
    kernel = load_kernel(render(recipe), tmp_path)
    case = case_of(recipe, kernel, "program")
    assert list(case.signature()) == list(kernel.arg_names)


def without(text: str, op: str, which: int) -> Module:
    """A level with one operation, given by name and number, removed."""
    module = parse_module(text)
    [it for it in module.walk() if it.name == op][which].erase()
    return module


def test_a_missing_wait_is_detected(tmp_path: Path) -> None:
    case = case_of(PLAIN, load_kernel(render(PLAIN), tmp_path), "program")
    levels = specialised_levels(case, options_of(PLAIN))
    wanted = simulated(case, unspecialised(case, levels))["c"].tobytes()
    waits = levels.asm["barrier"].count('"ttng.wait_barrier"')
    noticed = 0
    for which in range(waits):
        try:
            broken = simulated(case, without(levels.asm["barrier"], "ttng.wait_barrier", which), "late")
            noticed += broken["c"].tobytes() != wanted
        except SimulationError:
            noticed += 1
    assert waits > 1 and noticed == waits


@pytest.mark.parametrize("exit", ["rows", "loaded", "instead", "branch", "behind a store"])
def test_a_program_that_returns_early_is_specialised_and_keeps_its_bits(exit: Any, tmp_path: Path) -> None:
    assert examine(replace(PLAIN, order="tile", exit=exit), tmp_path).status == "specialised"


@pytest.mark.parametrize("dots", ["one", "gate", "softmax"])
def test_sums_that_a_while_carries_keep_their_bits(dots: Any, tmp_path: Path) -> None:
    assert examine(replace(PLAIN, dots=dots, nest="while"), tmp_path).status == "specialised"
