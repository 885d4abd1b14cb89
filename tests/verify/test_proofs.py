"""Programs in `data/proofs`, as Triton prints them: a wrong one is never proved, and a right one is never refuted.

The last part of a name says which it is.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tawa.bridge.triton.read_module import read_ttgir
from tawa.verify.check import check_levels
from tawa.verify.verdict import Refuted
from tawa.verify.witness import describe
from tests.support.verdicts import passes

FILES = sorted((Path(__file__).parent / "data" / "proofs").glob("*.ttgir"))


@pytest.mark.parametrize("file", FILES, ids=lambda it: it.stem)
def test_a_wrong_program_is_never_proved_and_a_right_one_never_refuted(file: Path) -> None:
    verdict = check_levels(None, read_ttgir(file), effort="full")
    opposite = {".refuted": passes(verdict), ".proved": isinstance(verdict, Refuted)}
    assert not opposite[Path(file.stem).suffix], describe(verdict)


def test_there_are_wrong_and_right_programs() -> None:
    assert {Path(file.stem).suffix for file in FILES} == {".refuted", ".proved"}
