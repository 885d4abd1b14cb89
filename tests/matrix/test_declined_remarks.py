"""Remarks on kernels that are left to stock Triton."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tawa.bridge.driver.data import Specialised
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.report.record import make_record
from tawa.flow import Outcome
from tawa.plan import PlanOptions
from tawa.remarks import Remark
from tests.cases.case import Specimen
from tests.cases.gemm.cases import CASES as GEMMS
from tests.cases.pointers.cases import CASES as POINTERS
from tests.matrix.compiling import attempted
from tests.support.sample import sample

SOME_POINTERS = (*sample(POINTERS[::4], 6), *(it for it in POINTERS if it.expect.verdict == "declined"))
APPLIED = ("made by TMA", "taken for granted", "get a persistent form", "left to the stock kernel", "stages in", "P = ")


def declined(cases: Sequence[Specimen]) -> list[tuple[str, Outcome]]:
    found: list[tuple[str, Outcome]] = []
    for case in cases:
        if case.name.startswith("block_pointers"):  # removed in later releases of Triton
            continue
        with launched_by_us(True, case.kernel):
            made, _ = attempted(case, PlanOptions())
        if not isinstance(made, Specialised):
            found.append((case.name, made))
    return found


@pytest.mark.parametrize("cases", [sample(GEMMS, 6), SOME_POINTERS], ids=["gemm", "pointers"])
def test_remarks_on_declined_kernels_mention_no_changes(cases: Sequence[Specimen]) -> None:
    found = declined(cases)
    request = Request(PlanOptions())
    for name, outcome in found:
        record = make_record(name, request, request.options, outcome, {}, 0.0)
        said = [remark["reason"] for remark in record["remarks"]]
        assert said and record["reason"] == said[0] == outcome.remarks[0].reason
        assert not [text for text in said[1:] if any(words in text for words in APPLIED)], name
    dropped = [it for _, outcome in found for it in outcome.remarks if it.kind == "done"]
    assert found and (dropped or cases is not SOME_POINTERS)  # so that the test can fail


def test_changes_are_remarked_on_specialised_kernels_only() -> None:
    remarks = (Remark("note", "head"), Remark("done", "changed"), Remark("note", "why not"))
    request = Request(PlanOptions())
    for applied in (True, False):
        made = make_record("kernel", request, request.options, Outcome(applied, None, remarks), {}, 0.0)
        said = [remark["reason"] for remark in made["remarks"]]
        assert said == (["head", "changed", "why not"] if applied else ["head", "why not"])
