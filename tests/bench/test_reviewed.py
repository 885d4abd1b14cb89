"""The faulty and the right programs of ``python -m bench.reviewed``: some of each."""

from __future__ import annotations

import pytest

pytest.importorskip("triton.experimental.gluon")

from bench.reviewed.__main__ import judge
from bench.reviewed.kinds import Fault
from bench.reviewed.programs import FAULTS, RIGHT

SMALL = ("bits", "rounds", "pairs", "scaled", "pointers", "stride2")
"""Kernels that are checked in a moment."""
ORDERS = ("initialised by one", "wgmma", "fence", "NaN", "N <= 1024")
"""Kinds of faults of which none is proved."""
FAULTY = [it for it in FAULTS if it.kernel in SMALL and any(word in it.name for word in ORDERS)]
HARMLESS = [it for it in RIGHT if it.kernel in SMALL]


def some(programs: list[Fault], count: int) -> list[Fault]:
    return programs[:: max(1, len(programs) // count)][:count]


@pytest.mark.parametrize("fault", some(FAULTY, 10), ids=lambda it: f"{it.kernel}: {it.name}")
def test_a_fault_is_not_proved_and_a_run_shows_it(fault: Fault) -> None:
    found = judge(fault, right=False)
    assert found.verdict != "proved" and found.run


@pytest.mark.parametrize("program", some(HARMLESS, 6), ids=lambda it: f"{it.kernel}: {it.name}")
def test_a_harmless_edit_is_not_refuted_and_no_run_goes_wrong(program: Fault) -> None:
    found = judge(program, right=True)
    assert found.verdict != "refuted" and not found.run


def test_names_are_unique_and_sentences_are_there() -> None:
    for programs in (FAULTS, RIGHT):
        assert len({(it.kernel, it.name) for it in programs}) == len(programs)
        assert all(it.why.endswith(".") for it in programs)
