"""The protocols of ``python -m bench.protocols``: some of each topic."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("triton.experimental.gluon")

from bench.protocols.__main__ import judge
from bench.protocols.programs import Program, programs, topics

pytestmark = pytest.mark.usefixtures("without_ptx")

ONCE_PROVED = (
    *("volatile", "box_small", "triangular", "given", "start_high", "difference", "low_bits_parity"),
    *("wide_argument", "stages"),
)
"""Faults that were proved before they were found here."""


def some(right: bool) -> list[Program]:
    """One program of each topic."""
    found = {it.topic: it for it in programs() if it.right == right and not it.bound}
    return list(found.values())


@pytest.mark.parametrize("program", some(right=False), ids=lambda it: f"{it.topic}: {it.name}")
def test_a_fault_is_not_proved(program: Program, tmp_path: Path) -> None:
    assert judge(program, tmp_path).verdict in ("refuted", "checked", "unknown")


@pytest.mark.parametrize("name", ONCE_PROVED)
def test_a_fault_that_was_proved_once_is_not_proved(name: str, tmp_path: Path) -> None:
    program = next(it for it in programs() if it.name == name and not it.right)
    assert judge(program, tmp_path).verdict in ("refuted", "checked", "unknown")


@pytest.mark.parametrize("program", some(right=True)[::2], ids=lambda it: f"{it.topic}: {it.name}")
def test_a_right_program_is_not_refuted(program: Program, tmp_path: Path) -> None:
    assert judge(program, tmp_path).verdict in ("proved", "checked", "unknown")


def test_each_program_has_a_name_of_its_own_and_says_why() -> None:
    found = programs()
    assert len({(it.topic, it.name) for it in found}) == len(found) and all(it.why for it in found)
    assert {it.topic for it in found} == set(topics())
