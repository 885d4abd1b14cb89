"""Programs in `data/proofs`, as Triton prints them: a wrong one is never proved, and a right one is never refuted.

The last part of a name says which it is. Those in `OPEN` get the opposite verdict today.
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
OPEN = {
    "count_of_8_bits.refuted": "the count wraps after 128 iterations",
    "descriptor_overwritten_while_copies_read_it.refuted": "a copy reads its descriptor until it has landed",
    "no_release_where_k_is_at_most_the_program.refuted": "the fault needs a program with a large number",
    "parity_of_half_the_tiles.refuted": "the fault needs three tiles of one program",
    "round_wraps_at_three.refuted": "the fault needs three rounds",
    "second_ring_never_released.refuted": "the fault needs four tiles of one program",
    "trips_by_select_and_by_masked_load.proved": "two loads of one number have different defaults, which are not used",
    "while_loops_by_flag_and_by_number.proved": "two loops read the same numbers, but their conditions differ in form",
    "while_loops_by_two_comparisons.proved": "two loops read the same numbers, but their conditions differ in form",
}


def _case(file: Path) -> object:
    why = OPEN.get(file.stem)
    marks = [] if why is None else [pytest.mark.xfail(strict=True, raises=AssertionError, reason=why)]
    return pytest.param(file, id=file.stem, marks=marks)


@pytest.mark.parametrize("file", [_case(it) for it in FILES])
def test_a_wrong_program_is_never_proved_and_a_right_one_never_refuted(file: Path) -> None:
    verdict = check_levels(None, read_ttgir(file), effort="full")
    opposite = {".refuted": passes(verdict), ".proved": isinstance(verdict, Refuted)}
    assert not opposite[Path(file.stem).suffix], describe(verdict)


def test_every_open_program_is_there() -> None:
    assert {file.stem for file in FILES} >= OPEN.keys()
