"""A kernel for which ptxas has too few registers is declined, or refused with an error that is Tawa's and Triton's."""

from __future__ import annotations

import pickle

import pytest

pytest.importorskip("triton")

from triton.runtime.errors import PTXASError

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.artifacts.few_registers import FewRegisters, registers_that_were_too_few
from tawa.errors import ResourceError
from tawa.plan import Plan, PlanOptions
from tests.cases.attention.cases import find
from tests.matrix.compiling import signature

LOG = "`ptxas` stderr:\nptxas fatal   : (C7602) Insufficient registers (72) to compile instruction at line 5"
ALLOCATION = (
    "ptxas info    : (C7512) Potential Performance Loss: insufficient register resources\n"
    "ptxas fatal   : (C7600) Register allocation failed with register count of '200'. Compile the program with a higher"
)


def test_only_these_errors_of_ptxas_are_meant() -> None:
    assert registers_that_were_too_few(PTXASError(LOG)) == 72
    assert registers_that_were_too_few(PTXASError(ALLOCATION)) == 200
    assert registers_that_were_too_few(PTXASError("fatal: Could not open output file")) is None
    assert registers_that_were_too_few(ValueError(LOG)) is None


def test_the_autotuner_skips_it_and_it_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(FewRegisters("too few; cure: fewer warps")))
    assert isinstance(error, PTXASError) and isinstance(error, ResourceError)
    assert str(error) == "too few; cure: fewer warps"


def test_a_plan_with_too_many_warps_is_refused_with_the_cure() -> None:
    case = find("two_loops_fp16_d64_full")
    request = Request(PlanOptions(enable_warp_specialization=True), Plan(groups=3, split="programs"))
    launched = {"num_warps": 8, "num_stages": 2}
    with (
        launched_by_us(),
        pytest.raises(FewRegisters, match=r"72 registers for each thread .* cure: fewer consumer groups"),
    ):
        compile_kernel(case.kernel, signature(case), request, **launched)
