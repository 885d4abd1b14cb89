"""Every attention kernel compiles for a Hopper GPU, specialised where the list says so, without spills."""

from __future__ import annotations

import pytest

from tawa.bridge.report import report
from tawa.errors import UnsupportedKernel
from tawa.kernels.attention.cases import CASES
from tawa.kernels.case import Case
from tawa.plan import PlanOptions
from tests.matrix.compiling import compile_case, pinned

SERIALISED = ("C7510", "C7514", "C7515", "C7517")
FEW_REGISTERS = 64
"""Bytes: a few values, written and read once; which kernels need them differs from one ptxas to the next."""
TIGHT = ("two_loops_tile128x64_4warps",)
"""Sums, scores and weights of 128 rows in four warps are more than their registers hold."""


def distinct(verdict: str) -> list[object]:
    """The cases with a verdict, without those that differ from another in sizes only, which the compiler sees not."""
    found: dict[str, Case] = {}
    for case in CASES:
        if case.expect.verdict == verdict:
            compiled = (case.kernel.fn.__name__, case.signature(), case.constants(), case.attributes(), case.num_warps)
            found.setdefault(repr(compiled), case)
    return [pytest.param(case, id=case.name) for case in found.values()]


@pytest.mark.parametrize("case", distinct("specialised"))
def test_case_specialises_and_neither_spills_nor_serialises(case: Case) -> None:
    compiled = compile_case(case, pinned(*case.plans[0]))
    record = compiled.metadata.tawa
    assert record["applied"], record["reason"]
    assert {ring["depth"] for ring in record["plan"]["rings"]} == {case.plans[0][0]}
    found = report(compiled)
    assert found.ptxas.spill_bytes <= FEW_REGISTERS or case.name in TIGHT
    assert not [note.code for note in found.ptxas.notes if note.code in SERIALISED]


@pytest.mark.parametrize("case", distinct("either"))
def test_undecided_case_is_specialised_or_left_with_a_reason(case: Case) -> None:
    record = compile_case(case, PlanOptions()).metadata.tawa
    assert record["applied"] or record["reason"]


@pytest.mark.parametrize("case", distinct("declined"))
def test_declined_case_says_why(case: Case) -> None:
    with pytest.raises(UnsupportedKernel) as caught:
        compile_case(case, pinned(2, 0))
    assert case.expect.reason.lower() in caught.value.remark.reason.lower()
