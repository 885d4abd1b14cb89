"""Every declined case compiles to the same bytes as in stock Triton, and the record states the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tawa.errors import UnsupportedKernel
from tawa.plan import PlanOptions
from tests.cases.case import Specimen
from tests.cases.gemm.cases import CASES
from tests.matrix.compiling import compile_case, compiled_pair, pinned
from tests.support.sample import sample

DECLINED = [pytest.param(case, id=case.name) for case in CASES if case.expect.verdict == "declined"]
EITHER = [pytest.param(case, id=case.name) for case in CASES if case.expect.verdict == "either"]


@pytest.mark.parametrize("case", sample(DECLINED, 4))
def test_declined_kernel_is_stock_byte_for_byte(case: Specimen) -> None:
    stock, ours = compiled_pair(case.name)
    assert not ours.metadata.tawa["applied"]
    assert ours.asm["ptx"] == stock.asm["ptx"]
    assert ours.asm["cubin"] == stock.asm["cubin"]


@pytest.mark.parametrize("case", DECLINED)
def test_declined_kernel_says_why_and_where(case: Specimen) -> None:
    """Whatever is predicted of it."""
    record = compile_case(case, PlanOptions(only_if_faster=False)).metadata.tawa
    assert not record["applied"]
    assert case.expect.reason.lower() in record["reason"].lower()
    assert Path(case.kernel.fn.__code__.co_filename).name in record["location"]


@pytest.mark.parametrize("case", DECLINED)
def test_pinning_a_declined_kernel_raises_with_the_same_reason(case: Specimen) -> None:
    with pytest.raises(UnsupportedKernel) as caught:
        compile_case(case, pinned(2, 1))
    assert case.expect.reason.lower() in caught.value.remark.reason.lower()


@pytest.mark.parametrize("case", EITHER)
def test_undecided_kernel_is_specialised_or_stock_never_between(case: Specimen) -> None:
    stock, ours = compiled_pair(case.name)
    if ours.metadata.tawa["applied"]:
        assert "aref.put" in ours.asm["aref"]
    else:
        assert ours.asm["cubin"] == stock.asm["cubin"]
