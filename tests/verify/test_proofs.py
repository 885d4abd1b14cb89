"""Programs in `data/proofs`, as Triton prints them: each gets the verdict that the last part of its name says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tawa.bridge.triton.read_module import read_ttgir
from tawa.verify.check import check_levels
from tawa.verify.verdict import Proved, Refuted
from tawa.verify.witness import describe

FILES = sorted((Path(__file__).parent / "data" / "proofs").glob("*.ttgir"))
EXPECTED = {".refuted": Refuted, ".proved": Proved}


@pytest.mark.parametrize("file", FILES, ids=lambda it: it.stem)
def test_a_wrong_program_is_refuted_and_a_right_one_proved(file: Path) -> None:
    verdict = check_levels(None, read_ttgir(file), effort="full")
    assert isinstance(verdict, EXPECTED[Path(file.stem).suffix]), describe(verdict)


def test_there_are_wrong_and_right_programs() -> None:
    assert {Path(file.stem).suffix for file in FILES} == EXPECTED.keys()
